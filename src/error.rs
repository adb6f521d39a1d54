//! How sparkctl ends: exit codes, and errors with hints. The table in README.md is tested against this.

use std::error::Error;
use std::process::ExitCode;

use crate::event::RunOutcome;

/// What the exit status of sparkctl says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    /// Unexpected: a bug.
    Bug = 1,
    /// Usage, or a profile that is not valid.
    Usage = 2,
    /// Refused by a check; nothing was changed.
    Refused = 3,
    /// The deploy failed, and what ran before it runs: the release before it, or what it had stopped.
    Restored = 4,
    /// Failed, and not restored: a person is needed.
    Down = 5,
    /// Another operation holds the lock.
    Locked = 6,
    /// A node cannot be reached or refuses us.
    Unreachable = 7,
    /// It should serve, and does not.
    Unhealthy = 8,
    /// `plan --exit-code`: changes are pending.
    Pending = 10,
    /// Stopped by SIGINT.
    Interrupted = 130,
    /// Stopped by SIGTERM.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl RunOutcome {
    /// The exit status that tells this outcome. An interrupt is told as SIGINT's; who got SIGTERM knows better.
    pub fn exit(&self) -> Exit {
        match self {
            Self::NothingToDo { .. }
            | Self::Deployed { .. }
            | Self::Stopped { .. }
            | Self::Returned { failed: None, .. }
            | Self::Fetched { .. }
            | Self::Synced { .. }
            | Self::Pushed { .. } => Exit::Done,
            Self::Refused { .. } | Self::NotFetched { begun: false } => Exit::Refused,
            Self::Locked { .. } => Exit::Locked,
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Unchanged { serving: Some(_) }
            | Self::Restored { .. }
            | Self::Returned { failed: Some(_), .. } => Exit::Restored,
            Self::Unchanged { serving: None }
            | Self::Down { .. }
            | Self::NotSynced
            | Self::NotPushed { .. }
            | Self::NotFetched { begun: true } => Exit::Down,
            Self::NotServing { .. } => Exit::Unhealthy,
            Self::Interrupted { .. } => Exit::Interrupted,
        }
    }
}

/// An error for people: what failed, what to do, and the exit status.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// What failed; for a profile the whole report, with places.
    pub message: String,
    pub hints: Vec<String>,
    pub exit: Exit,
    /// The same for programs: findings, or mistakes of a profile; none where there is no more to say.
    pub details: Option<Box<serde_json::Value>>,
}

impl CommandError {
    /// An error of the given kind.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), exit, details: None }
    }

    /// The same with what a program can read of it.
    #[must_use]
    pub fn details(mut self, details: &impl serde::Serialize) -> Self {
        self.details = serde_json::to_value(details).ok().map(Box::new);
        self
    }

    /// The same with something to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// An error and its sources, outermost first. Transparent wrappers add nothing.
pub fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if all.last() != Some(&text) {
            all.push(text);
        }
        next = error.source();
    }
    all
}

/// An error and its sources in one line.
pub fn in_full(error: &(dyn Error + 'static)) -> String {
    chain(error).join(": ")
}

/// What the system says of a failed call, for people: without its number.
pub fn system_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
