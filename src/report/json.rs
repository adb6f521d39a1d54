//! Events as JSON lines on standard output; the last line is the outcome.

use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;

use super::Sink;
use crate::event::Event;

/// Format number of what is printed as JSON.
pub const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Line<'a> {
    format: u32,
    time: Timestamp,
    #[serde(flatten)]
    event: &'a Event,
}

/// An event as one line of JSON.
pub(super) fn line(event: &Event) -> String {
    let line = Line { format: FORMAT, time: Timestamp::now(), event };
    serde_json::to_string(&line).expect("an event is always JSON")
}

/// Prints every event.
pub struct Json;

impl Sink for Json {
    fn take(&mut self, event: &Event) {
        let mut out = std::io::stdout().lock();
        // A closed pipe must not end a deploy in the middle.
        let _ = writeln!(out, "{}", line(event)).and_then(|()| out.flush());
    }
}

/// A document of JSON: the answer to a query.
#[derive(Serialize)]
pub struct Document<T> {
    format: u32,
    #[serde(flatten)]
    content: T,
}

/// Wraps an answer with its format number, as text.
pub fn document(content: impl Serialize) -> String {
    serde_json::to_string_pretty(&Document { format: FORMAT, content }).expect("an answer is always JSON")
}
