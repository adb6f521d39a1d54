//! What a bench found, as data: every request of every run, and what follows from them. Pure.
//!
//! Times are seconds unless a name says otherwise.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::profile::DeploymentName;
use crate::release::ReleaseNumber;

/// Format number that results are written with.
pub const FORMAT: u32 = 1;

/// A whole bench: one workload at several loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Format of this document.
    pub format: u32,
    /// Version of the sparkctl that measured.
    pub sparkctl: String,
    /// When it was begun, by the operator's clock.
    pub begun: Timestamp,
    pub subject: Subject,
    /// The workload, in words that tell it from another: two reports compare only where these are equal.
    pub workload: String,
    /// One for each load, in the order in which they were put on.
    pub points: Vec<Point>,
    /// What makes a figure other than it seems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Report {
    /// Whether requests failed as they do where the way to the server is gone.
    pub fn lost_connections(&self) -> bool {
        let requests = self.points.iter().flat_map(|point| &point.runs).flat_map(|run| &run.requests);
        let mut kinds = requests.filter_map(|request| request.failure.as_ref()).map(|failure| failure.kind);
        kinds.any(|kind| matches!(kind, FailureKind::Connect | FailureKind::Cut))
    }

    /// Puts the loads of another report of the same workload behind these.
    pub fn join(&mut self, other: Self) {
        self.points.extend(other.points);
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The endpoint, up to and with `/v1`.
    pub url: String,
    /// The model's name in requests.
    pub model: String,
    /// Absent where an address was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseNumber>,
}

/// One load, measured one or several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub load: Load,
    /// The repetitions, each by itself; warm-up is not among them.
    pub runs: Vec<Run>,
}

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// Closed loop: so many requests at any time; the next begins when one ends.
    Concurrency(u32),
    /// Open loop: requests begin at this rate, whether or not others have ended.
    Rate {
        /// Requests a second; infinite is written as `Concurrency` of all.
        per_second: f64,
        /// Shape of the gaps, as `vllm bench serve` has it: 1 is Poisson, above it more even; `None` is constant.
        burstiness: Option<f64>,
        /// At most so many at once, where there is a limit.
        max_concurrency: Option<u32>,
    },
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// From the first request's begin to the last one's end.
    pub seconds: f64,
    /// Every request, in the order of their beginning.
    pub requests: Vec<Request>,
    /// How late the client itself began requests and read answers.
    pub client: ClientDelay,
    /// Prompt tokens that the server's prefix cache was asked for and had, by its own metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix_cache: Option<PrefixCache>,
    /// Guessed tokens, where the engine guesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculation: Option<Speculation>,
}

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// When it was sent, from the run's begin.
    pub start: f64,
    /// To the first token.
    pub ttft: Option<f64>,
    /// Between pieces that carried text, in order.
    pub itls: Vec<f64>,
    /// To the last piece with a token, as E2EL of `vllm bench serve`; of a failed request, until it was known to have failed.
    pub seconds: f64,
    /// Tokens of the prompt, by the server's `usage`.
    pub input_tokens: Option<u32>,
    /// Tokens of the answer, by the server's `usage`.
    pub output_tokens: Option<u32>,
    /// Why it does not count as answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<RequestFailure>,
    /// Answers of 429 or 503 that were waited for and tried again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// How a request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFailure {
    pub kind: FailureKind,
    /// In words, from the server where it said any.
    pub message: String,
}

/// Kinds of failed requests, counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// No connection.
    Connect,
    /// An HTTP status other than 200.
    Status,
    /// No byte for longer than the limit.
    Stalled,
    /// The stream ended before its end was told.
    Cut,
    /// An event that is no JSON of the API's shape.
    Malformed,
    /// The stream told of an error.
    Error,
    /// A whole answer at once, though a stream was asked for: no latency can be measured.
    NotStreamed,
    /// The stream ended well and held nothing of an answer.
    Empty,
    /// Complete, but the server told no `usage`: its tokens cannot be counted.
    NoUsage,
    /// The time limit of the bench came first.
    Unfinished,
}

/// How late the client was; a client that is the bottleneck measures itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientDelay {
    /// Half of all requests were begun at most so late.
    pub median_seconds: f64,
    /// All but one in a hundred.
    pub p99_seconds: f64,
    /// CPU seconds of the client.
    pub cpu_seconds: f64,
}

/// Use of the prefix cache, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixCache {
    pub asked: f64,
    pub hit: f64,
}

/// Speculative decoding, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    pub drafted: f64,
    pub accepted: f64,
}

/// What makes a figure other than it seems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Short and steady, as a check's.
    pub id: String,
    pub message: String,
}
