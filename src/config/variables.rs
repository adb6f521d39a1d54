//! `${NAME}` and `${NAME:-default}` in values: taken from the environment of whoever runs sparkctl.
//!
//! `$$` is a `$`; any other `$` is one too, so `$HOME` in a command stays as it is. What comes out of a value without
//! quotes is read as if it had stood there (`port: ${PORT}` is a number); a quoted one stays text. Keys are left
//! alone, and so is what a secret is fetched by. The environment itself is the caller's: nothing here reads it.

use super::report::Mistake;
use super::scalar;
use super::source::Place;
use super::tree::{self, Node, Step, Value, Variant};
use crate::profile::is_verbatim;

/// The value of a variable, where it is set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Puts values for all variables in the tree; where one is not set, a stand-in for the value it is in.
pub(super) fn substitute(
    node: &mut Node,
    path: &mut Vec<Step>,
    environment: Environment<'_>,
    mistakes: &mut Vec<Mistake>,
) {
    match &mut node.value {
        Value::Text(text) if has_sign(text) && !is_verbatim(&tree::names(path)) => {
            match expand(text, environment) {
                Ok(Expanded { text, variables }) => {
                    node.value = if node.is_plain { scalar::resolve(&text) } else { Value::Text(text) };
                    node.variables = variables;
                }
                Err(wrong) => {
                    let is_quoted = node.place.width == text.chars().count() + 2;
                    let is_one_line = is_quoted || node.place.width == text.chars().count();
                    for Unusable { at, width, message, help } in wrong {
                        let column = node.place.column + at + usize::from(is_quoted);
                        let place =
                            if is_one_line { Place { column, width, ..node.place } } else { node.shown() };
                        mistakes.push(Mistake::new(tree::written(path), message).at(place).help(help));
                    }
                    node.value = Value::StandIn(Variant::First);
                }
            }
        }
        Value::List(list) => {
            for (index, child) in list.iter_mut().enumerate() {
                path.push(Step::Index(index));
                substitute(child, path, environment, mistakes);
                path.pop();
            }
        }
        Value::Map(map) => {
            for (key, child) in map {
                path.push(Step::Key(key.clone()));
                substitute(child, path, environment, mistakes);
                path.pop();
            }
        }
        _ => {}
    }
}

/// `text` so that it is read back as itself.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '$' && matches!(rest.peek(), Some('$' | '{')) {
            out.push('$');
        }
    }
    out
}

fn has_sign(text: &str) -> bool {
    text.contains("${") || text.contains("$$")
}

#[derive(Debug, PartialEq, Eq)]
struct Expanded {
    text: String,
    /// The variables whose values are in it.
    variables: Vec<String>,
}

/// A `${...}` that has no value.
#[derive(Debug, PartialEq, Eq)]
struct Unusable {
    /// Where it begins, in characters.
    at: usize,
    width: usize,
    message: String,
    help: String,
}

fn expand(text: &str, environment: Environment<'_>) -> Result<Expanded, Vec<Unusable>> {
    let mut out = Expanded { text: String::new(), variables: Vec::new() };
    let mut wrong = Vec::new();
    let mut rest = text;
    while let Some(sign) = rest.find('$') {
        out.text.push_str(&rest[..sign]);
        let from = &rest[sign..];
        if let Some(after) = from.strip_prefix("$$") {
            out.text.push('$');
            rest = after;
        } else if from.starts_with("${") {
            let long = from.find('}').map_or(from.len(), |end| end + 1);
            match value(&from[..long], environment) {
                Ok((value, name)) => {
                    out.text.push_str(&value);
                    out.variables.extend(name);
                }
                Err((message, help)) => wrong.push(Unusable {
                    at: text[..text.len() - from.len()].chars().count(),
                    width: from[..long].chars().count(),
                    message,
                    help,
                }),
            }
            rest = &from[long..];
        } else {
            out.text.push('$');
            rest = &from[1..];
        }
    }
    out.text.push_str(rest);
    if wrong.is_empty() { Ok(out) } else { Err(wrong) }
}

/// What `${...}` stands for, and the variable where it is one's value.
fn value(written: &str, environment: Environment<'_>) -> Result<(String, Option<String>), (String, String)> {
    let literal = || "write `$$` for a `$` that is meant as it is".to_owned();
    let Some(inner) = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return Err(("a `${` is not closed by a `}`".to_owned(), literal()));
    };
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || !name.bytes().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("`{written}` is not `${{NAME}}` or `${{NAME:-default}}`");
        return Err((message, literal()));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(("a default cannot have a variable in it".to_owned(), "write its value".to_owned()));
    }
    match (environment(name), default) {
        (Some(value), None) => Ok((value, Some(name.to_owned()))),
        (Some(value), Some(_)) if !value.is_empty() => Ok((value, Some(name.to_owned()))),
        (_, Some(default)) => Ok((default.to_owned(), None)),
        (None, None) => {
            let help = format!("set it (`export {name}=...`), or write `${{{name}:-default}}`");
            Err((format!("the variable `{name}` is not set in the environment"), help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "A" => Some("1".to_owned()),
            "SIGN" => Some("${A}$$".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn what_stands_for_what() {
        for (text, expected, variables) in [
            ("${A}", "1", &["A"][..]),
            ("x${A}y${A}", "x1y1", &["A", "A"]),
            ("${NONE:-2}", "2", &[]),
            ("${NONE:-}", "", &[]),
            ("${EMPTY}", "", &["EMPTY"]),
            ("${EMPTY:-3}", "3", &[]),
            ("${A:-3}", "1", &["A"]),
            ("${NONE:-a:-b $c}", "a:-b $c", &[]),
            // What a variable holds is not looked into again.
            ("${SIGN}", "${A}$$", &["SIGN"]),
            ("$${A}", "${A}", &[]),
            ("$$${A}", "$1", &["A"]),
            ("$$$$", "$$", &[]),
            ("$HOME $1 $(x) $", "$HOME $1 $(x) $", &[]),
        ] {
            let expanded = expand(text, &environment).unwrap();
            assert_eq!(
                (expanded.text.as_str(), expanded.variables.len()),
                (expected, variables.len()),
                "{text}"
            );
            assert_eq!(expanded.variables, variables, "{text}");
        }
    }

    #[test]
    fn what_stands_for_nothing() {
        for (text, at, width, told) in [
            ("é${NONE}", 1, 7, "`NONE` is not set"),
            ("${", 0, 2, "not closed"),
            ("a ${A", 2, 3, "not closed"),
            ("${}", 0, 3, "is not `${NAME}`"),
            ("${1A}", 0, 5, "is not `${NAME}`"),
            ("${A-b}", 0, 6, "is not `${NAME}`"),
            ("${A:?x}", 0, 7, "is not `${NAME}`"),
            ("${NONE:-${A}}", 0, 12, "cannot have a variable in it"),
        ] {
            let wrong = expand(text, &environment).unwrap_err();
            assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
            assert_eq!((wrong[0].at, wrong[0].width), (at, width), "{text}");
            assert!(wrong[0].message.contains(told), "{text}: {}", wrong[0].message);
        }
        assert_eq!(expand("${X} ${A} ${Y}", &environment).unwrap_err().len(), 2);
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_read_back(text in "[$\\{\\}A:\\-é ]{0,12}") {
            prop_assert_eq!(expand(&escape(&text), &environment).unwrap().text, text);
        }
    }
}
