//! Other people's containers: which of them are stopped for the deployment, and the steps that stop them and bring them
//! back. Pure.
//!
//! The newest record remembers them, on every node, before anything is done to them. One that runs again, whoever
//! started it, is not held any more; one that its owner removed is not missed.

use super::group::{Steps, stages};
use super::planner::{self, running};
use super::{Action, Plan, StageKind, Step, ended, group};
use crate::cluster::facts::NodeFacts;
use crate::engine;
use crate::profile::{DeploymentName, Profile};
use crate::release::{Foreign, Outcome, Release};

/// What is stopped for the deployment now.
pub(crate) fn held(facts: &[NodeFacts]) -> Vec<Foreign> {
    let is_held = |foreign: &&Foreign| is(foreign, facts).is_some_and(|runs| !runs);
    let all = planner::newest_record(facts).into_iter().flat_map(|record| &record.stopped);
    all.filter(is_held).cloned().collect()
}

/// Whether a container runs; `None` where it is gone, or its node was not asked.
fn is(foreign: &Foreign, facts: &[NodeFacts]) -> Option<bool> {
    let node = facts.iter().find(|facts| facts.node == foreign.node)?;
    let container = node.containers.iter().find(|container| container.id == foreign.id)?;
    Some(container.state.running)
}

/// What a run stopped that began at `before`, and that is to come back now as nothing of ours does. Where that run found
/// a deploy that was killed, what that one had stopped belongs to it.
pub(crate) fn stopped_since(before: &[NodeFacts], now: &[NodeFacts]) -> Vec<Foreign> {
    let cut = planner::newest_record(before).is_some_and(|record| record.outcome == Outcome::Begun);
    let mut held = held(now);
    held.retain(|foreign| cut || is(foreign, before) == Some(true));
    held
}

/// Whether a group of this profile has no need of what the container holds.
pub(crate) fn leaves_room_for(profile: &Profile, foreign: &Foreign) -> bool {
    let rank = profile.cluster.nodes.iter().position(|node| node.name == foreign.node);
    let needs = |rank| engine::ports(profile, rank).iter().any(|port| foreign.ports.contains(&port.number));
    rank.is_none_or(|rank| !foreign.gpus && !needs(rank))
}

/// They are stopped, beside what else ends.
pub(super) fn stop(foreign: &[Foreign]) -> impl Iterator<Item = Step> {
    foreign.iter().map(|foreign| Step {
        node: foreign.node.clone(),
        action: Action::StopForeign { foreign: foreign.clone() },
    })
}

/// The newest record remembers them; `release` is the newest where there is no newer one.
pub(super) fn remember(release: &mut Release, facts: &[NodeFacts], stopped: Vec<Foreign>) -> Steps {
    let record = planner::newest_record(facts).filter(|record| record.number > release.number);
    let record = match record {
        Some(newer) => Release { stopped, ..newer.clone() },
        None => {
            release.stopped = stopped;
            release.clone()
        }
    };
    (StageKind::Begin, written(&record, facts))
}

fn written(record: &Release, facts: &[NodeFacts]) -> Vec<Step> {
    let write = || Action::WriteRelease { release: Box::new(record.clone()) };
    facts.iter().map(|facts| Step { node: facts.node.clone(), action: write() }).collect()
}

/// They come back, and nothing remembers them any more.
pub(crate) fn give_back(deployment: &DeploymentName, facts: &[NodeFacts], back: &[Foreign]) -> Plan {
    of_steps(deployment, facts, returned(facts, back))
}

/// Every container of the deployment ends, and they come back.
pub(crate) fn clear(deployment: &DeploymentName, facts: &[NodeFacts], back: &[Foreign]) -> Plan {
    let mut all = vec![group::retire(deployment, facts), ended::forget(deployment, facts)];
    all.extend(returned(facts, back));
    of_steps(deployment, facts, all)
}

fn returned(facts: &[NodeFacts], back: &[Foreign]) -> Vec<Steps> {
    if back.is_empty() {
        return Vec::new();
    }
    let start = back.iter().map(|foreign| Step {
        node: foreign.node.clone(),
        action: Action::ReturnForeign { foreign: foreign.clone() },
    });
    let mut all = vec![(StageKind::Return, start.collect())];
    if let Some(record) = planner::newest_record(facts) {
        let mut left = record.clone();
        left.stopped.retain(|foreign| !back.iter().any(|back| back.id == foreign.id));
        all.push((StageKind::Record, written(&left, facts)));
    }
    all
}

fn of_steps(deployment: &DeploymentName, facts: &[NodeFacts], all: Vec<Steps>) -> Plan {
    Plan {
        deployment: deployment.clone(),
        release: None,
        running: running(deployment, facts),
        engine: None,
        nodes: facts.iter().map(|facts| facts.node.clone()).collect(),
        stages: stages(all),
        differences: Vec::new(),
        against: None,
        last_start_seconds: None,
        endpoint: None,
    }
}
