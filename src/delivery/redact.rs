//! Taking the values of secrets out of logs that are kept or printed. Pure.
//!
//! Literal replacement, line by line of a value. A value shorter than [`SHORTEST`] stays: it would be found inside of
//! ordinary words and mangle the log, and is no secret worth the name. What an engine makes of a value (an encoding, a
//! part of it) is not recognised.

use std::borrow::Cow;

use super::Secret;

/// The fewest characters of a value, or of a line of one, that are replaced.
pub const SHORTEST: usize = 8;

/// What is to be taken out.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Values by what stands in their place, longest first: one may be a part of another.
    values: Vec<(Secret, String)>,
}

impl Redactor {
    /// Takes out these values.
    pub fn of(secrets: impl IntoIterator<Item = (String, Secret)>) -> Self {
        let mut values = Vec::new();
        for (name, secret) in secrets {
            let lines = secret.reveal().lines().map(str::trim);
            let lines = lines.filter(|line| line.chars().count() >= SHORTEST);
            values.extend(lines.map(|line| (Secret::from(line.to_owned()), format!("‹secret {name}›"))));
        }
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.reveal().len()));
        Self { values }
    }

    /// The text without them.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for (value, place) in &self.values {
            if text.contains(value.reveal()) {
                text = Cow::Owned(text.replace(value.reveal(), place));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_out_of_a_text() {
        let secrets = [
            ("KEY", "sk-12345678"),
            ("LONGER", "sk-12345678-more"),
            ("PIN", "1234567"),
            ("PEM", "-----BEGIN KEY-----\nMIIEvQIBADAN\n==\n"),
        ];
        let redactor =
            Redactor::of(secrets.map(|(name, value)| (name.to_owned(), Secret::from(value.to_owned()))));
        for (text, wanted) in [
            ("nothing here", "nothing here"),
            ("a=sk-12345678 b=sk-12345678!", "a=‹secret KEY› b=‹secret KEY›!"),
            // One value within another: no rest of the longer one is left.
            ("sk-12345678-more", "‹secret LONGER›"),
            // Too short to be told from ordinary text.
            ("port 1234567", "port 1234567"),
            // A log has one line at a time.
            ("got MIIEvQIBADAN ==", "got ‹secret PEM› =="),
        ] {
            assert_eq!(redactor.redact(text), wanted);
        }
        assert_eq!(Redactor::default().redact("sk-12345678"), "sk-12345678");
    }
}
