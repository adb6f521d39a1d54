//! The stages that bring a group up, prove it and record it. Pure.

use super::{Action, BenchSpec, Endpoint, ReadySpec, Stage, StageKind, Step};
use crate::bench::gate::Gate;
use crate::cluster::facts::NodeFacts;
use crate::container::{Rank, container_name};
use crate::memory::seen::memory;
use crate::profile::{DeploymentName, Hook, Moment, Profile, Verify};
use crate::release::{Outcome, Release};

/// Steps of a stage, before it is known whether there are any.
pub(super) type Steps = (StageKind, Vec<Step>);

/// Stages that have steps.
pub(super) fn stages(all: impl IntoIterator<Item = Steps>) -> Vec<Stage> {
    all.into_iter()
        .filter(|(_, steps)| !steps.is_empty())
        .map(|(kind, steps)| Stage { kind, steps })
        .collect()
}

/// The record of what is about to be done.
pub(super) fn begin(release: &Release) -> Steps {
    let write = |_: &Rank| Action::WriteRelease { release: Box::new(release.clone()) };
    (StageKind::Begin, on_each(release, write))
}

/// Every container of the deployment ends, whatever it was for.
pub(super) fn retire(deployment: &DeploymentName, facts: &[NodeFacts]) -> Steps {
    let steps = facts.iter().flat_map(|facts| {
        facts.ours(deployment).map(|(container, ours)| Step {
            node: facts.node.clone(),
            action: Action::Retire {
                container: container.name.clone(),
                release: ours.release,
                rank: ours.rank,
            },
        })
    });
    (StageKind::Stop, steps.collect())
}

/// The page cache is dropped on nodes whose GPU shares the system's memory.
pub(super) fn free(release: &Release, facts: &[NodeFacts]) -> Steps {
    let of = |rank: &Rank| facts.iter().find(|facts| facts.node == rank.node);
    let unified =
        release.ranks.iter().filter_map(of).filter(|facts| memory(facts).is_some_and(|it| it.unified));
    let steps = unified.map(|facts| Step {
        node: facts.node.clone(),
        action: Action::DropCache {
            path: release.profile.model.path.clone(),
            whole: facts.user.sudo == Some(true),
        },
    });
    (StageKind::Memory, steps.collect())
}

/// Every rank's container is made and started.
pub(super) fn start(release: &Release) -> Steps {
    let start = |rank: &Rank| Action::Start {
        deployment: release.deployment.clone(),
        release: release.number,
        rank: Box::new(rank.clone()),
    };
    (StageKind::Start, on_each(release, start))
}

/// The group has to be ready, and to answer rightly.
pub(super) fn prove(release: &Release) -> [Steps; 2] {
    let profile = &release.profile;
    let endpoint = Endpoint::of_release(release);
    let ready = ReadySpec {
        engine: profile.engine.kind,
        launch: profile.engine.launch(),
        endpoint: endpoint.clone(),
        deployment: release.deployment.clone(),
        fabric: profile.cluster.nodes.iter().map(|node| node.fabric).collect(),
        containers: release.ranks.iter().map(|rank| (rank.node.clone(), name(release, rank))).collect(),
        timeout: profile.ready.timeout,
        stall: profile.ready.stall,
    };
    let on_head = |action| vec![Step { node: profile.head().name.clone(), action }];
    [
        (StageKind::Ready, on_head(Action::AwaitReady { ready })),
        (StageKind::Verify, on_head(Action::Verify { endpoint, verify: questions(profile) })),
    ]
}

/// What comes after the proof, in order: the record and, of a release that is new (with its token), the benchmark and the
/// operator's hook. What comes back was measured once.
pub(super) fn recorded(
    release: &Release,
    facts: &[NodeFacts],
    new: Option<&str>,
    record: Steps,
) -> Vec<Steps> {
    let mut stages = vec![record];
    if let Some(token) = new {
        stages.extend([bench(release, facts), hook(release, token)]);
    }
    stages.sort_by_key(|(kind, _)| *kind);
    stages
}

/// The release is measured: with limits to keep, before it counts as deployed, else afterwards. Nothing where the profile
/// wants no benchmark.
fn bench(release: &Release, facts: &[NodeFacts]) -> Steps {
    let profile = &release.profile;
    let mut how = profile.bench.clone();
    if let Some(context) = profile.engine.context_length
        && u64::from(how.input_tokens) + u64::from(how.output_tokens) > u64::from(context)
    {
        // Only of a benchmark that nobody wrote: the profile is refused otherwise. A template needs some tokens as well.
        (how.input_tokens, how.output_tokens) = (context / 2, context / 8);
    }
    let limits = how.gate.iter().filter_map(|limits| limits.parse::<Gate>().ok());
    let gate = Gate(limits.flat_map(|Gate(limits)| limits).collect());
    let kind = if gate.0.is_empty() { StageKind::Bench } else { StageKind::Gate };
    if how.concurrency.is_empty() || how.input_tokens == 0 || how.output_tokens == 0 {
        return (kind, Vec::new());
    }
    let before = facts
        .iter()
        .flat_map(|facts| &facts.releases)
        .filter(|other| other.number < release.number && other.outcome == Outcome::Deployed)
        .filter_map(|other| Some((other.number, other.figures.bench.clone()?)))
        .max_by_key(|(number, _)| *number);
    let bench = BenchSpec {
        endpoint: Endpoint::of_release(release),
        url: profile.endpoint(),
        how,
        gate,
        before,
        release: Release { outcome: Outcome::Deployed, ..release.clone() },
    };
    let node = profile.head().name.clone();
    (kind, vec![Step { node, action: Action::Bench { bench: Box::new(bench) } }])
}

/// The operator's own word that all is well, where the profile has a hook for it.
fn hook(release: &Release, token: &str) -> Steps {
    let profile = &release.profile;
    let action = |hook: &Hook| Action::RunHook {
        hook: hook.clone(),
        deployment: release.deployment.clone(),
        release: release.number,
        endpoint: profile.endpoint(),
        token: token.to_owned(),
    };
    let node = &profile.head().name;
    let steps =
        profile.hooks.at(Moment::PostReady).map(|hook| Step { node: node.clone(), action: action(hook) });
    (StageKind::Hook, steps.into_iter().collect())
}

/// The containers come back with the node from now on, and the record says `deployed`; what is so
/// already is left out. `started` says that the containers are new, whatever the facts say.
pub(super) fn record(release: &Release, facts: &[NodeFacts], started: bool) -> Steps {
    let of = |rank: &Rank| facts.iter().find(|facts| facts.node == rank.node);
    let comes_back = |rank: &Rank| {
        let name = name(release, rank);
        let restarts = |facts: &NodeFacts| {
            facts.containers.iter().any(|c| c.name == name && c.restart == "unless-stopped")
        };
        !started && of(rank).is_some_and(restarts)
    };
    let done = Release { outcome: Outcome::Deployed, ..release.clone() };
    let written = |rank: &Rank| {
        // A record of a newer sparkctl is not written over, whatever it says.
        let says_so = |r: &Release| r.number == done.number && (r.outcome == done.outcome || r.is_newer());
        of(rank).is_some_and(|facts| facts.releases.iter().any(says_so))
    };
    let restart = release.ranks.iter().filter(|rank| !comes_back(rank)).map(|rank| Step {
        node: rank.node.clone(),
        action: Action::KeepRunning { container: name(release, rank) },
    });
    let write = release.ranks.iter().filter(|rank| !written(rank)).map(|rank| Step {
        node: rank.node.clone(),
        action: Action::WriteRelease { release: Box::new(done.clone()) },
    });
    (StageKind::Record, restart.chain(write).collect())
}

/// What `verify` asks, less what the engine was not told to do.
fn questions(profile: &Profile) -> Verify {
    Verify {
        chat: profile.verify.chat,
        reasoning: profile.verify.reasoning && profile.engine.reasoning_parser.is_some(),
        tools: profile.verify.tools && profile.engine.tool_parser.is_some(),
        stream: profile.verify.stream,
    }
}

fn on_each(release: &Release, action: impl Fn(&Rank) -> Action) -> Vec<Step> {
    release.ranks.iter().map(|rank| Step { node: rank.node.clone(), action: action(rank) }).collect()
}

fn name(release: &Release, rank: &Rank) -> String {
    container_name(&release.deployment, rank.rank)
}
