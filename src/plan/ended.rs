//! What must not run any more on nodes that were away when the group was stopped: remembered on those that were there, until
//! that node is back and it has ended there. Pure.

use std::collections::BTreeMap;

use super::group::Steps;
use super::{Action, StageKind, Step};
use crate::cluster::facts::NodeFacts;
use crate::profile::{DeploymentName, NodeName};
use crate::release::{Ended, ReleaseNumber};

/// Of each node the last.
fn last<'a>(all: impl Iterator<Item = &'a Ended>) -> Vec<Ended> {
    let mut by_node: BTreeMap<&NodeName, &Ended> = BTreeMap::new();
    for ended in all {
        let known = by_node.entry(&ended.node).or_insert(ended);
        if known.release < ended.release {
            *known = ended;
        }
    }
    by_node.into_values().cloned().collect()
}

/// Why a release's container must not run on a node; `None`: it may.
pub(crate) fn of<'a>(facts: &'a [NodeFacts], node: &NodeName, release: ReleaseNumber) -> Option<&'a Ended> {
    let mut all = facts.iter().flat_map(|facts| &facts.ended);
    all.find(|ended| ended.node == *node && release <= ended.release)
}

/// The nodes at hand remember also `ended`.
pub(super) fn remember(deployment: &DeploymentName, facts: &[NodeFacts], ended: &[Ended]) -> Steps {
    (StageKind::Begin, written(deployment, facts, |facts| last(facts.ended.iter().chain(ended))))
}

/// What was to end on the nodes at hand has ended there.
pub(super) fn forget(deployment: &DeploymentName, facts: &[NodeFacts]) -> Steps {
    let here = |ended: &Ended| facts.iter().any(|facts| facts.node == ended.node);
    let left = |facts: &NodeFacts| facts.ended.iter().filter(|ended| !here(ended)).cloned().collect();
    (StageKind::Forget, written(deployment, facts, left))
}

/// Steps where a node is to remember something else than it does.
fn written(
    deployment: &DeploymentName,
    facts: &[NodeFacts],
    wanted: impl Fn(&NodeFacts) -> Vec<Ended>,
) -> Vec<Step> {
    let step = |facts: &NodeFacts| {
        let ended = wanted(facts);
        (ended != facts.ended).then(|| Step {
            node: facts.node.clone(),
            action: Action::WriteEnded { deployment: deployment.clone(), ended },
        })
    };
    facts.iter().filter_map(step).collect()
}
