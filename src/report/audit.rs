//! The record on the operator's machine: every event of a run, and at a failure the logs of all
//! ranks and the facts, in `~/.local/state/sparkctl/DEPLOYMENT/runs/TIME-COMMAND/`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Sink, json};
use crate::event::{Event, Progress};

/// Writes a run's record.
pub struct Audit {
    folder: PathBuf,
    events: fs::File,
}

impl Audit {
    /// Makes the folder of the record.
    pub fn create(folder: PathBuf) -> std::io::Result<Self> {
        // Plans and logs may hold what an environment variable was set to.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let events = private(&folder.join("events.jsonl"))?;
        Ok(Self { folder, events })
    }

    /// Where the record lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn keep(&self, name: &str, content: &[u8]) {
        // The record helps afterwards; that it cannot be written must not end the run.
        let written = private(&self.folder.join(name)).and_then(|mut file| file.write_all(content));
        if let Err(error) = written {
            tracing::warn!("cannot write {name} of the record: {error}");
        }
    }
}

/// A new file for its owner alone.
fn private(path: &Path) -> std::io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

impl Sink for Audit {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Evidence { node, rank, release, log, .. } => {
                self.keep(&format!("release-{release}-rank-{rank}-{node}.log"), log.as_bytes());
            }
            Event::Stuck { node, rank, stuck } if !stuck.stacks.is_empty() => {
                self.keep(&format!("stacks-rank-{rank}-{node}.txt"), stuck.stacks.as_bytes());
            }
            Event::Facts { facts } => {
                self.keep("facts.json", &serde_json::to_vec_pretty(facts).expect("facts are always JSON"));
            }
            // Bytes come many times a second and say nothing afterwards.
            Event::Progress { progress: Progress::Bytes { .. }, .. } => return,
            _ => {}
        }
        let _ = writeln!(self.events, "{}", json::line(event));
    }
}
