//! Values of a profile that are checked once, at the door, and trusted from then on: names, an image's reference, the
//! format's version, a port.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A string that was checked once, at the door.
macro_rules! checked_string {
    ($(#[$doc:meta])* $name:ident, $what:literal, $pattern:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String")]
        #[schemars(extend("pattern" = $pattern))]
        pub struct $name(String);

        impl $name {
            /// The string itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let check: fn(&str) -> Result<(), &'static str> = $check;
                match check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(why) => Err(format!(concat!("`{}` is not ", $what, ": {}"), text, why)),
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::try_from(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

checked_string! {
    /// Name of a deployment: lower-case letters, digits, `-` and `.`, at most 48 characters, as it
    /// becomes part of container and folder names.
    DeploymentName, "a deployment name", "^[a-z0-9]([a-z0-9.-]{0,46}[a-z0-9])?$", |text| name_rule(text, 48)
}

checked_string! {
    /// Name of a node: lower-case letters, digits, `-` and `.`, at most 63 characters.
    NodeName, "a node name", "^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$", |text| name_rule(text, 63)
}

checked_string! {
    /// Name and tag of an image.
    ImageReference, "an image reference", r"^[^-\s]\S*$", |text| {
        if text.is_empty() {
            Err("it is empty")
        } else if text.starts_with('-') {
            Err("it begins with `-`")
        } else if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            Err("it has white space in it")
        } else if text.rsplit('/').next().is_some_and(|last| last.bytes().any(|b| b.is_ascii_uppercase()) && !last.contains(':')) {
            Err("Docker takes lower-case names only")
        } else {
            Ok(())
        }
    }
}

impl ImageReference {
    /// With the tag that Docker assumes where none is written.
    pub fn with_tag(&self) -> String {
        let last = self.0.rsplit('/').next().unwrap_or(&self.0);
        if last.contains(':') || last.contains('@') { self.0.clone() } else { format!("{}:latest", self.0) }
    }
}

fn name_rule(text: &str, most: usize) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if text.is_empty() {
        Err("it is empty")
    } else if text.len() > most {
        Err(if most == 48 { "it is longer than 48 characters" } else { "it is longer than 63 characters" })
    } else if !text.bytes().all(|b| plain(b) || b == b'-' || b == b'.') {
        Err("only lower-case letters, digits, `-` and `.` may be in it")
    } else if !text.bytes().next().is_some_and(plain) || !text.bytes().last().is_some_and(plain) {
        Err("it has to begin and end with a letter or a digit")
    } else {
        Ok(())
    }
}

/// The format of a profile; only 1 exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
#[schemars(extend("const" = 1))]
pub struct FormatVersion;

impl TryFrom<u64> for FormatVersion {
    type Error = String;

    fn try_from(version: u64) -> Result<Self, String> {
        if version == 1 {
            Ok(Self)
        } else {
            Err(format!("this sparkctl reads profiles of version 1, not {version}"))
        }
    }
}

impl From<FormatVersion> for u64 {
    fn from(_: FormatVersion) -> Self {
        1
    }
}

/// A TCP port, 1 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
#[schemars(extend("minimum" = 1, "maximum" = 65535))]
pub struct Port(u16);

impl Port {
    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u64> for Port {
    type Error = String;

    fn try_from(port: u64) -> Result<Self, String> {
        match u16::try_from(port) {
            Ok(port) if port > 0 => Ok(Self(port)),
            _ => Err(format!("`{port}` is not a port: it has to be from 1 to 65535")),
        }
    }
}

impl From<Port> for u64 {
    fn from(port: Port) -> Self {
        port.0.into()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
