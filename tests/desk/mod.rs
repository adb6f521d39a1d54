//! An operator's desk over machines in memory: runs operations, and holds against the machines what
//! an operation told.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use sparkctl::cluster::facts::NodeFacts;
use sparkctl::config;
use sparkctl::delivery::Delivery;
use sparkctl::event::{Event, Events, RunOutcome};
use sparkctl::execute::{Cancel, Hosts};
use sparkctl::host::fake::{Behaviour, Served};
use sparkctl::host::{FakeCluster, Host};
use sparkctl::operation::{self, Operation, Target};
use sparkctl::plan::planner::{self, Operator, Planned, Refused, SyncWishes};
use sparkctl::plan::{Action, Plan, StageKind};
use sparkctl::profile::{Node, Profile};
use sparkctl::release::journal::Journal;
use sparkctl::release::lock::Claim;
use sparkctl::release::{Outcome, ReleaseNumber};

/// A profile, the machines it speaks of, and an operator.
#[derive(Clone)]
pub struct Desk {
    pub cluster: FakeCluster,
    pub profile: Profile,
    /// What the profile's files and secrets hold.
    pub delivery: Delivery,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Deploy,
    Push,
    Rollback(Target),
    Stop,
    Sync(SyncWishes),
}

/// What came of it: no outcome where the operator was killed.
pub struct Run {
    pub outcome: Option<RunOutcome>,
    pub events: Vec<Event>,
}

/// The profile that the project began with.
pub fn seed_profile() -> Profile {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/qwen35-122b.yaml");
    config::load(&file, &config::Given::NOTHING).unwrap().profile
}

/// The same with twice the context.
pub fn changed(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    profile.engine.context_length = Some(65_536);
    profile
}

/// The recorded pair of Sparks as the profile's nodes, more of the second's kind where it has more: at their addresses,
/// with the model's folder and the image on the head.
pub fn recorded_sparks(profile: &Profile) -> Vec<NodeFacts> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/facts/spark-pair.json");
    let pair: Vec<NodeFacts> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let spark = |(number, node): (usize, &Node)| {
        let mut spark = pair[number.min(1)].clone();
        spark.node = node.name.clone();
        spark.system.hostname = node.name.to_string();
        spark.system.boot_id = format!("boot-of-{}", node.name);
        spark.peers = Vec::new();
        let last = node.fabric.octets()[3];
        for address in spark.interfaces.iter_mut().flat_map(|interface| &mut interface.addresses) {
            match address.address.octets() {
                [192, 168, 200, _] => address.address = node.fabric,
                [192, 168, 201, _] => address.address = Ipv4Addr::new(192, 168, 201, last),
                [10, 1, 230, _] => address.address = Ipv4Addr::new(10, 1, 230, last),
                _ => {}
            }
        }
        spark
    };
    let mut facts: Vec<_> = profile.cluster.nodes.iter().enumerate().map(spark).collect();
    facts[0].images[0].references = vec![profile.image.reference.with_tag()];
    facts
}

pub fn operator() -> Operator {
    let now = "2026-03-01T09:00:00Z".parse().unwrap();
    Operator { who: "ada@laptop".to_owned(), now, skip: Vec::new(), token: String::new() }
}

impl Desk {
    /// The cluster that the project began with.
    pub fn seed() -> Self {
        Self { cluster: FakeCluster::seed(), profile: seed_profile(), delivery: Delivery::default() }
    }

    /// The same machines again, in a cluster of their own.
    pub fn copy(&self) -> Self {
        Self { cluster: FakeCluster::new(self.cluster.machines()), ..self.clone() }
    }

    /// The same machines, and another profile.
    pub fn with(&self, profile: Profile) -> Self {
        Self { profile, ..self.clone() }
    }

    pub fn hosts(&self) -> Hosts {
        let host = |node| Arc::new(self.cluster.host(node)) as Arc<dyn Host>;
        self.profile.cluster.nodes.iter().map(|node| (node.name.clone(), host(&node.name))).collect()
    }

    /// Does it, until it is done or the operator is killed.
    pub async fn run(&self, command: Command) -> Run {
        let (_switch, cancel) = Cancel::new();
        self.run_until(command, &cancel).await
    }

    /// The same by another operator.
    pub async fn run_as(&self, command: Command, operator: &Operator) -> Run {
        let (_switch, cancel) = Cancel::new();
        self.run_by(command, operator, &cancel).await
    }

    pub async fn run_until(&self, command: Command, cancel: &Cancel) -> Run {
        self.run_by(command, &operator(), cancel).await
    }

    /// Does it under a claim of one's own.
    pub async fn run_claiming(&self, command: Command, claim: &Claim) -> Run {
        let (_switch, cancel) = Cancel::new();
        self.run_with(command, &operator(), &cancel, claim).await
    }

    async fn run_by(&self, command: Command, operator: &Operator, cancel: &Cancel) -> Run {
        self.run_with(command, operator, cancel, &Claim::new()).await
    }

    pub async fn run_with(
        &self,
        command: Command,
        operator: &Operator,
        cancel: &Cancel,
        claim: &Claim,
    ) -> Run {
        let (events, mut receiver) = Events::channel();
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            while let Some(event) = receiver.recv().await {
                all.push(event);
            }
            all
        });
        let hosts = self.hosts();
        let operation = Operation {
            profile: &self.profile,
            hosts: &hosts,
            operator,
            events: &events,
            cancel,
            reconnect: &hosts,
            claim,
            journal: &Journal::default(),
        };
        let done = async {
            match command {
                Command::Deploy => operation.deploy(&self.delivery).await,
                Command::Push => operation.push(&self.delivery).await,
                Command::Rollback(target) => operation.rollback(target).await,
                Command::Stop => operation.stop().await,
                Command::Sync(wishes) => Box::pin(operation.sync(wishes)).await,
            }
        };
        let outcome = tokio::select! {
            biased;
            () = self.cluster.died() => None,
            outcome = done => Some(outcome),
        };
        drop(events);
        Run { outcome, events: reading.await.unwrap() }
    }

    /// Deploys, and it has to go well.
    pub async fn deployed(&self) -> &Self {
        let run = self.run(Command::Deploy).await;
        assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
        self.hold_to_account(&run);
        self
    }

    /// What a deploy would do now.
    pub async fn plan(&self) -> Planned {
        self.planned().await.unwrap()
    }

    /// The same, or why not.
    pub async fn planned(&self) -> Result<Planned, Refused> {
        let mut facts = operation::look(&self.profile, &self.hosts()).await.unwrap();
        let links = operation::probe(&self.profile, &self.hosts(), &facts, None).await;
        operation::compare(&self.profile, &self.delivery, &self.hosts(), &mut facts).await.unwrap();
        planner::deploy(&self.profile, &self.delivery, &facts, &links, &operator())
    }

    /// What answers at the profile's endpoint.
    pub fn served(&self) -> Option<Served> {
        self.cluster.served(self.profile.head().name.as_str(), self.profile.serve.port.get())
    }

    /// Whether the endpoint serves this release as it should.
    pub fn serves(&self, release: ReleaseNumber) -> bool {
        self.served().is_some_and(|served| {
            let well = matches!(
                served.behaviour,
                Behaviour::Healthy | Behaviour::CompilesLong | Behaviour::Slow | Behaviour::NotUnderLoad
            );
            served.release == release.0 && served.completes && well
        })
    }

    /// Containers of sparkctl's that run, on all nodes.
    pub fn running(&self) -> usize {
        let of = |node: &str| {
            self.cluster.machine(node, |m| {
                m.containers
                    .values()
                    .filter(|c| c.container.ours.is_some() && c.container.state.running)
                    .count()
            })
        };
        self.profile.cluster.nodes.iter().map(|node| of(node.name.as_str())).sum()
    }

    /// A release's outcome in the record of each node; none where it has no record.
    pub async fn recorded(&self, release: ReleaseNumber) -> Vec<Option<Outcome>> {
        let facts = operation::look(&self.profile, &self.hosts()).await.unwrap();
        let of = |facts: &sparkctl::cluster::facts::NodeFacts| {
            facts.releases.iter().find(|r| r.number == release).map(|r| r.outcome.clone())
        };
        facts.iter().map(of).collect()
    }

    /// Panics where what was told is not so.
    pub fn hold_to_account(&self, run: &Run) {
        let violations = self.cluster.violations();
        assert!(violations.is_empty(), "two engines on one GPU: {violations:?}");
        for event in &run.events {
            if let Event::Planned { plan } = event {
                lint(plan);
            }
        }
        let ends = run.events.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
        let Some(outcome) = &run.outcome else {
            assert_eq!(ends, 0, "a killed operator told an outcome");
            return;
        };
        assert_eq!(ends, 1, "told the outcome {ends} times");
        let Some(Event::Finished { outcome: told, .. }) = run.events.last() else {
            panic!("the outcome is not the last event");
        };
        assert_eq!(format!("{told:?}"), format!("{outcome:?}"));
        let served = self.served();
        match outcome {
            RunOutcome::Deployed { release, .. }
            | RunOutcome::Restored { release, .. }
            | RunOutcome::Unchanged { serving: Some(release) }
            | RunOutcome::NothingToDo { release: Some(release), .. } => {
                assert!(self.serves(*release), "told {outcome:?}, but there is {served:?}");
            }
            RunOutcome::Stopped { .. } => assert_eq!(self.running(), 0, "told that it stopped"),
            RunOutcome::Refused { .. } | RunOutcome::Locked { .. } => {
                let changes: Vec<_> = self.cluster.effects().into_iter().filter(|e| e.changes).collect();
                assert!(changes.is_empty(), "told that nothing was changed: {changes:?}");
            }
            _ => {}
        }
    }
}

/// Every stop comes before every start, and no bytes are moved while nothing serves.
pub fn lint(plan: &Plan) {
    let kinds: Vec<_> = plan.stages.iter().map(|stage| stage.kind).collect();
    assert!(kinds.windows(2).all(|pair| pair[0] < pair[1]), "stages out of order: {kinds:?}");
    let steps =
        || plan.stages.iter().flat_map(|stage| stage.steps.iter().map(move |step| (stage.kind, step)));
    let mut started = false;
    let mut stopped = false;
    for (kind, step) in steps() {
        match &step.action {
            Action::Start { .. } => started = true,
            Action::Retire { .. } => {
                assert!(!started, "a container is stopped after one was started");
                stopped = true;
            }
            Action::CopyWeights { .. }
            | Action::RemoveFiles { .. }
            | Action::CopyImage { .. }
            | Action::KeepImage { .. }
            | Action::PutFile { .. }
            | Action::PutSecrets { .. }
            | Action::CopyKept { .. } => {
                assert!(!stopped && !started, "bytes are moved in stage {kind}");
            }
            Action::KeepRunning { .. } => assert_eq!(kind, StageKind::Record),
            _ => {}
        }
    }
}
