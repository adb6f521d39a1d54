//! Documents that lie on nodes and may have been written by another version of sparkctl: read as far as they are
//! understood. What is not understood is named, so that nobody writes such a document over. Pure.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// So many unknown fields are passed over; what has more is another document.
const MOST: usize = 200;

/// Reads a document, and names the fields of it that are not known here. The error is words.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> Result<(T, Vec<String>), String> {
    let strictly = match serde_json::from_slice(json) {
        Ok(whole) => return Ok((whole, Vec::new())),
        Err(error) => error.to_string(),
    };
    let Ok(mut document) = serde_json::from_slice::<Value>(json) else { return Err(strictly) };
    let mut unknown = Vec::new();
    // The types are strict, as what a person writes is read by the same ones: each field that they do not know is taken
    // out, and the rest is read again.
    while unknown.len() < MOST {
        let error = match serde_path_to_error::deserialize(document.clone()) {
            Ok(read) => return Ok((read, unknown)),
            Err(error) => error,
        };
        let why = error.inner().to_string();
        let field = why.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        match field.and_then(|field| take_out(&mut document, error.path(), field)) {
            Some(place) => unknown.push(place),
            None if unknown.is_empty() => return Err(strictly),
            None => {
                let place = error.path().to_string();
                return Err(if place == "." { why } else { format!("{why}, at `{place}`") });
            }
        }
    }
    Err(strictly)
}

/// Takes a field out of the document; its place, or `None` where it is not there.
fn take_out(document: &mut Value, path: &Path, field: &str) -> Option<String> {
    let mut segments: Vec<_> = path.iter().collect();
    // The path ends with the field itself, unless its struct was read from a copy of it.
    if matches!(segments.last(), Some(Segment::Map { key }) if key == field) {
        segments.pop();
    }
    let mut at = document;
    let mut place = String::new();
    for segment in segments {
        at = match segment {
            Segment::Seq { index } => at.get_mut(*index)?,
            Segment::Map { key } | Segment::Enum { variant: key } => at.get_mut(key.as_str())?,
            Segment::Unknown => return None,
        };
        if !place.is_empty() && !matches!(segment, Segment::Seq { .. }) {
            place.push('.');
        }
        place.push_str(&segment.to_string());
    }
    at.as_object_mut()?.shift_remove(field)?;
    Some(if place.is_empty() { field.to_owned() } else { format!("{place}.{field}") })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        x: u32,
        #[serde(default)]
        how: BTreeMap<String, How>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    enum How {
        Fast { x: u32 },
        Slow,
    }

    fn parts(json: &str) -> Result<(Vec<Part>, Vec<String>), String> {
        read(json.as_bytes())
    }

    #[test]
    fn unknown_fields_are_passed_over_and_named() {
        let check = |json: &str, xs: &[u32], unknown: &[&str]| {
            let (read, named) = parts(json).unwrap();
            assert_eq!(read.iter().map(|part| part.x).collect::<Vec<_>>(), xs, "{json}");
            assert_eq!(named, unknown, "{json}");
        };
        check(r#"[{"x": 1}]"#, &[1], &[]);
        check(r#"[{"x": 1}, {"y": {"x": 3}, "x": 2, "z": []}]"#, &[1, 2], &["[1].y", "[1].z"]);
        check(
            r#"[{"x": 1, "how": {"y": {"fast": {"x": 1, "y": 2}}, "x": "slow"}}]"#,
            &[1],
            &["[0].how.y.fast.y"],
        );
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let check = |json: &str, told: &str| {
            let why = parts(json).unwrap_err();
            assert!(why.contains(told), "{json}: {why}");
        };
        check("[{", "EOF");
        check("[{}]", "missing field `x`");
        check(r#"[{"y": 1}]"#, "missing field `x`");
        check(r#"[{"x": 1, "how": {"a": "sideways"}}]"#, "unknown variant `sideways`");
    }
}
