//! The way back: a stage failed, or somebody interrupted. What ran is left alone where nothing was done
//! to it; else the evidence is kept, and the release before comes back.

use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::Instant;

use super::{Operation, look, told};
use crate::cluster::facts::NodeFacts;
use crate::container::container_name;
use crate::diagnose::{self, Diagnosis, End, LogLine, RankEvidence};
use crate::error::in_full;
use crate::event::{Event, RunOutcome};
use crate::execute::readiness::NotReady;
use crate::execute::{Cancel, ExecuteError, Hosts, StepError, last_lines};
use crate::plan::planner::{self, OtherWeights, Refused};
use crate::plan::{Plan, StageKind};
use crate::profile::OnFailure;
use crate::release::lock::{Lock, LockError};
use crate::release::{Outcome, Release, ReleaseNumber, store};

/// Lines of each rank's log that a diagnosis reads.
const EVIDENCE_LINES: u32 = 5000;
/// How long nodes that do not answer are tried again before a person is needed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(5);

impl Operation<'_> {
    /// A stage failed: nothing that serves was touched before `stop`; after it, the release before comes back.
    pub(super) async fn failed(
        &self,
        plan: &Plan,
        release: ReleaseNumber,
        error: &ExecuteError,
        before: &[NodeFacts],
        lock: &Lock,
    ) -> RunOutcome {
        let interrupted = matches!(error.source, StepError::Cancelled);
        if error.stage > StageKind::Record {
            // Only a benchmark comes after the record: an interrupt or a lost lock cuts it short, and all else that ends
            // a run is an engine that did not outlive it.
            self.tell_failure(error, None).await;
            if !interrupted && !matches!(error.source, StepError::LockLost { .. }) {
                return RunOutcome::NotServing { release: Some(release), why: in_full(error) };
            }
            let state =
                format!("release {release} serves, verified and recorded; the benchmark was cut short");
            return RunOutcome::Interrupted { state };
        }
        if error.stage < StageKind::Stop {
            self.tell_failure(error, None).await;
            return self.untouched(interrupted, before).await;
        }
        let replaces = plan.stages.iter().any(|stage| stage.kind == StageKind::Start);
        if interrupted && !replaces {
            self.tell_failure(error, None).await;
            let state = format!("release {release} was left as it is, and not proven");
            return RunOutcome::Interrupted { state };
        }
        let (hosts, now, _lock) = match self.reach_again(lock).await {
            Ok(reached) => reached,
            Err(why) => {
                self.tell_failure(error, None).await;
                return RunOutcome::Down { failed: Some(release), why };
            }
        };
        let again = Operation { hosts: &hosts, ..*self };
        let diagnosis = again.keep_evidence(release, error.source.not_ready()).await;
        // The logs say why an engine failed; of an interrupt or a lost connection they know nothing.
        let of_the_engine = matches!(error.source, StepError::NotReady(_) | StepError::Wrong(_));
        again.tell_failure(error, diagnosis.filter(|_| of_the_engine)).await;
        let was_deployed =
            planner::release_numbered(release, before).is_some_and(|r| r.outcome == Outcome::Deployed);
        if !replaces && was_deployed {
            // It served before, and nothing was done to it: to stop it would make things worse.
            return RunOutcome::NotServing { release: Some(release), why: in_full(error) };
        }
        match again.go_back(plan, release, error, before, &now).await {
            RunOutcome::Restored { release, .. } if interrupted => {
                RunOutcome::Interrupted { state: format!("release {release} serves again, verified") }
            }
            RunOutcome::Unchanged { serving: Some(release) } if interrupted => {
                RunOutcome::Interrupted { state: format!("release {release} still serves") }
            }
            RunOutcome::Down { why, .. } if interrupted => RunOutcome::Interrupted { state: why },
            outcome => outcome,
        }
    }

    /// Nothing was done to what ran: does it serve?
    pub(super) async fn untouched(&self, interrupted: bool, facts: &[NodeFacts]) -> RunOutcome {
        let serving = self.serving(facts).await.ok();
        if interrupted {
            let state = match (serving, planner::running(&self.profile.name, facts)) {
                (Some(number), _) => format!("release {number} still serves, untouched"),
                (None, Some(number)) => {
                    format!("release {number} was left as it was; it does not complete a request")
                }
                (None, None) => "nothing was started".to_owned(),
            };
            return RunOutcome::Interrupted { state };
        }
        RunOutcome::Unchanged { serving }
    }

    /// Fresh facts, over fresh connections where the old ones were lost, and under a lock; or why not.
    async fn reach_again(&self, lock: &Lock) -> Result<(Hosts, Vec<NodeFacts>, Option<Lock>), String> {
        let began = Instant::now();
        let mut hosts = self.hosts.clone();
        let mut own = None;
        let mut held = lock.lost().is_none();
        loop {
            let errors = match look(self.profile, &hosts).await {
                Ok(facts) if held => {
                    if let Some(head) = hosts.get(&self.profile.head().name) {
                        self.journal.reach_by(head.clone());
                    }
                    return Ok((hosts, facts, own));
                }
                Ok(_) => Vec::new(),
                Err(errors) => errors,
            };
            if began.elapsed() > PATIENCE {
                let errors: Vec<_> = errors.iter().map(|error| in_full(error)).collect();
                return Err(format!(
                    "the nodes cannot be asked what is left, nothing was brought back: {}",
                    errors.join("; ")
                ));
            }
            if !errors.is_empty() {
                tokio::time::sleep(PAUSE).await;
                let Ok(fresh) = self.reconnect.reconnect().await else { continue };
                hosts = fresh;
            }
            // What held the old lock has ended with its connection, or holds it still for this very operation.
            let again = Operation { hosts: &hosts, ..*self };
            match again.lock("going back").await {
                Ok(lock) => {
                    own = Some(lock);
                    held = true;
                }
                Err(LockError::Held { node, holder }) => {
                    return Err(format!(
                        "the lock of {node} was lost meanwhile, and another operation has it: {holder}; what runs is \
                         for that one to decide"
                    ));
                }
                Err(LockError::Host(_)) => held = false,
            }
        }
    }

    async fn go_back(
        &self,
        plan: &Plan,
        failed: ReleaseNumber,
        error: &ExecuteError,
        before: &[NodeFacts],
        now: &[NodeFacts],
    ) -> RunOutcome {
        let down = |why: String| RunOutcome::Down { failed: Some(failed), why };
        self.events.tell(Event::Facts { facts: now.to_vec() }).await;
        // A release that served before keeps its record, whatever became of this attempt.
        if let Some(record) = planner::release_numbered(failed, now).filter(|r| r.outcome == Outcome::Begun) {
            let record = Release { outcome: Outcome::Failed(told(error).join(": ")), ..record };
            for node in &plan.nodes {
                // The record is told, not relied upon: a failure to write it changes nothing.
                let _ = store::write(self.hosts[node].as_ref(), &record).await;
            }
        }
        if self.profile.on_failure == OnFailure::Keep {
            return down("`on_failure: keep` leaves the failed containers to be looked at".to_owned());
        }
        let Some(target) = before_this(&self.profile.name, plan, failed, before) else {
            // Nothing ran before: nothing is to run now.
            let stop = planner::stop(&self.profile.name, now);
            let (_never, cancel) = Cancel::new();
            return match self.run(&stop, &cancel).await {
                Ok(_) => down(
                    "nothing ran before; the failed containers were removed, their logs are kept".to_owned(),
                ),
                Err(error) => {
                    down(format!("nothing ran before, and the failed containers remain: {}", in_full(&error)))
                }
            };
        };
        self.events.tell(Event::Restoring { release: target.number }).await;
        // What was to be passed over a moment ago is no reason now to leave nothing running.
        let mut target = target;
        target.skipped.extend(self.operator.skip.iter().cloned());
        let planned = match planner::restore(&target, now, OtherWeights::Tell) {
            Ok(planned) => planned,
            Err(Refused(findings)) => {
                let why: Vec<_> = findings.iter().map(ToString::to_string).collect();
                return down(format!("release {} cannot be brought back: {}", target.number, why.join("; ")));
            }
        };
        for finding in planned.warnings {
            self.events.tell(Event::Warning { finding }).await;
        }
        if planned.plan.is_empty() {
            // It never ended: nothing was done to it, and nothing is claimed of it beyond an answer.
            return self.untouched(false, now).await;
        }
        self.journal.plan(&planned.plan, true);
        // A second interrupt ends the program; the first one led here and must not end the restore.
        let (_never, cancel) = Cancel::new();
        match self.run(&planned.plan, &cancel).await {
            Ok(_) => RunOutcome::Restored { failed, release: target.number },
            Err(error) => {
                let diagnosis = self.keep_evidence(target.number, error.source.not_ready()).await;
                self.tell_failure(&error, diagnosis).await;
                down(format!("release {} did not come back either", target.number))
            }
        }
    }

    /// The log and the state of every rank, before anything is removed; and what they say of the cause.
    async fn keep_evidence(&self, release: ReleaseNumber, not_ready: Option<&NotReady>) -> Option<Diagnosis> {
        let ranks = self.profile.cluster.nodes.iter().enumerate().map(|(rank, node)| async move {
            let rank = u32::try_from(rank).expect("a few nodes");
            let host = self.hosts[&node.name].as_ref();
            let name = container_name(&self.profile.name, rank);
            let container = host.container(&name).await.ok().flatten();
            let container =
                container.filter(|c| c.ours.as_ref().is_some_and(|ours| ours.release == release))?;
            let log = last_lines(host, &self.profile.name, &name, EVIDENCE_LINES).await;
            let log = log.unwrap_or_else(|error| {
                format!("sparkctl: the log is left on the node: {}\n", in_full(&error))
            });
            let state = container.state;
            let (node, lines) = (node.name.clone(), log.lines().map(LogLine::parse).collect());
            let end = (!state.running).then(|| End {
                code: state.exit_code,
                oom_killed: state.oom_killed,
                error: state.error.clone(),
            });
            self.events
                .tell(Event::Evidence { node: node.clone(), rank, release, state: Some(state), log })
                .await;
            let stuck = not_ready.and_then(|why| why.stuck(rank as usize)).cloned();
            Some(RankEvidence { node, rank, lines, end, stuck })
        });
        let evidence: Vec<_> = join_all(ranks).await.into_iter().flatten().collect();
        (!evidence.is_empty()).then(|| diagnose::diagnose(&evidence))
    }
}

/// The release that comes back when `failed` does not become ready: the one that ran; or, where that one
/// was itself a deploy cut short, the newest that was deployed before.
fn before_this(
    deployment: &crate::profile::DeploymentName,
    plan: &Plan,
    failed: ReleaseNumber,
    before: &[NodeFacts],
) -> Option<Release> {
    let deployed = |number| {
        planner::release_numbered(number, before).filter(|release| release.outcome == Outcome::Deployed)
    };
    match plan.running {
        Some(number) if number != failed && deployed(number).is_some() => deployed(number),
        Some(_) => planner::release_before(deployment, before),
        // Nothing ran. If that is the doing of a deploy that was killed, what served before it comes back;
        // a group that was stopped on purpose stays stopped.
        None => {
            let newest =
                before.iter().flat_map(|facts| &facts.releases).max_by_key(|release| release.number)?;
            (newest.outcome == Outcome::Begun).then(|| planner::release_before(deployment, before)).flatten()
        }
    }
}
