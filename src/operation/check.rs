//! `check`: looks at all nodes, probes the fabric and judges. Changes nothing, and takes no lock.

use super::{compare, examine, probe};
use crate::check::{self, Finding};
use crate::cluster::facts::NodeFacts;
use crate::delivery::Delivery;
use crate::error::in_full;
use crate::execute::Hosts;
use crate::fabric::Tell;
use crate::plan::planner::{self, Operator};
use crate::profile::Profile;

/// What was seen and found on the nodes that could be asked.
pub struct Examined {
    pub facts: Vec<NodeFacts>,
    pub findings: Vec<Finding>,
}

/// Judges the nodes that there are hosts of; the others are the caller's to tell. With `measure`, who is told of each
/// link, the fabric's speed as well. A deploy finds the same, and what only a plan can find: so a plan is made where all nodes told enough for one,
/// and thrown away.
pub async fn check(
    profile: &Profile,
    delivery: &Delivery,
    hosts: &Hosts,
    operator: &Operator,
    measure: Option<Tell<'_>>,
) -> Examined {
    let (mut facts, unasked) = examine(profile, hosts).await;
    let links = probe(profile, hosts, &facts, measure).await;
    let mut findings: Vec<_> =
        unasked.iter().map(|error| check::unasked(error.node(), &in_full(error))).collect();
    let all = facts.len() == profile.cluster.nodes.len() && facts.iter().all(|node| node.engine().is_some());
    let compared = all && compare(profile, delivery, hosts, &mut facts).await.is_ok();
    findings.extend(if compared {
        match planner::deploy(profile, delivery, &facts, &links, operator) {
            Ok(planned) => planned.warnings,
            Err(refused) => refused.0,
        }
    } else {
        check::check(profile, &facts, &links)
    });
    Examined { facts, findings }
}
