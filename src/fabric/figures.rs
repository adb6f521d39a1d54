//! What a node remembers of its links' speed: `~/.local/state/sparkctl/fabric.json`, on the node that
//! gives, so that every operator finds it. Pure; `store` reads and writes the file.
//!
//! Read strictly. One of a newer format, or one that cannot be read, is left as it is.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::links::{Before, Rate};

/// The format that is written, and the highest that is read.
const FORMAT: u32 = 1;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    format: u32,
    links: Vec<Figure>,
}

/// A link from this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    /// The node's own address on the fabric.
    from: Ipv4Addr,
    /// The other node's.
    to: Ipv4Addr,
    last: Rate,
    best: Rate,
}

impl Default for Figures {
    fn default() -> Self {
        Self { format: FORMAT, links: Vec::new() }
    }
}

impl Figures {
    /// Reads the file; an empty text is one that does not exist. The error is words.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        if json.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        // The format first: a newer file may have fields that are unknown here.
        let Format { format } = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if format > FORMAT {
            return Err(format!(
                "a newer sparkctl wrote it (format {format}; this one reads up to {FORMAT})"
            ));
        }
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The file's text.
    pub fn write(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("figures are always JSON");
        json.push(b'\n');
        json
    }

    /// What was measured between two addresses.
    pub fn before(&self, from: Ipv4Addr, to: Ipv4Addr) -> Option<Before> {
        let figure = self.links.iter().find(|figure| figure.from == from && figure.to == to)?;
        Some(Before { last: figure.last, best: figure.best })
    }

    /// Notes what was measured now.
    pub fn note(&mut self, from: Ipv4Addr, to: Ipv4Addr, rate: Rate) {
        match self.links.iter_mut().find(|figure| figure.from == from && figure.to == to) {
            Some(figure) => {
                figure.last = rate;
                if rate.bytes_per_second > figure.best.bytes_per_second {
                    figure.best = rate;
                }
            }
            None => self.links.push(Figure { from, to, last: rate, best: rate }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 12);
    const TO: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 13);

    fn rate(bytes_per_second: u64) -> Rate {
        let at = "2026-03-01T09:00:00Z".parse().unwrap();
        Rate { bytes_per_second, seconds: 1.7, streams: 4, at }
    }

    #[test]
    fn the_last_and_the_best_are_kept_by_direction() {
        let mut figures = Figures::default();
        for bytes in [10, 30, 20] {
            figures.note(FROM, TO, rate(bytes));
        }
        figures.note(TO, FROM, rate(5));
        let read = Figures::read(&figures.write()).unwrap();
        assert_eq!(read, figures);
        assert_eq!(read.before(FROM, TO), Some(Before { last: rate(20), best: rate(30) }));
        assert_eq!(read.before(TO, FROM), Some(Before { last: rate(5), best: rate(5) }));
        assert_eq!(read.before(FROM, FROM), None);
    }

    #[test]
    fn what_is_not_understood_is_not_taken_for_empty() {
        assert_eq!(Figures::read(b"\n"), Ok(Figures::default()));
        let newer = br#"{"format": 2, "links": [], "rails": 2}"#;
        assert_eq!(
            Figures::read(newer).unwrap_err(),
            "a newer sparkctl wrote it (format 2; this one reads up to 1)"
        );
        for broken in [&b"{"[..], b"[]", br#"{"format": 1}"#, br#"{"format": 1, "links": [], "more": 1}"#] {
            assert!(Figures::read(broken).is_err(), "{}", String::from_utf8_lossy(broken));
        }
    }
}
