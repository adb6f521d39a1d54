//! Operations from beginning to end: deploy, rollback, stop. Lock, look, plan, execute; and when it
//! fails: keep the evidence, say the cause, bring the release before back.
//!
//! The state of the nodes decides, never what an earlier run meant to do, so an operation may be
//! killed anywhere and the next one continues or repairs.

mod back;
mod check;
mod fetch;
mod found;
mod hooks;
mod push;
mod sync;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::check::Finding;
use crate::cluster::facts::{Depth, DockerFacts, NodeFacts};
use crate::cluster::{gather, software};
use crate::delivery::{Content, Delivery, store as kept};
use crate::diagnose::Diagnosis;
use crate::error::{chain, in_full};
use crate::event::{Event, Events, Failure, Progress, RunOutcome};
use crate::execute::{
    Cancel, ExecuteError, Executed, Hosts, StepError, door, environment, execute, readiness,
};
use crate::fabric::{self, Links};
use crate::host::HostError;
use crate::plan::planner::{self, Operator, OtherWeights, Planned, Refused};
use crate::plan::{Endpoint, Plan, StageKind, built};
use crate::profile::{Node, Profile};
use crate::release::journal::Journal;
use crate::release::lock::{self, Claim, Lock, LockError};
use crate::release::{Outcome, Release, ReleaseNumber};
use crate::transfer::build_image;

pub use check::{Examined, check};
pub use fetch::fetch;

/// Between two tries to get the lock.
const PAUSE: Duration = Duration::from_secs(2);
/// How long one token may take where it is asked whether a release serves.
const PROBE: Duration = Duration::from_secs(20);

/// What an operation works with.
pub struct Operation<'a> {
    /// What is wanted, or was last deployed from here: who the nodes are.
    pub profile: &'a Profile,
    pub hosts: &'a Hosts,
    pub operator: &'a Operator,
    pub events: &'a Events,
    pub cancel: &'a Cancel,
    /// The way to the nodes, should the connections be lost.
    pub reconnect: &'a dyn Reconnect,
    /// How the lock is asked for.
    pub claim: &'a Claim,
    /// Where the head keeps what an operation is at.
    pub journal: &'a Journal,
}

/// Connects to the nodes anew.
#[async_trait]
pub trait Reconnect: Sync {
    /// Fresh connections to all nodes, or why some could not be made.
    async fn reconnect(&self) -> Result<Hosts, Vec<HostError>>;
}

/// Hosts that need no connecting, as machines in memory.
#[async_trait]
impl Reconnect for Hosts {
    async fn reconnect(&self) -> Result<Hosts, Vec<HostError>> {
        Ok(self.clone())
    }
}

/// What a rollback goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The release that was deployed before the one that runs.
    Before,
    Number(ReleaseNumber),
}

/// Looks at all nodes at once, for a plan; facts in the order of the profile's nodes. A Docker Engine
/// that cannot be used is an error here: what runs is not known then.
pub async fn look(profile: &Profile, hosts: &Hosts) -> Result<Vec<NodeFacts>, Vec<HostError>> {
    let (seen, mut errors) = examine(profile, hosts).await;
    let mut facts = Vec::new();
    for seen in seen {
        match with_docker(seen) {
            Ok(seen) => facts.push(seen),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(facts) } else { Err(errors) }
}

/// Looks at all nodes that there are hosts of, at once: the facts of those that answered, in the order of the profile's
/// nodes, and why the others did not.
pub async fn examine(profile: &Profile, hosts: &Hosts) -> (Vec<NodeFacts>, Vec<HostError>) {
    let request = gather::Request::of(profile, Depth::Check);
    let there = profile.cluster.nodes.iter().filter_map(|node| hosts.get(&node.name));
    let all = there.map(|host| gather::gather(host.as_ref(), &request));
    let (mut facts, mut errors) = (Vec::new(), Vec::new());
    for result in join_all(all).await {
        match result {
            Ok(seen) => facts.push(seen),
            Err(error) => errors.push(error),
        }
    }
    (facts, errors)
}

/// The profile to plan: with the whole name of the image that it builds, and with what its image has in it added to the
/// facts.
pub async fn with_image(
    profile: &Profile,
    delivery: &Delivery,
    hosts: &Hosts,
    facts: &mut [NodeFacts],
) -> Profile {
    let built = facts.first().and_then(|head| built::with_tag(profile, delivery, head));
    let profile = built.unwrap_or_else(|| profile.clone());
    software::add(&profile, hosts, facts).await;
    profile
}

/// Probes the fabric between the nodes of which there are facts; with `measure`, who is told of each link, also its speed.
pub async fn probe(
    profile: &Profile,
    hosts: &Hosts,
    facts: &[NodeFacts],
    measure: Option<fabric::Tell<'_>>,
) -> Links {
    let there = |node: &&Node| facts.iter().any(|facts| facts.node == node.name);
    let nodes: Vec<_> = profile.cluster.nodes.iter().filter(there).collect();
    let addresses: Vec<_> = nodes.iter().map(|node| node.fabric).collect();
    let rails = fabric::rails(&addresses, facts);
    let members = nodes.iter().zip(rails);
    let members: Vec<_> = members
        .map(|(node, addresses)| fabric::Member { host: hosts[&node.name].as_ref(), addresses })
        .collect();
    fabric::probe(&members, measure).await
}

/// The same facts, or the error that the node's Docker Engine cannot be used.
pub fn with_docker(facts: NodeFacts) -> Result<NodeFacts, HostError> {
    match &facts.docker {
        DockerFacts::Running(_) => Ok(facts),
        DockerFacts::Unusable(why) => {
            Err(HostError::DockerAbsent { node: facts.node.clone(), why: why.clone() })
        }
    }
}

/// Notes in the facts which of the secrets that are to be delivered lie on the nodes already.
pub async fn compare(
    profile: &Profile,
    delivery: &Delivery,
    hosts: &Hosts,
    facts: &mut [NodeFacts],
) -> Result<(), Vec<HostError>> {
    if delivery.secrets.is_empty() {
        return Ok(());
    }
    let all = facts
        .iter()
        .map(|facts| kept::compare(hosts[&facts.node].as_ref(), &profile.name, &delivery.secrets));
    let mut errors = Vec::new();
    for (result, facts) in join_all(all).await.into_iter().zip(facts) {
        match result {
            Ok(same) => {
                for (file, values) in &mut facts.kept.secrets {
                    for (name, is_same) in values {
                        *is_same = Some(same.iter().any(|(f, n)| f == file && n == name));
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Takes every secret as unchanged that nobody compared: recorded facts have no values to compare with. What was taken
/// so is a finding.
pub fn take_secrets_as_same(facts: &mut [NodeFacts]) -> Option<Finding> {
    let values =
        facts.iter_mut().flat_map(|facts| facts.kept.secrets.values_mut()).flat_map(|file| file.values_mut());
    let mut unknown: Vec<_> = values.filter(|is_same| is_same.is_none()).collect();
    for is_same in &mut unknown {
        **is_same = Some(true);
    }
    (!unknown.is_empty()).then(|| {
        Finding::warning(
            "secrets-not-compared",
            None,
            "recorded facts do not tell whether a secret's value changed; all are taken as unchanged"
                .to_owned(),
            "plan without `--facts` to have them compared on the nodes",
        )
    })
}

impl Operation<'_> {
    /// Makes the profile's group the one that serves. The outcome is told as the last event, too.
    pub async fn deploy(&self, delivery: &Delivery) -> RunOutcome {
        let outcome = match self.begin("deploy", delivery).await {
            Err(outcome) => outcome,
            Ok((lock, facts)) => match self.prepared(delivery, facts, &lock).await {
                Err(outcome) => self.tell_end("deploy", self.ended(outcome).await).await,
                Ok((profile, facts, links)) => {
                    match planner::deploy(&profile, delivery, &facts, &links, self.operator) {
                        Err(Refused(findings)) => self.ended(RunOutcome::Refused { findings }).await,
                        Ok(planned) => {
                            let outcome = self.carry_out("deploy", planned, &facts, &lock).await;
                            self.tell_end("deploy", self.ended(outcome).await).await
                        }
                    }
                }
            },
        };
        self.finish(outcome).await
    }

    /// Makes an earlier release's group the one that serves.
    pub async fn rollback(&self, target: Target) -> RunOutcome {
        let outcome = match self.begin("rollback", &Delivery::default()).await {
            Err(outcome) => outcome,
            Ok((lock, facts)) => match self.find(target, &facts) {
                Err(finding) => RunOutcome::Refused { findings: vec![finding] },
                Ok(release) => match planner::restore(&release, &facts, OtherWeights::Refuse) {
                    Err(Refused(findings)) => RunOutcome::Refused { findings },
                    Ok(planned) => {
                        let outcome = self.carry_out("rollback", planned, &facts, &lock).await;
                        self.tell_end("rollback", self.ended(outcome).await).await
                    }
                },
            },
        };
        self.finish(outcome).await
    }

    /// Ends every container of the deployment; the logs are kept.
    pub async fn stop(&self) -> RunOutcome {
        let outcome = match self.begin("stop", &Delivery::default()).await {
            Err(outcome) => outcome,
            Ok((lock, facts)) => {
                let plan = planner::stop(&self.profile.name, &facts);
                let release = plan.running;
                let found = self.tell_found("stop", &plan, &facts).await;
                if plan.is_empty() {
                    self.settle(found).await;
                    RunOutcome::NothingToDo { release: None, endpoint: None }
                } else {
                    let outcome = match self.run(&plan, &self.cancel.or_lost(&lock)).await {
                        Ok(_) => RunOutcome::Stopped { release },
                        Err(error) => self.stop_failed(&error).await,
                    };
                    self.ended(outcome).await
                }
            }
        };
        self.finish(outcome).await
    }

    /// Lock and look, unless the wish to end comes first.
    async fn begin(&self, command: &str, delivery: &Delivery) -> Result<(Lock, Vec<NodeFacts>), RunOutcome> {
        tokio::select! {
            biased;
            () = self.cancel.wish() => Err(RunOutcome::Interrupted { state: "nothing was changed".to_owned() }),
            begun = self.lock_and_look(command, delivery) => begun,
        }
    }

    /// Prepares, unless the wish to end comes first, or the lock is lost.
    async fn prepared(
        &self,
        delivery: &Delivery,
        facts: Vec<NodeFacts>,
        lock: &Lock,
    ) -> Result<(Profile, Vec<NodeFacts>, Links), RunOutcome> {
        let cancel = self.cancel.or_lost(lock);
        tokio::select! {
            biased;
            () = cancel.wish() => Err(RunOutcome::Interrupted { state: "nothing was changed".to_owned() }),
            prepared = Box::pin(self.prepare(delivery, facts)) => prepared,
        }
    }

    /// What a plan is made from beside the profile: the image, which is built where it has to be, and the fabric.
    async fn prepare(
        &self,
        delivery: &Delivery,
        mut facts: Vec<NodeFacts>,
    ) -> Result<(Profile, Vec<NodeFacts>, Links), RunOutcome> {
        let mut profile = with_image(self.profile, delivery, self.hosts, &mut facts).await;
        if let (Some(build), Some(context)) = (&profile.image.build, &delivery.context)
            && !built::is_there(&profile, &facts[0])
        {
            self.build(profile.image.reference.as_str(), &build.args, context, &facts).await?;
            let unreachable = |errors: Vec<HostError>| {
                unreachable_outcome(&errors, "the image was built, and nothing else done")
            };
            facts = look(self.profile, self.hosts).await.map_err(unreachable)?;
            compare(self.profile, delivery, self.hosts, &mut facts).await.map_err(unreachable)?;
            profile = with_image(self.profile, delivery, self.hosts, &mut facts).await;
        }
        let links = probe(self.profile, self.hosts, &facts, None).await;
        Ok((profile, facts, links))
    }

    /// Builds the image on the head.
    async fn build(
        &self,
        name: &str,
        args: &BTreeMap<String, String>,
        context: &Content,
        facts: &[NodeFacts],
    ) -> Result<(), RunOutcome> {
        let (stage, head) = (StageKind::Build, &self.profile.head().name);
        let began = Instant::now();
        self.journal.begin_with(vec![(stage.to_string(), vec![format!("{head} {name}")])], self.events).await;
        self.events.tell(Event::StageStarted { stage }).await;
        let mut line = |said: &str| {
            let figure = Some(said.chars().take(100).collect());
            let progress = Progress::Engine { stage: "building".to_owned(), figure, fraction: None };
            self.events.progress(stage, head, progress);
        };
        let host = self.hosts[head].as_ref();
        let done = build_image(host, name, args, context, &mut line).await.map_err(StepError::from);
        let failed = |source| ExecuteError { stage, node: head.clone(), source };
        if let Err(error) = done.map_err(failed) {
            self.tell_failure(&error, None).await;
            return Err(self.untouched(false, facts).await);
        }
        self.events
            .tell(Event::StageDone {
                stage,
                detail: Some(format!("{name} on {head}")),
                took: began.elapsed(),
            })
            .await;
        Ok(())
    }

    async fn lock_and_look(
        &self,
        command: &str,
        delivery: &Delivery,
    ) -> Result<(Lock, Vec<NodeFacts>), RunOutcome> {
        let lock = self.lock(command).await;
        let lock = lock.map_err(|error| match error {
            LockError::Held { holder, .. } => RunOutcome::Locked { holder },
            LockError::Host(error) => unreachable_outcome(&[error], "nothing was changed"),
        })?;
        self.open_journal(command);
        let facts = look(self.profile, self.hosts).await;
        let unreachable = |errors: Vec<HostError>| unreachable_outcome(&errors, "nothing was changed");
        let mut facts = facts.map_err(unreachable)?;
        compare(self.profile, delivery, self.hosts, &mut facts).await.map_err(unreachable)?;
        Ok((lock, facts))
    }

    /// Takes the nodes' lock, and waits for it as long as is wished.
    async fn lock(&self, command: &str) -> Result<Lock, LockError> {
        let (head, name) = (&self.profile.head().name, &self.profile.name);
        let holder =
            format!("{}, `{command}` of `{name}`, since {:.0}", self.operator.who, self.operator.now);
        let began = Instant::now();
        let mut told = None;
        loop {
            let locked = lock::acquire(self.hosts, head, name, &holder, self.claim, self.events).await;
            let Err(LockError::Held { holder, .. }) = &locked else { return locked };
            if began.elapsed() >= self.claim.wait {
                return locked;
            }
            // Its step changes as it goes on.
            let who = holder.split(", at ").next().unwrap_or_default().to_owned();
            if told.as_ref() != Some(&who) {
                self.events.tell(Event::Waiting { holder: holder.clone() }).await;
                told = Some(who);
            }
            tokio::time::sleep(PAUSE).await;
        }
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

    async fn run(&self, plan: &Plan, cancel: &Cancel) -> Result<Executed, ExecuteError> {
        self.events.tell(Event::Planned { plan: Box::new(plan.clone()) }).await;
        execute(plan, self.hosts, self.events, cancel, self.journal).await
    }

    async fn carry_out(
        &self,
        command: &str,
        planned: Planned,
        facts: &[NodeFacts],
        lock: &Lock,
    ) -> RunOutcome {
        let Planned { plan, ranks, warnings } = planned;
        for finding in warnings {
            self.events.tell(Event::Warning { finding }).await;
        }
        let found = self.tell_found(command, &plan, facts).await;
        if plan.is_empty() {
            self.events.tell(Event::Planned { plan: Box::new(plan.clone()) }).await;
            // What is there is as it should be; whether it serves, only the endpoint can say.
            return match self.serving(facts).await {
                Ok(release) => {
                    self.settle(found).await;
                    RunOutcome::NothingToDo { release: Some(release), endpoint: plan.endpoint }
                }
                Err(why) => RunOutcome::NotServing { release: plan.running, why },
            };
        }
        if let Err(refused) = self.ask_first(command, &plan).await {
            return refused;
        }
        let release = plan.release.expect("a plan that is not a stop has a release");
        self.journal.plan(&plan, false);
        match self.run(&plan, &self.cancel.or_lost(lock)).await {
            Ok(Executed { figures, .. }) => {
                for finding in environment::differences(&self.profile.name, &ranks, self.hosts).await {
                    self.events.tell(Event::Warning { finding }).await;
                }
                RunOutcome::Deployed {
                    release,
                    endpoint: plan.endpoint.clone().unwrap_or_default(),
                    outage_seconds: figures.outage_seconds,
                }
            }
            Err(error) => self.failed(&plan, release, &error, facts, lock).await,
        }
    }

    /// The release of the containers that run, if its endpoint completes a request just now; else why not.
    async fn serving(&self, facts: &[NodeFacts]) -> Result<ReleaseNumber, String> {
        let number = planner::running(&self.profile.name, facts).ok_or("nothing runs")?;
        let release = planner::release_numbered(number, facts);
        let profile = release.as_ref().map_or(self.profile, |release| &release.profile);
        let head = self.hosts.get(&profile.head().name).ok_or("its head is not among the nodes")?;
        let endpoint = release.as_ref().map_or_else(|| Endpoint::of(profile), Endpoint::of_release);
        let head = door::of(head.as_ref(), &endpoint).await.map_err(|error| in_full(&error))?;
        match readiness::complete(&head, &endpoint, PROBE).await {
            Ok(answer) if answer.status == 200 => Ok(number),
            Ok(answer) => Err(format!("the endpoint answers a completion with HTTP {}", answer.status)),
            Err(error) => Err(in_full(&error)),
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

    async fn tell_failure(&self, error: &ExecuteError, diagnosis: Option<Diagnosis>) {
        let hints = match &error.source {
            StepError::Cancelled => vec!["a second interrupt leaves the nodes as they are".to_owned()],
            StepError::Wrong(wrong) => wrong.hint.map(str::to_owned).into_iter().collect(),
            StepError::Host(error) => error.hint().into_iter().collect(),
            _ => Vec::new(),
        };
        let failure = Failure {
            stage: error.stage,
            node: Some(error.node.clone()),
            chain: told(error),
            diagnosis,
            hints,
        };
        self.events.tell(Event::Failed { failure: Box::new(failure) }).await;
    }
}

fn unreachable_outcome(errors: &[HostError], state: &str) -> RunOutcome {
    RunOutcome::Unreachable {
        errors: errors.iter().map(|error| in_full(error)).collect(),
        hints: errors.iter().filter_map(HostError::hint).collect(),
        state: state.to_owned(),
    }
}

/// What a failure is told as. Nobody's node is to blame for an interrupt.
fn told(error: &ExecuteError) -> Vec<String> {
    match error.source {
        StepError::Cancelled => vec![format!("interrupted during {}", error.stage)],
        _ => chain(error),
    }
}
