//! A value as YAML, with room for a comment behind each line.
//!
//! No crate for writing YAML puts a comment behind a value, which is what origins are for. What it writes is YAML that
//! [`super::reader`] reads back to the same value: text that could be taken for another type, or that has anything
//! but the plainest characters in it, stands in quotes.

use std::fmt::Write as _;

use serde_json::Value;

use super::tree::Step;
use super::{scalar, tree};

/// Widest list that stands on one line.
const WIDEST: usize = 80;
/// Comments stand in one column, unless a line is longer than this.
const MOST_BEFORE_COMMENT: usize = 56;

/// A line, and the path whose comment stands behind it.
struct Line {
    text: String,
    path: Option<Vec<Step>>,
}

/// `value` as YAML. `text` says how the text at a path is written before it is quoted; `comment` what stands behind it.
pub(super) fn write(
    value: &Value,
    text: &dyn Fn(&[Step], &str) -> String,
    comment: &dyn Fn(&[Step]) -> Option<String>,
) -> String {
    let mut writer = Writer { text, lines: Vec::new() };
    writer.block(value, &mut Vec::new(), 0, "");
    let comments: Vec<Option<String>> =
        writer.lines.iter().map(|line| line.path.as_deref().and_then(comment)).collect();
    let widths = writer.lines.iter().zip(&comments).filter(|(_, comment)| comment.is_some());
    let column = widths
        .map(|(line, _)| line.text.chars().count())
        .filter(|width| *width <= MOST_BEFORE_COMMENT)
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for (line, comment) in writer.lines.iter().zip(comments) {
        let _ = match comment {
            Some(comment) => writeln!(out, "{:column$}  # {comment}", line.text),
            None => writeln!(out, "{}", line.text),
        };
    }
    out
}

struct Writer<'a> {
    text: &'a dyn Fn(&[Step], &str) -> String,
    lines: Vec<Line>,
}

impl Writer<'_> {
    /// `first` is what stands before the value on its first line: a key, a dash.
    fn block(&mut self, value: &Value, path: &mut Vec<Step>, indent: usize, first: &str) {
        if let Some(text) = self.on_one_line(value, path) {
            self.lines.push(Line { text: format!("{first}{text}"), path: Some(path.clone()) });
            return;
        }
        let mut first = first.trim_end().to_owned();
        let is_element = first.ends_with('-');
        let below = if path.is_empty() { indent } else { indent + 2 };
        if !is_element && !first.is_empty() {
            self.lines.push(Line { text: std::mem::take(&mut first), path: None });
        }
        let mut lead = |begin: String| {
            // The first entry of an element stands behind its dash.
            if first.is_empty() {
                format!("{:below$}{begin}", "")
            } else {
                format!("{} {begin}", std::mem::take(&mut first))
            }
        };
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    path.push(Step::Key(key.clone()));
                    let begin = lead(format!("{}: ", quoted(key)));
                    self.block(value, path, below, &begin);
                    path.pop();
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    path.push(Step::Index(index));
                    let begin = lead("- ".to_owned());
                    self.block(value, path, below, &begin);
                    path.pop();
                }
            }
            _ => {}
        }
    }

    /// A scalar, an empty collection, or a short list of scalars.
    fn on_one_line(&self, value: &Value, path: &mut Vec<Step>) -> Option<String> {
        match value {
            Value::Object(map) => map.is_empty().then(|| "{}".to_owned()),
            Value::Array(list) => {
                let mut all = Vec::new();
                for (index, value) in list.iter().enumerate() {
                    path.push(Step::Index(index));
                    let text = (!value.is_array() && !value.is_object()).then(|| self.scalar(value, path));
                    path.pop();
                    all.push(text?);
                }
                let text = format!("[{}]", all.join(", "));
                (text.chars().count() <= WIDEST || list.len() <= 1).then_some(text)
            }
            scalar => Some(self.scalar(scalar, path)),
        }
    }

    fn scalar(&self, value: &Value, path: &[Step]) -> String {
        match value {
            Value::String(text) => quoted(&(self.text)(path, text)),
            other => other.to_string(),
        }
    }
}

/// Text as a scalar of YAML, in quotes where it needs them.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-+@=:".contains(c);
    let is_plain = text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && !text.ends_with(':')
        && matches!(scalar::resolve(text), tree::Value::Text(_))
        // Text for other readers of YAML: truth values of its first version, and times.
        && !matches!(text.to_lowercase().as_str(), "y" | "n" | "yes" | "no" | "on" | "off")
        && !text.bytes().all(|b| b.is_ascii_digit() || b":_".contains(&b));
    if is_plain {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if super::source::hides(c) || !is_printable(c) => {
                let _ = if u32::from(c) <= 0xffff {
                    write!(out, "\\u{:04x}", u32::from(c))
                } else {
                    write!(out, "\\U{:08x}", u32::from(c))
                };
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// What YAML takes without an escape.
fn is_printable(c: char) -> bool {
    !matches!(c, '\u{fffe}' | '\u{ffff}') && !c.is_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::config::reader;
    use crate::config::tree::Node;

    fn plainly(value: &Value) -> String {
        write(value, &|_, text| text.to_owned(), &|_| None)
    }

    fn to_json(node: &Node) -> Value {
        match &node.value {
            tree::Value::Null | tree::Value::StandIn(_) => Value::Null,
            tree::Value::Bool(is) => json!(is),
            tree::Value::Int(whole) => json!(i64::try_from(*whole).unwrap()),
            tree::Value::Float(number, _) => json!(number),
            tree::Value::Text(text) => json!(text),
            tree::Value::List(list) => list.iter().map(to_json).collect(),
            tree::Value::Map(map) => map.iter().map(|(key, node)| (key.clone(), to_json(node))).collect(),
        }
    }

    #[test]
    fn what_it_looks_like() {
        let value = json!({
            "name": "qwen", "version": 1, "on": "yes", "fraction": 0.8, "none": null, "empty": [], "nothing": {},
            "nodes": [{ "name": "a", "list": [1, "2"] }, { "name": "b" }], "before": [["a", "b c"], ["d"]],
            "text": "two\nlines", "time": "1:30", "image": "a/b:1", "looks": "0x1f", "sign": "- x", "end": "x:",
        });
        let expected = r#"
name: qwen
version: 1
"on": "yes"
fraction: 0.8
none: null
empty: []
nothing: {}
nodes:
  - name: a
    list: [1, "2"]
  - name: b
before:
  - [a, "b c"]
  - [d]
text: "two\nlines"
time: "1:30"
image: a/b:1
looks: "0x1f"
sign: "- x"
end: "x:"
"#;
        assert_eq!(plainly(&value), expected.trim_start());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[-a0:#'\"{}\\[\\], ~.\\n\\t&*!|>%@`?xon]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[-a0: #\"<=]{0,4}", inner, 0..5)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in values()) {
            let written = plainly(&value);
            let read = reader::read(&written).unwrap_or_else(|error| panic!("{error:?}\n{written}"));
            prop_assert_eq!(read.root.as_ref().map(to_json), Some(value), "{}", written);
        }
    }
}
