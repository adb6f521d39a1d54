//! Durations as people write them in a profile: `45m`, `90s`, `1h30m`. No fractions, no bare numbers.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

/// What a duration looks like, for the schema.
pub(super) const PATTERN: &str = "^([0-9]+h([0-9]+m)?([0-9]+s)?|[0-9]+m([0-9]+s)?|[0-9]+s)$";

pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&write(*value))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_string(AsWritten)
}

struct AsWritten;

impl Visitor<'_> for AsWritten {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration like `45m`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(E::custom)
    }
}

/// The shortest way to write whole seconds.
pub(super) fn write(value: Duration) -> String {
    let seconds = value.as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

/// Hours, minutes and seconds in this order, each at most once.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write it like `45m`, `90s` or `1h30m`");
    let mut rest = text;
    let mut total: u64 = 0;
    for (unit, seconds) in [('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((number, after)) = rest.split_once(unit) {
            let number: u32 = number.parse().map_err(|_| wrong())?;
            total += u64::from(number) * seconds;
            rest = after;
        }
    }
    if !rest.is_empty() || text.is_empty() {
        return Err(wrong());
    }
    Ok(Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write_and_nothing_else() {
        for (text, seconds) in [("45m", 2700), ("90s", 90), ("1h30m", 5400), ("0s", 0), ("2h5s", 7205)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "45", "m", "1.5h", "-3s", "30m1h", "5 m", "10ms", "1d"] {
            assert!(parse(text).is_err(), "{text:?} was read");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for seconds in [0, 1, 59, 60, 61, 3600, 3661, 86_400] {
            let value = Duration::from_secs(seconds);
            assert_eq!(parse(&write(value)), Ok(value));
        }
    }
}
