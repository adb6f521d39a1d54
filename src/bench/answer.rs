//! An answer as it comes: bytes and when they came, to times and tokens, or to why it is none. Pure.
//!
//! The first token is the first piece with something of the answer in it: text, thought or a tool call. The completions
//! endpoint sends a piece for a token also where its text is empty; the chat endpoint begins with a piece of the role alone.

use super::piece::{self, Pattern, Usage};
use super::result::{FailureKind, Request, RequestFailure};
use super::sse;
use super::workload::Endpoint;

/// One streamed answer. All times are seconds since its request's begin.
#[derive(Debug)]
pub struct Answer {
    endpoint: Endpoint,
    reader: sse::Reader,
    heard: Heard,
    /// The answer's text, where it is wanted for the next turn.
    pub text: Option<String>,
}

/// What has come.
#[derive(Debug, Default)]
struct Heard {
    first: Option<f64>,
    last: f64,
    /// When the last piece with a choice came, with or without text.
    last_choice: Option<f64>,
    itls: Vec<f64>,
    usage: Option<Usage>,
    finished: bool,
    done: bool,
    events: u64,
    failure: Option<RequestFailure>,
    pattern: Pattern,
}

impl Answer {
    /// Of a request to `endpoint`; `keep` also keeps its text.
    pub fn new(endpoint: Endpoint, keep: bool) -> Self {
        Self {
            endpoint,
            reader: sse::Reader::default(),
            heard: Heard::default(),
            text: keep.then(String::new),
        }
    }

    /// Takes bytes that came at `at`; false when no more are wanted.
    pub fn take(&mut self, bytes: &[u8], at: f64) -> bool {
        let (heard, text, endpoint) = (&mut self.heard, &mut self.text, self.endpoint);
        let read = self.reader.take(bytes, |data| heard.event(data, at, endpoint, text.as_mut()));
        if read.is_err() {
            self.heard.fail(FailureKind::Malformed, "an event longer than 16 MiB");
        }
        !(self.heard.done || self.heard.failure.is_some())
    }

    /// Which endpoint it is of.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Whether the mark behind the last event has come.
    pub fn done(&self) -> bool {
        self.heard.done
    }

    /// The stream ended; `cut` says why it did so too early, where that is known.
    pub fn end(mut self, at: f64, cut: Option<String>) -> (Request, Option<String>, Option<Usage>) {
        let whole = cut.is_none();
        if whole && !self.heard.done && self.heard.failure.is_none() {
            let (heard, text, endpoint) = (&mut self.heard, &mut self.text, self.endpoint);
            // An event that was cut is not malformed.
            self.reader.end(|data| {
                piece::is_done(data)
                    || piece::read(data).is_ok() && heard.event(data, at, endpoint, text.as_mut())
            });
        }
        let failure = self.failure(cut);
        let heard = self.heard;
        let usage = heard.usage;
        let ended = heard.last_choice.map_or(at, |last| last.max(heard.last));
        let request = Request {
            ttft: heard.first,
            itls: heard.itls,
            seconds: if failure.is_some() { at } else { ended },
            input_tokens: usage.and_then(|usage| usage.prompt_tokens),
            output_tokens: usage.and_then(|usage| usage.completion_tokens),
            failure,
            ..Request::default()
        };
        (request, self.text, usage)
    }

    fn failure(&self, cut: Option<String>) -> Option<RequestFailure> {
        let heard = &self.heard;
        let fail = |kind, message: &str| Some(RequestFailure { kind, message: message.to_owned() });
        if heard.failure.is_some() {
            return heard.failure.clone();
        }
        // What comes behind the end of the answer is no loss.
        let complete = heard.done || (heard.finished && heard.usage.is_some());
        if let Some(why) = cut.filter(|_| !complete) {
            return fail(FailureKind::Cut, &format!("the stream ended after {} events: {why}", heard.events));
        }
        if heard.events == 0 && !heard.done {
            let why = if self.reader.strange() > 0 {
                "the answer holds lines, but no event"
            } else {
                "an empty answer with status 200"
            };
            let kind = if self.reader.strange() > 0 { FailureKind::Malformed } else { FailureKind::Empty };
            return fail(kind, why);
        }
        if !heard.done && !heard.finished {
            return fail(
                FailureKind::Cut,
                "the stream ended before the answer did: no `finish_reason`, no `[DONE]`",
            );
        }
        if heard.first.is_none() {
            return fail(FailureKind::Empty, "the stream held nothing of an answer");
        }
        match heard.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens)) {
            Some((Some(_), Some(0))) => {
                fail(FailureKind::Empty, "the answer has no token, by the server's `usage`")
            }
            Some((Some(_), Some(_))) => None,
            _ => fail(FailureKind::NoUsage, "the server told no `usage`, so its tokens cannot be counted"),
        }
    }
}

impl Heard {
    /// An event; false when no more are wanted.
    fn event(&mut self, data: &[u8], at: f64, endpoint: Endpoint, text: Option<&mut String>) -> bool {
        if piece::is_done(data) {
            self.done = true;
            return false;
        }
        self.events += 1;
        let piece = match self.pattern.read(data) {
            Ok(piece) => piece,
            Err(why) => return self.fail(FailureKind::Malformed, &why),
        };
        if let Some(why) = piece.error {
            return self.fail(FailureKind::Error, &why);
        }
        // With usage in every piece the last one counts.
        self.usage = piece.usage.or(self.usage);
        if !piece.choice {
            return true;
        }
        self.last_choice = Some(at);
        self.finished |= piece.finished;
        if !piece.text.is_empty() || piece.tool || endpoint == Endpoint::Completions {
            match self.first {
                None => self.first = Some(at),
                Some(_) => self.itls.push(at - self.last),
            }
            self.last = at;
        }
        if let Some(kept) = text {
            kept.push_str(&piece.text);
        }
        true
    }

    fn fail(&mut self, kind: FailureKind, message: &str) -> bool {
        self.failure.get_or_insert_with(|| RequestFailure { kind, message: message.to_owned() });
        false
    }
}
