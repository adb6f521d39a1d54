//! `sync`: the model to all nodes, alone. What runs is not touched, and Docker is not asked.

use futures_util::future::join_all;

use super::{Operation, unreachable_outcome};
use crate::cluster::facts::{Depth, NodeFacts};
use crate::cluster::gather;
use crate::event::{Event, RunOutcome};
use crate::execute::StepError;
use crate::host::HostError;
use crate::plan::planner::{self, Refused, SyncWishes};
use crate::release::lock::{Lock, LockError};

impl Operation<'_> {
    /// Brings the head's model to every node that lacks something of it. The outcome is told as the last event, too.
    pub async fn sync(&self, wishes: SyncWishes) -> RunOutcome {
        let begun = tokio::select! {
            biased;
            () = self.cancel.wish() => Err(RunOutcome::Interrupted { state: "nothing was changed".to_owned() }),
            begun = self.lock_and_look_at_weights() => begun,
        };
        let outcome = match begun {
            Err(outcome) => outcome,
            Ok((lock, facts)) => match planner::sync(self.profile, &facts, wishes) {
                Err(Refused(findings)) => RunOutcome::Refused { findings },
                Ok(sync) => {
                    self.tell_found("sync", &sync.planned.plan, &facts).await;
                    self.ended(self.carry_weights(sync, wishes, &lock).await).await
                }
            },
        };
        self.finish(outcome).await
    }

    async fn carry_weights(&self, sync: planner::Sync, wishes: SyncWishes, lock: &Lock) -> RunOutcome {
        let planner::Sync { planned, files, bytes, extra } = sync;
        for finding in planned.warnings {
            self.events.tell(Event::Warning { finding }).await;
        }
        let plan = planned.plan;
        match self.run(&plan, &self.cancel.or_lost(lock)).await {
            Ok(done) => RunOutcome::Synced {
                files,
                bytes,
                moved: done.moved,
                compared: !plan.is_empty(),
                nodes: plan.nodes,
                extra,
                removed: wishes.delete_extra,
            },
            Err(error) => {
                self.tell_failure(&error, None).await;
                match error.source {
                    StepError::Cancelled => {
                        let state = "what came is kept, and the next sync goes on; what runs was not touched";
                        RunOutcome::Interrupted { state: state.to_owned() }
                    }
                    _ => RunOutcome::NotSynced,
                }
            }
        }
    }

    /// The lock on the head, then the facts of all nodes.
    async fn lock_and_look_at_weights(&self) -> Result<(Lock, Vec<NodeFacts>), RunOutcome> {
        let unreachable = |errors: &[HostError]| unreachable_outcome(errors, "nothing was changed");
        let lock = self.lock("sync").await.map_err(|error| match error {
            LockError::Held { holder, .. } => RunOutcome::Locked { holder },
            LockError::Host(error) => unreachable(&[error]),
        })?;
        self.open_journal("sync");
        let request = gather::Request::of(self.profile, Depth::Plan);
        let nodes = self.profile.cluster.nodes.iter();
        let all = nodes.map(|node| gather::gather(self.hosts[&node.name].as_ref(), &request));
        let (mut facts, mut errors) = (Vec::new(), Vec::new());
        for result in join_all(all).await {
            match result {
                Ok(seen) => facts.push(seen),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok((lock, facts)) } else { Err(unreachable(&errors)) }
    }
}
