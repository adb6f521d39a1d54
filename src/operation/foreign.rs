//! Other people's containers that were stopped for the deployment come back: where nothing of ours is to run any more, and
//! after a failed run.

use super::Operation;
use crate::check::Finding;
use crate::cluster::facts::NodeFacts;
use crate::error::in_full;
use crate::event::{Event, RunOutcome};
use crate::execute::Cancel;
use crate::plan::foreign;
use crate::plan::render::was;
use crate::profile::Profile;
use crate::release::Foreign;
use crate::release::lock::Lock;

impl Operation<'_> {
    /// Ends every container of the deployment, and brings back what was stopped for it.
    pub(super) async fn clear(&self, facts: &[NodeFacts], lock: &Lock) -> RunOutcome {
        let back = foreign::held(facts);
        let plan = foreign::clear(&self.profile.name, facts, &back);
        if plan.is_empty() {
            return RunOutcome::NothingToDo { release: None, endpoint: None };
        }
        match self.run(&plan, &self.cancel.or_lost(lock)).await {
            Ok(_) if back.is_empty() => RunOutcome::Stopped { release: plan.running },
            Ok(_) => RunOutcome::Returned { failed: None, containers: named(&back) },
            Err(error) => self.stop_failed(&error).await,
        }
    }

    /// Brings back what this run stopped and the group of `profile`, which serves again, leaves room for. The outcome is
    /// the group's: what cannot come back is told.
    pub(super) async fn give_back(&self, profile: &Profile, before: &[NodeFacts], now: &[NodeFacts]) {
        let ran = |it: &Foreign| {
            let node = before.iter().find(|facts| facts.node == it.node);
            node.is_some_and(|facts| facts.containers.iter().any(|c| c.id == it.id && c.state.running))
        };
        let stopped = foreign::held(now).into_iter().filter(ran);
        let (back, stay): (Vec<_>, Vec<_>) =
            stopped.partition(|foreign| foreign::leaves_room_for(profile, foreign));
        if !back.is_empty() {
            let plan = foreign::give_back(&self.profile.name, now, &back);
            // As for the release that came back: what led here must not end it.
            let (_never, cancel) = Cancel::new();
            if let Err(error) = self.run(&plan, &cancel).await {
                let message = format!("what was stopped did not all come back: {}", in_full(&error));
                let hint = format!("docker start {}", named(&back).join(" "));
                let finding = Finding::warning("foreign-stopped", Some(&error.node), message, &hint);
                self.events.tell(Event::Warning { finding }).await;
            }
        }
        self.tell_held(&stay).await;
    }

    /// Says what stays stopped.
    pub(super) async fn tell_held(&self, held: &[Foreign]) {
        for foreign in held {
            let hint = format!(
                "it comes back by `sparkctl rollback {} --to 0`, and nothing of ours then runs",
                self.profile.name
            );
            let message = format!("container {} stays stopped", was(foreign));
            let finding = Finding::warning("foreign-stopped", Some(&foreign.node), message, &hint);
            self.events.tell(Event::Warning { finding }).await;
        }
    }
}

/// Their names, for people.
pub(super) fn named(all: &[Foreign]) -> Vec<String> {
    all.iter().map(|foreign| foreign.name.clone()).collect()
}
