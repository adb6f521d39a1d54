//! The load: requests begun when they are due, and what became of each.

use std::path::PathBuf;

use super::result::{Load, Report, Subject};
use super::workload::Order;

/// Where the load goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// What the report says of it; `subject.url` is where requests go, unless there is a socket.
    pub subject: Subject,
    /// A socket of this machine that leads there: a port of a node that only ssh reaches.
    pub socket: Option<PathBuf>,
    /// Sent as `Authorization: Bearer`.
    pub key: Option<Key>,
}

/// An API key; it shows itself to nobody.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    pub fn new(key: String) -> Self {
        Self(key)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// How far a bench is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// A run begins: the load's place among the loads, and the run's among its repetitions (0 is warm-up).
    Begun { load: Load, run: u32 },
    /// So many requests of it ended, so many of these failed, so many are under way.
    Requests { done: usize, failed: usize, under_way: usize },
}

/// Why there is no report at all.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("`{0}` is no address of an endpoint")]
    Address(String),
}

/// Puts the load on and measures. Failed requests are part of the report; an error is only that nothing could be measured.
/// Dropping the future ends all requests.
pub async fn run(
    _order: &Order,
    target: &Target,
    _progress: impl FnMut(Progress) + Send,
) -> Result<Report, BenchError> {
    Err(BenchError::Address(target.subject.url.clone()))
}
