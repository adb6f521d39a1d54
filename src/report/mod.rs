//! Reports: what a run tells, to whoever listens: a terminal, a CI log, a program, and the record on
//! the operator's machine. During a run nothing else writes to the terminal.

pub mod audit;
pub mod bench;
pub mod check;
pub mod json;
pub mod status;
pub mod terminal;

use std::time::Duration;

use tokio::sync::mpsc;

use crate::event::Event;

/// Who listens.
pub trait Sink: Send {
    /// Takes an event.
    fn take(&mut self, event: &Event);
    /// Called when nothing was told for [`QUIET`].
    fn quiet(&mut self) {}
}

/// How long a run may be silent before it says what it waits for.
const QUIET: Duration = Duration::from_secs(30);

/// Hands every event to every sink until the run has ended.
pub async fn report(mut events: mpsc::Receiver<Event>, mut sinks: Vec<Box<dyn Sink>>) {
    let mut quiet = tokio::time::interval(QUIET);
    quiet.reset();
    loop {
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return };
                // Progress is no reason to believe that somebody was told something.
                if !matches!(event, Event::Progress { .. }) {
                    quiet.reset();
                }
                for sink in &mut sinks {
                    sink.take(&event);
                }
            }
            _ = quiet.tick() => {
                for sink in &mut sinks {
                    sink.quiet();
                }
            }
        }
    }
}
