//! Any YAML file as plain values with their places, for readers of formats that are not the profile's.
//!
//! Syntax, limits and mistakes are those of profiles. Left out on purpose: what the values mean.

use super::extend::LONGEST;
use super::reader::{self, Read};
use super::report::{ConfigError, Mistake};
use super::source::Sources;
use super::tree::{Node, Value};

/// A value and the line that it begins in, where it is text in a block the line of its first word; lines count from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Any {
    pub line: usize,
    pub value: AnyValue,
}

/// What YAML's core schema knows.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyValue {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    List(Vec<Any>),
    /// In the order of the file.
    Map(Vec<(String, Any)>),
}

impl Any {
    /// The value of a key, where this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The entries of a map; of anything else none.
    pub fn entries(&self) -> &[(String, Self)] {
        if let AnyValue::Map(map) = &self.value { map } else { &[] }
    }

    /// The elements of a list; of anything else none.
    pub fn elements(&self) -> &[Self] {
        if let AnyValue::List(list) = &self.value { list } else { &[] }
    }

    /// Text that is there.
    pub fn text(&self) -> Option<&str> {
        if let AnyValue::Text(text) = &self.value { Some(text) } else { None }
    }
}

/// Reads one YAML document; `file_name` is what messages call it. The second part has what is wrong with it and
/// does not keep it from being read, such as a key that is there twice (the later one counts).
///
/// # Errors
///
/// What keeps the text from being read at all. An empty document is a null.
pub fn read(file_name: &str, text: &str) -> Result<(Any, Vec<Mistake>), ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let sources = Sources::new(file_name, text);
    if text.len() > LONGEST {
        let message = format!("the text is larger than {} KiB", LONGEST / 1024);
        return Err(ConfigError::new(sources, vec![Mistake::new("", message)]));
    }
    match reader::read(text) {
        Ok(Read { root, wrong, .. }) => {
            let empty = Any { line: 1, value: AnyValue::Null };
            Ok((root.map_or(empty, plain), ConfigError::new(sources, wrong).problems().to_vec()))
        }
        Err(mistake) => Err(ConfigError::new(sources, vec![*mistake])),
    }
}

fn plain(node: Node) -> Any {
    let line = node.place.line.max(1);
    let value = match node.value {
        Value::Null | Value::StandIn(_) => AnyValue::Null,
        Value::Bool(is) => AnyValue::Bool(is),
        Value::Int(whole) => AnyValue::Whole(whole),
        Value::Float(number, _) => AnyValue::Float(number),
        Value::Text(text) => AnyValue::Text(text),
        Value::List(list) => AnyValue::List(list.into_iter().map(plain).collect()),
        Value::Map(map) => AnyValue::Map(map.into_iter().map(|(key, node)| (key, plain(node))).collect()),
    };
    Any { line, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_lines() {
        let text = "a: 1\nb:\n  - x\n  - { c: true }\nd: |\n  first\n  second\ne: 0.70\n";
        let (any, wrong) = read("a.yaml", text).expect("it is YAML");
        assert_eq!(wrong, []);
        let lines: Vec<_> = any.entries().iter().map(|(key, value)| (key.as_str(), value.line)).collect();
        assert_eq!(lines, [("a", 1), ("b", 3), ("d", 6), ("e", 8)]);
        assert_eq!(any.get("d").and_then(Any::text), Some("first\nsecond\n"));
        assert_eq!(any.get("e").map(|e| &e.value), Some(&AnyValue::Float(0.7)));
        assert_eq!(any.get("b").map(|b| b.elements()[1].line), Some(4));
    }

    #[test]
    fn of_a_key_that_is_there_twice_the_later_counts() {
        let (any, wrong) = read("a.yaml", "a: 1\na: 2\n").expect("it is YAML");
        assert_eq!(any.get("a").map(|a| &a.value), Some(&AnyValue::Whole(2)));
        assert_eq!(wrong.len(), 1);
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        let error = read("a.yaml", "a: [1\nb: 2\n").expect_err("the list is not closed");
        assert!(error.to_string().contains("a.yaml:"), "{error}");
        assert_eq!(read("a.yaml", "# nothing\n").expect("it is empty").0.value, AnyValue::Null);
    }
}
