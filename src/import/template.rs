//! `{placeholder}` templates, as Python's `str.format` and sparkrun fill them.
//!
//! Both dialects in one pass from left to right: a placeholder gives way to its value, a doubled brace that opened is
//! one brace and so is the doubled one that closes it, and every other brace stays what it is, so JSON may stand in a
//! template plainly or with doubled braces. In version 2 the values are templates themselves.

use std::collections::BTreeMap;

use super::recipe::Format;

/// Mark the name of a placeholder that has no value, so that the word it is in can be told. Of Unicode's private use.
pub(super) const UNKNOWN: [char; 2] = ['\u{f0000}', '\u{f0001}'];
/// Values in values in values: more than this is a circle.
const DEEPEST: usize = 8;
/// More than any command is; what grows beyond it is a trap.
const LONGEST: usize = 1 << 18;

/// `template` with the values of `values` in it.
pub(super) fn fill(template: &str, values: &BTreeMap<String, String>, format: Format) -> String {
    let mut out = String::new();
    fill_into(&mut out, template, values, format, 0);
    out
}

fn fill_into(
    out: &mut String,
    template: &str,
    values: &BTreeMap<String, String>,
    format: Format,
    depth: usize,
) {
    // Which braces are open: doubled ones (true), or plain ones (false).
    let mut open = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        if out.len() > LONGEST {
            return;
        }
        let is_variable = rest[..at].ends_with('$');
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((placeholder, after)) = placeholder(rest) {
            match values.get(placeholder.name) {
                Some(value) if format == Format::Sparkrun && depth < DEEPEST => {
                    fill_into(out, &shaped(value, &placeholder), values, format, depth + 1);
                }
                Some(value) => out.push_str(&shaped(value, &placeholder)),
                None if is_variable => out.push_str(&rest[..rest.len() - after.len()]),
                None => out.extend([&UNKNOWN[0].to_string(), placeholder.name, &UNKNOWN[1].to_string()]),
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{{") {
            open.push(true);
            out.push('{');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            open.push(false);
            out.push('{');
            rest = after;
        } else {
            // A plain brace that is open is closed by one; anything else by what it was opened with.
            let doubled = open.pop() != Some(false) && rest.starts_with("}}");
            out.push('}');
            rest = &rest[if doubled { 2 } else { 1 }..];
        }
    }
    out.push_str(rest);
}

/// `{name}`, `{name!r}` or `{name:.2f}`.
struct Placeholder<'a> {
    name: &'a str,
    conversion: &'a str,
    shape: &'a str,
}

/// The placeholder that `text` begins with, and what is behind it.
fn placeholder(text: &str) -> Option<(Placeholder<'_>, &str)> {
    let (inner, after) = text.strip_prefix('{')?.split_once('}')?;
    let (inner, shape) = inner.split_once(':').unwrap_or((inner, ""));
    let (name, conversion) = inner.split_once('!').unwrap_or((inner, ""));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let shaped = shape.chars().all(|c| c.is_ascii_alphanumeric() || ".,<>+".contains(c));
    (begins && plain && shaped && ["", "r", "s", "a"].contains(&conversion))
        .then_some((Placeholder { name, conversion, shape }, after))
}

/// A value in the shape that a placeholder asks for: `.2f`, `d`, `!r`; any other shape leaves it as it is.
fn shaped(value: &str, placeholder: &Placeholder<'_>) -> String {
    let places = placeholder.shape.strip_prefix('.').and_then(|shape| shape.strip_suffix('f'));
    if let (Some(Ok(places)), Ok(number)) = (places.map(str::parse::<usize>), value.parse::<f64>()) {
        return format!("{number:.*}", places.min(20));
    }
    if placeholder.conversion == "r" && value.parse::<f64>().is_err() {
        return format!("'{value}'");
    }
    value.to_owned()
}

/// A text with its unknown placeholders as they were written.
pub(super) fn shown(text: &str) -> String {
    text.replace(UNKNOWN[0], "{").replace(UNKNOWN[1], "}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, v1: &str, v2: &str) {
        let values = [
            ("port", "8000"),
            ("n", "3"),
            ("fraction", "0.875"),
            ("hf-overrides", "{\"a\": {\"b\": {n}}}"),
            ("url", "http://x:{port}"),
            ("empty", ""),
            ("circle", "{circle}"),
            ("config.port", "8000"),
        ];
        let values = values.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(fill(template, &values, Format::SparkVllmDocker), v1, "{template}, version 1");
        assert_eq!(fill(template, &values, Format::Sparkrun), v2, "{template}, version 2");
    }

    #[test]
    fn placeholders_give_way_to_values() {
        check("--port {port}", "--port 8000", "--port 8000");
        check("{port}{empty}{n}", "80003", "80003");
        check("{fraction:.2f} {n:d} {port!r}", "0.88 3 8000", "0.88 3 8000");
        check("{config.port}", "8000", "8000");
    }

    #[test]
    fn json_stands_plainly_or_with_doubled_braces() {
        check(r#"'{{"a":{{"n":{n}}}}}'"#, r#"'{"a":{"n":3}}'"#, r#"'{"a":{"n":3}}'"#);
        check(r#"'{"a":{"n":{n}}}'"#, r#"'{"a":{"n":3}}'"#, r#"'{"a":{"n":3}}'"#);
        check(
            r#"'{{"a":1}}' '{"b":{"c":2}}'"#,
            r#"'{"a":1}' '{"b":{"c":2}}'"#,
            r#"'{"a":1}' '{"b":{"c":2}}'"#,
        );
        check(r"{{{n}}}", "{3}", "{3}");
        check("a } b {", "a } b {", "a } b {");
    }

    #[test]
    fn values_are_templates_in_version_2_only() {
        check("{hf-overrides}", r#"{"a": {"b": {n}}}"#, r#"{"a": {"b": 3}}"#);
        check("{url}", "http://x:{port}", "http://x:8000");
    }

    #[test]
    fn what_has_no_value_is_marked() {
        check("--x {nothing}", "--x \u{f0000}nothing\u{f0001}", "--x \u{f0000}nothing\u{f0001}");
        check("${HOME:-/root}/x ${PATH}", "${HOME:-/root}/x ${PATH}", "${HOME:-/root}/x ${PATH}");
    }

    #[test]
    fn a_circle_ends() {
        let values = [("a".to_owned(), "{a}{a}{a}".to_owned())].into();
        assert!(fill("{a}", &values, Format::Sparkrun).len() < 1 << 20);
    }
}
