//! Reading log lines: what stands before the words, which lines say something, where a traceback
//! ends, and how a line is shown. Pure.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::LogLine;
use super::signatures::{self, Severity};
use crate::engine::milestones::plain;

/// Longest line shown, in characters.
const WIDTH: usize = 200;

/// A line without escapes, and where in it the words begin: after the names of processes, the
/// level, the time and the place in the source.
pub(super) struct Read<'a> {
    /// The line without escapes.
    pub text: Cow<'a, str>,
    body: usize,
    /// Whether the engine itself says that it is no warning and no error.
    pub informs: bool,
}

pub(super) fn read(line: &LogLine) -> Read<'_> {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^(?:\((?:[\w.\-:]+ pid=\d+|raylet|autoscaler|pid=\d+|gcs_server)[^()]*\) ?|\[rank\d+\]:? ?)*",
            r"(?:(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]*\] ?)?"
        ))
        .expect("a regex")
    });
    let text = plain(&line.text);
    let (body, informs) = HEAD.captures(&text).map_or((0, false), |head| {
        let level = head.get(1).map(|level| level.as_str());
        (head.get_match().end(), matches!(level, Some("DEBUG" | "INFO")))
    });
    Read { text, body, informs }
}

impl Read<'_> {
    fn head(&self) -> &str {
        &self.text[..self.body]
    }

    fn body(&self) -> &str {
        self.text[self.body..].trim_end()
    }

    /// The line as shown; if it has to be cut, what begins at `start` is kept.
    pub fn shown(&self, start: Option<usize>) -> String {
        let start = start.unwrap_or(self.body).min(self.text.len());
        // A progress bar writes over itself: one of its states is enough.
        let from =
            self.text.as_bytes()[..start].iter().rposition(|byte| *byte == b'\r').map_or(0, |at| at + 1);
        let to = self.text[start..].find('\r').map_or(self.text.len(), |at| start + at);
        let clean =
            |text: &str| -> String { text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() };
        let whole = clean(&self.text[from..to]);
        let whole = whole.trim();
        if whole.chars().count() <= WIDTH {
            return whole.to_owned();
        }
        // Leave out what stands before the words, and if that is not enough, before the match.
        let body = self.body.clamp(from, start);
        let far = self.text[body..start].chars().count() > WIDTH / 2;
        let fits = self.text[body..to].chars().count() < WIDTH;
        let begin = if far && !fits { start } else { body };
        let skip = begin > from;
        let kept = if skip { clean(&self.text[begin..to]) } else { whole.to_owned() };
        let mut shown: String = if skip { "…".to_owned() } else { String::new() };
        let room = WIDTH - 1 - usize::from(skip);
        shown.extend(kept.chars().take(room));
        if kept.chars().count() > room {
            shown.push('…');
        }
        shown
    }

    /// Whether a person would want to read it: no frame of a traceback, no progress bar, no
    /// access log, nothing that stands in every log.
    pub fn says_something(&self) -> bool {
        static NOISE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(concat!(
                r"^\s|^$|^Traceback \(most recent call last\)|^Process \w+:$|^During handling of the above",
                r"|^The above exception was|\d%\||% Completed|it/s\]|warnings\.warn|Warning: |\bRoute: /",
                r#"|"(?:GET|POST|HEAD) /|^INFO:\s|^For further information|^[\s\W]*$|Triton is installed, but"#
            ))
            .expect("a regex")
        });
        !NOISE.is_match(self.body())
            && signatures::find(&self.text).is_none_or(|row| row.severity != Severity::Benign)
    }

    /// Whether it begins with the name of an exception.
    fn names_exception(&self) -> bool {
        static NAME: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^(?:\w+\.)*\w*(?:Error|Exception)\b").expect("a regex"));
        NAME.is_match(self.body())
    }
}

/// Whether a line says no more than that somebody waits, or that the endpoint was asked: no sign that anything moves.
pub fn only_waits(line: &str) -> bool {
    static WAITS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"Waiting for creating a placement group|No available shared memory broadcast block",
            r"|Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s",
            r#"|"(?:GET|POST|HEAD) /"#
        ))
        .expect("a regex")
    });
    WAITS.is_match(line)
}

/// Where the first traceback's last exception is: of a chain, the one raised at the end.
pub(super) fn first_exception(lines: &[LogLine]) -> Option<usize> {
    let starts = |read: &Read<'_>| read.body().starts_with("Traceback (most recent call last)");
    let first = lines.iter().position(|line| line.text.contains("Traceback (most") && starts(&read(line)))?;
    let head = read(&lines[first]).head().to_owned();
    let mut found = None;
    let mut since = 0;
    for (index, line) in lines.iter().enumerate().skip(first + 1) {
        let read = read(line);
        if read.head() != head {
            continue;
        }
        let body = read.body();
        if starts(&read) && since <= 4 {
            found = None;
        }
        match found {
            None if !body.is_empty() && !body.starts_with(char::is_whitespace) && !starts(&read) => {
                found = Some(index);
                since = 0;
            }
            None => {}
            // A chain goes on within a few lines: blank, `During handling of …`, blank, `Traceback`.
            Some(_) if since > 4 || (!body.is_empty() && !continues(body)) => break,
            Some(_) => since += 1,
        }
    }
    found
}

fn continues(body: &str) -> bool {
    body.starts_with("During handling of the above") || body.starts_with("The above exception was")
}

/// The line with the exception's name, if the line at `index` is only its message.
pub(super) fn exception_before(lines: &[LogLine], index: usize) -> Option<usize> {
    let indented = read(&lines[index]).body().starts_with(char::is_whitespace);
    let named = |at: &usize| read(&lines[*at]).names_exception();
    indented.then(|| (index.saturating_sub(3)..index).rev().find(named)).flatten()
}

/// The last lines that say something, at most `most`, in order.
pub(super) fn last_words(lines: &[LogLine], most: usize) -> Vec<usize> {
    let mut last: Vec<usize> =
        (0..lines.len()).rev().filter(|at| read(&lines[*at]).says_something()).take(most).collect();
    last.reverse();
    last
}
