//! The ladder to a group that is ready: which rungs were reached.

use std::sync::{Mutex, PoisonError};

use crate::event::{Event, Events, Rung};
use crate::plan::StageKind;

/// The rungs that were reached; each is told once, and none after a later one.
pub(super) struct Ladder<'a> {
    events: &'a Events,
    stage: StageKind,
    ranks: usize,
    reached: Mutex<Option<Rung>>,
}

impl<'a> Ladder<'a> {
    pub(super) fn new(events: &'a Events, stage: StageKind, ranks: usize) -> Self {
        Self { events, stage, ranks, reached: Mutex::new(None) }
    }

    /// A rung was reached, with a word about it.
    pub(super) async fn reach(&self, rung: Rung, detail: Option<String>) {
        let mut due = Vec::new();
        {
            // Not held while something is told: who waits for it might be the one that has to go on.
            let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
            if reached.is_none() {
                // Whatever a rank says, its container runs.
                due.push((Rung::Up, Some(format!("{0} of {0}", self.ranks))));
            }
            if (*reached).max(Some(Rung::Up)) < Some(rung) {
                due.push((rung, detail));
            }
            *reached = (*reached).max(Some(rung));
        }
        for (rung, detail) in due {
            self.events.tell(Event::Reached { stage: self.stage, rung, detail }).await;
        }
    }
}
