//! The journal around an operation: what it finds of one that was cut off, and its own end.

use super::Operation;
use crate::check::Finding;
use crate::cluster::facts::NodeFacts;
use crate::event::{Event, RunOutcome};
use crate::plan::Plan;
use crate::release::journal::{State, Unfinished, family, unfinished};

impl Operation<'_> {
    /// The lock is held: what is written from now on is this operation's.
    pub(super) fn open_journal(&self, command: &str) {
        if let Some(head) = self.hosts.get(&self.profile.head().name) {
            let (name, who) = (&self.profile.name, &self.operator.who);
            self.journal.open(head.clone(), name, who, command, self.claim);
        }
    }

    /// Tells of an operation that was cut off, and what becomes of it by this plan.
    pub(super) async fn tell_found(
        &self,
        command: &str,
        plan: &Plan,
        facts: &[NodeFacts],
    ) -> Option<Unfinished> {
        let head = facts.iter().find(|facts| facts.node == self.profile.head().name)?;
        // Whoever else is at work would hold the lock.
        let found = unfinished(&head.journal, Some(&family(self.claim)))?;
        let words = found.words(head.clock.map(|clock| clock.ended));
        let becomes = becomes(&found, command, plan);
        let hint =
            if matches!(command, "push" | "sync") { found.hint(&plan.deployment) } else { String::new() };
        let message = format!("{words}; {becomes}");
        let finding = Finding::warning("operation-cut-off", Some(&head.node), message, &hint);
        self.events.tell(Event::Warning { finding }).await;
        Some(found)
    }

    /// Notes that nothing is left to do of what was found.
    pub(super) async fn settle(&self, found: Option<Unfinished>) {
        if let Some(found) = found {
            self.journal.settle(&found, self.events).await;
        }
    }

    /// Writes the end of the operation, while it still holds the lock; gives the outcome back as it is.
    pub(super) async fn ended(&self, outcome: RunOutcome) -> RunOutcome {
        let well = matches!(
            outcome,
            RunOutcome::NothingToDo { .. }
                | RunOutcome::Deployed { .. }
                | RunOutcome::Stopped { .. }
                | RunOutcome::Synced { .. }
                | RunOutcome::Pushed { .. }
        );
        self.journal.end(if well { State::Done } else { State::Failed }, self.events).await;
        outcome
    }
}

/// What becomes of an operation that was cut off. The nodes as they are say what is to be done, so a plan may as well
/// leave nothing of it to do.
fn becomes(found: &Unfinished, command: &str, plan: &Plan) -> String {
    match (command, plan.release) {
        ("push" | "sync", _) if found.entry.command == command => "it goes on".to_owned(),
        ("push" | "sync", _) => format!("a {command} leaves that as it is"),
        _ if plan.is_empty() => "nothing of it is left to do".to_owned(),
        ("stop", _) => "what it left is ended".to_owned(),
        (_, release) if release.is_some() && release == found.entry.release => "it is continued".to_owned(),
        ("rollback", Some(number)) => format!("it is undone: release {number} comes back"),
        (_, Some(number)) => format!("release {number} takes its place"),
        (_, None) => "it is undone".to_owned(),
    }
}
