//! Checks: what would make a deploy fail, or go badly, seen before anything is changed. Pure.
//!
//! One table has every check ([`CHECKS`]); a file a topic makes [`Finding`]s of a profile, of facts and of the fabric's
//! probed links. `sparkctl check` shows them, and a deploy begins with the same ones: an error refuses it, unless it
//! was told to skip that check. Facts that were not asked, or could not be had, give no finding.
//!
//! Left out: what only planning can find (whether there is room for what is to be moved), which is in `plan`.

mod containers;
mod docker;
mod engine;
mod fabric;
mod finding;
mod gpu;
mod host;
mod image;
mod memory;
mod model;
mod parity;
mod ports;
mod select;
mod ssh;
mod table;

use crate::cluster::facts::NodeFacts;
use crate::container::ImageContent;
use crate::fabric::Links;
use crate::profile::{Node, Profile};
use crate::release::Release;

pub(crate) use containers::to_stop;
pub use docker::unusable;
pub use finding::{Finding, Severity};
pub use image::architecture as image_architecture;
pub use parity::{Row, table as parity_table};
pub(crate) use select::without_skipped;
pub use select::{Selection, UnknownCheck};
pub use ssh::{refused, unasked};
pub use table::{CHECKS, Check, document, of};

/// What is judged: the nodes of a profile that could be asked, in its order.
pub(crate) struct Seen<'a> {
    pub profile: &'a Profile,
    pub nodes: Vec<Member<'a>>,
    pub links: &'a Links,
}

/// A node and what was seen on it.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    /// Its place in the profile.
    pub rank: usize,
    pub node: &'a Node,
    pub facts: &'a NodeFacts,
}

impl<'a> Seen<'a> {
    /// `facts` may lack nodes, and be in any order.
    fn new(profile: &'a Profile, facts: &'a [NodeFacts], links: &'a Links) -> Self {
        let member = |(rank, node): (usize, &'a Node)| {
            let facts = facts.iter().find(|facts| facts.node == node.name)?;
            Some(Member { rank, node, facts })
        };
        Self { profile, nodes: profile.cluster.nodes.iter().enumerate().filter_map(member).collect(), links }
    }

    fn facts(&self) -> impl Iterator<Item = &'a NodeFacts> {
        self.nodes.iter().map(|member| member.facts)
    }

    /// The first node, where it could be asked.
    fn head(&self) -> Option<Member<'a>> {
        self.nodes.first().filter(|member| member.rank == 0).copied()
    }
}

/// Everything that can be told of the nodes for this profile. `facts` may lack nodes that could not be asked.
pub fn check(profile: &Profile, facts: &[NodeFacts], links: &Links) -> Vec<Finding> {
    let seen = Seen::new(profile, facts, links);
    let mut findings = again_of(&seen);
    fabric::further(&seen, &mut findings);
    ssh::check(&seen, &mut findings);
    docker::check(&seen, &mut findings);
    host::check(&seen, &mut findings);
    gpu::check(&seen, &mut findings);
    model::check(&seen, &mut findings);
    image::check(&seen, &mut findings);
    engine::check(&seen, &mut findings);
    parity::check(&seen, &mut findings);
    // The model is read on the head.
    if seen.head().is_some() {
        findings.extend(memory::check(profile, facts));
    }
    findings
}

/// What can be told of the nodes for a release that has served there: only what may have changed since then and would
/// surely break it.
pub fn again(profile: &Profile, facts: &[NodeFacts]) -> Vec<Finding> {
    again_of(&Seen::new(profile, facts, &Links::default()))
}

/// What can be told of the model alone, for weights that are to be copied without a deploy.
pub(crate) fn of_weights(profile: &Profile, facts: &[NodeFacts]) -> Vec<Finding> {
    let links = Links::default();
    let seen = Seen::new(profile, facts, &links);
    let mut findings = Vec::new();
    fabric::needed(&seen, &mut findings);
    model::needed(&seen, &mut findings);
    model::check(&seen, &mut findings);
    findings
}

fn again_of(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    fabric::needed(seen, &mut findings);
    containers::check(seen, &mut findings);
    model::needed(seen, &mut findings);
    host::needed(seen, &mut findings);
    gpu::needed(seen, &mut findings);
    ports::check(seen, &mut findings);
    findings
}

/// A release is of other nodes than those at hand.
pub(crate) fn other_nodes(release: &Release, what: &str) -> Finding {
    let nodes: Vec<_> = release.ranks.iter().map(|rank| rank.node.to_string()).collect();
    Finding::error(
        "cluster-changed",
        None,
        format!(
            "release {} is of {}, other nodes or in another order, and {what}",
            release.number,
            nodes.join(", ")
        ),
        &format!("sparkctl stop {} (it knows the old nodes), then deploy", release.deployment),
    )
}

/// The content of the image that would be started: what the head has under the name, else what any node has.
fn content<'a>(profile: &Profile, facts: impl Iterator<Item = &'a NodeFacts>) -> Option<&'a ImageContent> {
    let reference = profile.image.reference.with_tag();
    let mut facts = facts;
    facts.find_map(|facts| facts.image_named(&reference)).map(|image| &image.content)
}
