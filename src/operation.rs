//! Operations from beginning to end: deploy, rollback, stop. Lock, look, plan, execute; and when it
//! fails: keep the evidence, say the cause, bring the release before back.
//!
//! The state of the nodes decides, never what an earlier run meant to do, so an operation may be
//! killed anywhere and the next one continues or repairs.

use std::error::Error;

use futures_util::future::join_all;

use crate::cluster::facts::NodeFacts;
use crate::cluster::gather;
use crate::container::container_name;
use crate::diagnose::{self, Diagnosis, End, LogLine, RankEvidence};
use crate::event::{Event, Events, Failure, RunOutcome};
use crate::execute::{Cancel, ExecuteError, Hosts, StepError, execute};
use crate::host::HostError;
use crate::plan::check::Finding;
use crate::plan::planner::{self, Operator, OtherWeights, Planned, Refused};
use crate::plan::{Plan, StageKind};
use crate::profile::{OnFailure, Profile};
use crate::release::lock::{self, Lock, LockError};
use crate::release::{Figures, Outcome, Release, ReleaseNumber, store};

/// Lines of each rank's log that a diagnosis reads.
const EVIDENCE_LINES: u32 = 5000;

/// What an operation works with.
pub struct Operation<'a> {
    /// The profile, or that of the release which is known to run: who the nodes are.
    pub profile: &'a Profile,
    pub hosts: &'a Hosts,
    pub operator: &'a Operator,
    pub events: &'a Events,
    pub cancel: &'a Cancel,
}

/// What a rollback goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The release that was deployed before the one that runs.
    Before,
    Number(ReleaseNumber),
}

/// Looks at all nodes at once; facts in the order of the profile's nodes.
pub async fn look(profile: &Profile, hosts: &Hosts) -> Result<Vec<NodeFacts>, Vec<HostError>> {
    let request =
        gather::Request { deployment: profile.name.clone(), model_path: profile.model.path.clone() };
    let all = profile.cluster.nodes.iter().map(|node| gather::gather(hosts[&node.name].as_ref(), &request));
    let (mut facts, mut errors) = (Vec::new(), Vec::new());
    for result in join_all(all).await {
        match result {
            Ok(seen) => facts.push(seen),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(facts) } else { Err(errors) }
}

impl Operation<'_> {
    /// Makes the profile's group the one that serves. The outcome is told as the last event, too.
    pub async fn deploy(&self) -> RunOutcome {
        let outcome = match self.begin("deploy").await {
            Err(outcome) => outcome,
            Ok((_lock, facts)) => match planner::deploy(self.profile, &facts, self.operator) {
                Err(Refused(findings)) => RunOutcome::Refused { findings },
                Ok(planned) => self.carry_out(planned, &facts).await,
            },
        };
        self.finish(outcome).await
    }

    /// Makes an earlier release's group the one that serves.
    pub async fn rollback(&self, target: Target) -> RunOutcome {
        let outcome = match self.begin("rollback").await {
            Err(outcome) => outcome,
            Ok((_lock, facts)) => match self.find(target, &facts) {
                Err(finding) => RunOutcome::Refused { findings: vec![finding] },
                Ok(release) => match planner::restore(&release, &facts, OtherWeights::Refuse) {
                    Err(Refused(findings)) => RunOutcome::Refused { findings },
                    Ok(planned) => self.carry_out(planned, &facts).await,
                },
            },
        };
        self.finish(outcome).await
    }

    /// Ends every container of the deployment; the logs are kept.
    pub async fn stop(&self) -> RunOutcome {
        let outcome = match self.begin("stop").await {
            Err(outcome) => outcome,
            Ok((_lock, facts)) => {
                let plan = planner::stop(&self.profile.name, &facts);
                let release = plan.running;
                if plan.is_empty() {
                    RunOutcome::NothingToDo { release: None, endpoint: None }
                } else {
                    match self.run(&plan, self.cancel).await {
                        Ok(_) => RunOutcome::Stopped { release },
                        Err(error) => self.stop_failed(&error).await,
                    }
                }
            }
        };
        self.finish(outcome).await
    }

    /// Lock and look, unless the wish to end comes first.
    async fn begin(&self, command: &str) -> Result<(Lock, Vec<NodeFacts>), RunOutcome> {
        tokio::select! {
            biased;
            () = self.cancel.wish() => Err(RunOutcome::Interrupted { state: "nothing was changed".to_owned() }),
            begun = self.lock_and_look(command) => begun,
        }
    }

    async fn lock_and_look(&self, command: &str) -> Result<(Lock, Vec<NodeFacts>), RunOutcome> {
        let head = &self.hosts[&self.profile.head().name];
        let holder = format!("{}, `{command}`, since {:.0}", self.operator.who, self.operator.now);
        let lock = lock::acquire(head.as_ref(), &self.profile.name, &holder).await;
        let lock = lock.map_err(|error| match error {
            LockError::Held { holder, .. } => RunOutcome::Locked { holder },
            LockError::Host(error) => unreachable_outcome(&[error], "nothing was changed"),
        })?;
        let facts = look(self.profile, self.hosts).await;
        let facts = facts.map_err(|errors| unreachable_outcome(&errors, "nothing was changed"))?;
        Ok((lock, facts))
    }

    async fn finish(&self, outcome: RunOutcome) -> RunOutcome {
        let deployment = self.profile.name.clone();
        self.events.tell(Event::Finished { deployment, outcome: outcome.clone() }).await;
        outcome
    }

    fn find(&self, target: Target, facts: &[NodeFacts]) -> Result<Release, Finding> {
        let deployment = &self.profile.name;
        let hint = format!("sparkctl releases {deployment}");
        match target {
            Target::Before => planner::release_before(deployment, facts).ok_or_else(|| {
                Finding::error(
                    "release-absent",
                    None,
                    "there is no release before the one that runs".to_owned(),
                    &hint,
                )
            }),
            Target::Number(number) => match planner::release_numbered(number, facts) {
                None => {
                    let message = format!("there is no release {number} on any node");
                    Err(Finding::error("release-absent", None, message, &hint))
                }
                Some(release) if release.outcome != Outcome::Deployed => {
                    let message = format!("release {number} never served: it was not ready and verified");
                    Err(Finding::error("release-failed", None, message, &hint))
                }
                Some(release) => Ok(release),
            },
        }
    }

    async fn run(&self, plan: &Plan, cancel: &Cancel) -> Result<Figures, ExecuteError> {
        self.events.tell(Event::Planned { plan: Box::new(plan.clone()) }).await;
        execute(plan, self.hosts, self.events, cancel).await
    }

    async fn carry_out(&self, planned: Planned, facts: &[NodeFacts]) -> RunOutcome {
        let Planned { plan, warnings } = planned;
        for finding in warnings {
            self.events.tell(Event::Warning { finding }).await;
        }
        if plan.is_empty() {
            self.events.tell(Event::Planned { plan: Box::new(plan.clone()) }).await;
            return RunOutcome::NothingToDo { release: plan.running, endpoint: plan.endpoint };
        }
        let release = plan.release.expect("a plan that is not a stop has a release");
        match self.run(&plan, self.cancel).await {
            Ok(figures) => RunOutcome::Deployed {
                release,
                endpoint: plan.endpoint.clone().unwrap_or_default(),
                outage_seconds: figures.outage_seconds,
            },
            Err(error) => self.failed(&plan, release, &error, facts).await,
        }
    }

    /// A stage failed: nothing that serves was touched before `stop`; after it, the release before comes back.
    async fn failed(
        &self,
        plan: &Plan,
        release: ReleaseNumber,
        error: &ExecuteError,
        before: &[NodeFacts],
    ) -> RunOutcome {
        let interrupted = matches!(error.source, StepError::Cancelled);
        if error.stage < StageKind::Stop {
            self.tell_failure(error, None).await;
            let serving = plan.running;
            return if interrupted {
                let state = serving
                    .map_or("nothing was running before".to_owned(), |n| format!("release {n} still serves"));
                RunOutcome::Interrupted { state }
            } else {
                RunOutcome::Unchanged { serving }
            };
        }
        let diagnosis = self.keep_evidence(release).await;
        self.tell_failure(error, diagnosis).await;
        let outcome = self.go_back(plan, release, error, before).await;
        match outcome {
            RunOutcome::Restored { release, .. } if interrupted => {
                RunOutcome::Interrupted { state: format!("release {release} serves again, verified") }
            }
            RunOutcome::Unchanged { serving: Some(release) } if interrupted => {
                RunOutcome::Interrupted { state: format!("release {release} still serves") }
            }
            RunOutcome::Down { why, .. } if interrupted => {
                RunOutcome::Interrupted { state: format!("nothing serves: {why}") }
            }
            outcome => outcome,
        }
    }

    async fn go_back(
        &self,
        plan: &Plan,
        failed: ReleaseNumber,
        error: &ExecuteError,
        before: &[NodeFacts],
    ) -> RunOutcome {
        let down = |why: String| RunOutcome::Down { failed: Some(failed), why };
        let now = match look(self.profile, self.hosts).await {
            Ok(now) => now,
            Err(errors) => {
                let state = "the release before was not brought back, since not all nodes can be asked";
                return unreachable_outcome(&errors, state);
            }
        };
        self.events.tell(Event::Facts { facts: now.clone() }).await;
        // A release that served before keeps its record, whatever became of this attempt.
        if let Some(record) = planner::release_numbered(failed, &now).filter(|r| r.outcome == Outcome::Begun)
        {
            let record = Release { outcome: Outcome::Failed(chain(error).join(": ")), ..record };
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
            let stop = planner::stop(&self.profile.name, &now);
            let (_never, cancel) = Cancel::new();
            return match self.run(&stop, &cancel).await {
                Ok(_) => down(
                    "nothing ran before; the failed containers were removed, their logs are kept".to_owned(),
                ),
                Err(error) => down(format!(
                    "nothing ran before, and the failed containers remain: {}",
                    chain(&error).join(": ")
                )),
            };
        };
        self.events.tell(Event::Restoring { release: target.number }).await;
        let planned = match planner::restore(&target, &now, OtherWeights::Tell) {
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
            // It never ended: nothing was done to it, and nothing is claimed of it beyond that.
            return RunOutcome::Unchanged { serving: Some(target.number) };
        }
        // A second interrupt ends the program; the first one led here and must not end the restore.
        let (_never, cancel) = Cancel::new();
        match self.run(&planned.plan, &cancel).await {
            Ok(_) => RunOutcome::Restored { failed, release: target.number },
            Err(error) => {
                let diagnosis = self.keep_evidence(target.number).await;
                self.tell_failure(&error, diagnosis).await;
                down(format!("release {} did not come back either", target.number))
            }
        }
    }

    async fn stop_failed(&self, error: &ExecuteError) -> RunOutcome {
        self.tell_failure(error, None).await;
        let state = "some containers may still run: see `sparkctl status`";
        match &error.source {
            StepError::Cancelled => RunOutcome::Interrupted { state: state.to_owned() },
            _ => RunOutcome::Down { failed: None, why: format!("the stop is not complete; {state}") },
        }
    }

    /// The log and the state of every rank, before anything is removed; and what they say of the cause.
    async fn keep_evidence(&self, release: ReleaseNumber) -> Option<Diagnosis> {
        let ranks = self.profile.cluster.nodes.iter().enumerate().map(|(rank, node)| async move {
            let rank = u32::try_from(rank).expect("a few nodes");
            let host = self.hosts[&node.name].as_ref();
            let name = container_name(&self.profile.name, rank);
            let container = host.container(&name).await.ok().flatten();
            let container =
                container.filter(|c| c.ours.as_ref().is_some_and(|ours| ours.release == release))?;
            let log = crate::execute::whole_log(host, &name, Some(EVIDENCE_LINES)).await.unwrap_or_default();
            let state = container.state;
            let (node, lines) = (node.name.clone(), log.lines().map(LogLine::parse).collect());
            let end = (!state.running).then(|| End {
                code: state.exit_code,
                oom_killed: state.oom_killed,
                error: state.error.clone(),
            });
            self.events.tell(Event::Evidence { node: node.clone(), rank, state: Some(state), log }).await;
            Some(RankEvidence { node, rank, lines, end })
        });
        let evidence: Vec<_> = join_all(ranks).await.into_iter().flatten().collect();
        (!evidence.is_empty()).then(|| diagnose::diagnose(&evidence))
    }

    async fn tell_failure(&self, error: &ExecuteError, diagnosis: Option<Diagnosis>) {
        let hints = match &error.source {
            StepError::Wrong(wrong) => wrong.hint.map(str::to_owned).into_iter().collect(),
            StepError::Host(error) => error.hint().into_iter().collect(),
            _ => Vec::new(),
        };
        let failure = Failure {
            stage: error.stage,
            node: Some(error.node.clone()),
            chain: chain(error),
            diagnosis,
            hints,
        };
        self.events.tell(Event::Failed { failure: Box::new(failure) }).await;
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

fn unreachable_outcome(errors: &[HostError], state: &str) -> RunOutcome {
    RunOutcome::Unreachable {
        errors: errors.iter().map(|error| chain(error).join(": ")).collect(),
        hints: errors.iter().filter_map(HostError::hint).collect(),
        state: state.to_owned(),
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
