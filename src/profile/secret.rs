//! The values of environment variables: plain text, or a reference to a secret.
//!
//! A profile, and what is made of it (plans, releases, records), holds where a secret comes from, never the
//! secret. Fetching one, and bringing it to the nodes, is not done here.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// The value of a variable: text, or where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum EnvValue {
    /// The value itself.
    Text(String),
    /// Where the value comes from, as it must not stand in a file.
    Secret(SecretSource),
}

/// Where a secret comes from, on the machine that sparkctl runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SecretSource {
    /// The variable of this name in sparkctl's own environment.
    Env(String),
    /// What is in this file, without the line's end; `~/` is the home of the user, and a relative path begins at
    /// the folder of the profile's file that it is written in.
    File(String),
    /// What this command prints, without the line's end; a list of words, which no shell reads.
    Command(Vec<String>),
}

/// Whether the field at this path is one value even where it is written as a section: it is replaced whole by another.
pub fn is_env_value(path: &[&str]) -> bool {
    matches!(path, ["engine", "env", _] | ["serve", "api_key"])
}

/// Whether text at this path is a path on the machine that sparkctl runs on; a relative one begins at the folder of the
/// file that it is written in. An element of a list is `[]`.
pub fn is_local_path(path: &[&str]) -> bool {
    matches!(
        path,
        ["files", "[]", "source"]
            | ["engine", "env", _, "file"]
            | ["serve", "api_key", "file"]
            | ["image", "build", "folder"]
    )
}

/// Whether text at this path is taken as it stands, with no values of the environment put into it: what a secret is
/// fetched by. An element of a list is `[]`.
pub fn is_verbatim(path: &[&str]) -> bool {
    matches!(
        path,
        ["engine", "env", _, "env"]
            | ["engine", "env", _, "command", "[]"]
            | ["serve", "api_key", "env"]
            | ["serve", "api_key", "command", "[]"]
    )
}

impl EnvValue {
    /// The text, where the value is no secret.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Secret(_) => None,
        }
    }
}

impl fmt::Display for SecretSource {
    /// As people read it: the variable, file or command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the variable `{name}`"),
            Self::File(path) => write!(f, "the file `{path}`"),
            Self::Command(words) => write!(f, "the command `{}`", words.join(" ")),
        }
    }
}

impl Serialize for EnvValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Secret(source) => source.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrSecret)
    }
}

struct TextOrSecret;

impl<'de> Visitor<'de> for TextOrSecret {
    type Value = EnvValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, or a secret like `{ env: NAME }`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<EnvValue, E> {
        Ok(EnvValue::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EnvValue, A::Error> {
        SecretSource::deserialize(MapAccessDeserializer::new(map)).map(EnvValue::Secret)
    }
}

impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sources = Sources::deserialize(deserializer)?;
        let given =
            [sources.env.map(Self::Env), sources.file.map(Self::File), sources.command.map(Self::Command)];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(source), None) => Ok(source),
            (None, _) => {
                Err(D::Error::custom("a secret says where it comes from: one of `env`, `file` and `command`"))
            }
            (Some(_), Some(_)) => Err(D::Error::custom(
                "a secret comes from one place: keep one of `env`, `file` and `command`",
            )),
        }
    }
}

/// All that may stand in a secret's map, so that an unknown key is told as in any other section.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    #[serde(default, deserialize_with = "given")]
    env: Option<String>,
    #[serde(default, deserialize_with = "given")]
    file: Option<String>,
    #[serde(default, deserialize_with = "given")]
    command: Option<Vec<String>>,
}

/// A key with nothing behind it is not the same as no key.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for (json, value) in [
            (r#""info""#, EnvValue::Text("info".to_owned())),
            (r#"{"env":"HF_TOKEN"}"#, EnvValue::Secret(SecretSource::Env("HF_TOKEN".to_owned()))),
            (r#"{"file":"~/token"}"#, EnvValue::Secret(SecretSource::File("~/token".to_owned()))),
            (
                r#"{"command":["pass","show","hf"]}"#,
                EnvValue::Secret(SecretSource::Command(vec!["pass".into(), "show".into(), "hf".into()])),
            ),
        ] {
            assert_eq!(serde_json::from_str::<EnvValue>(json).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (json, told) in [
            ("1", "expected text, or a secret like `{ env: NAME }`"),
            ("null", "expected text, or a secret"),
            ("{}", "a secret says where it comes from"),
            (r#"{"env":"A","file":"b"}"#, "keep one of"),
            (r#"{"env":null}"#, "expected a string"),
            (r#"{"file":"b","command":null}"#, "expected a sequence"),
            (r#"{"enf":"A"}"#, "unknown field `enf`"),
            (r#"{"command":"pass show hf"}"#, "expected a sequence"),
        ] {
            let error = serde_json::from_str::<EnvValue>(json).unwrap_err().to_string();
            assert!(error.contains(told), "{json}: {error}");
        }
    }
}
