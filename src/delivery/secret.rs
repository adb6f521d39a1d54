//! Values of secrets, and the file that a node keeps them in. Pure.
//!
//! Whether a value changed is found out on the node, by comparing with what lies there. A digest in the release's
//! record would do as well, but whoever reads it could try guesses against it, however slow it is to compute; and the
//! record is copied to more places than the secret. So nothing that is made of a value, not even a digest, leaves the
//! node's own file.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::Content;
use crate::container::hex;

/// What stands where a value would.
const PLACEHOLDER: &str = "‹secret›";
/// The last line of a secrets' file: without it the file was cut off.
const END: &str = "end";

/// A secret's value, which no way of printing shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The value itself, for whoever delivers it or takes it out of a text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PLACEHOLDER)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PLACEHOLDER)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(PLACEHOLDER)
    }
}

/// The values of a profile's secrets, by variable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Secrets(pub BTreeMap<String, Secret>);

impl Secrets {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The variables.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// The file that a node keeps them in: a line `NAME VALUE` each, the value in hexadecimal, so that a shell can
    /// compare it and no line break in it matters; and `end`.
    pub fn file(&self) -> Content {
        let lines = self.0.iter().map(|(name, value)| format!("{name} {}\n", hex(value.0.as_bytes())));
        Content::from(format!("{}{END}\n", lines.collect::<String>()).into_bytes())
    }
}

/// Every variable and value of files as [`Secrets::file`] writes them, one behind another. What is no such line is
/// passed over.
pub fn read_files(text: &str) -> Vec<(String, Secret)> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), Secret(String::from_utf8(unhex(value)?).ok()?)))
    };
    text.lines().filter_map(line).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[(&str, &str)]) -> Secrets {
        let one = |(name, value): &(&str, &str)| ((*name).to_owned(), Secret((*value).to_owned()));
        Secrets(values.iter().map(one).collect())
    }

    #[test]
    fn a_value_is_never_shown() {
        let secrets = secrets(&[("HF_TOKEN", "hf_abcdefgh")]);
        let value = &secrets.0["HF_TOKEN"];
        let delivery = super::super::Delivery { secrets: secrets.clone(), ..Default::default() };
        let shown = [
            format!("{value} {value:?} {secrets:?} {delivery:?} {:?}", secrets.file()),
            serde_json::to_string(&secrets).unwrap(),
        ];
        for text in shown {
            assert!(!text.contains("hf_abcdefgh") && !text.contains("68665f"), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = secrets(&[("A", "é\nsecond line \u{0}"), ("B_2", "x y")]);
        let text = String::from_utf8(written.file().bytes().to_vec()).unwrap();
        assert!(text.starts_with("A c3a90a") && text.ends_with("\nend\n"), "{text}");
        assert_eq!(read_files(&(text.clone() + &text)).len(), 4);
        let read: BTreeMap<_, _> = read_files(&text).into_iter().collect();
        assert_eq!(Secrets(read), written);
        assert_eq!(read_files("end\nA\nB xyz\nC 4\nD é1\n"), []);
    }
}
