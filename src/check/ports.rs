//! Ports of the engine that something else listens on.

use super::{Finding, Member, Seen, containers};
use crate::cluster::facts::{Container, Listener, NodeFacts};
use crate::engine::{self, KnownPort};
use crate::profile::Profile;

/// A port that a rank needs and that is not free.
pub(super) struct Taken<'a> {
    pub port: KnownPort,
    pub listener: &'a Listener,
    /// The container that holds it, where it is one and known.
    pub holder: Option<&'a Container>,
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    for Member { rank, facts, .. } in &seen.nodes {
        for taken in taken(seen.profile, *rank, facts) {
            findings.push(finding(seen.profile, facts, &taken));
        }
    }
}

/// The ports of a rank that others hold.
pub(super) fn taken<'a>(profile: &Profile, rank: usize, node: &'a NodeFacts) -> Vec<Taken<'a>> {
    // Another deployment of ours holds its own ports; that it runs here is told already.
    let other = |c: &Container| {
        c.state.running && c.ours.as_ref().is_some_and(|ours| ours.deployment != profile.name)
    };
    if node.containers.iter().any(other) {
        return Vec::new();
    }
    // A container of ours that runs holds what its own release asked for; it ends before the new one starts.
    let held_by_us: Vec<u16> = node
        .ours(&profile.name)
        .filter(|(container, _)| container.state.running)
        .flat_map(|(_, ours)| {
            let release = node.releases.iter().find(|release| release.number == ours.release);
            engine::ports(release.map_or(profile, |release| &release.profile), ours.rank as usize)
        })
        .map(|port| port.number)
        .collect();
    let needed = engine::ports(profile, rank).into_iter().filter(|port| !held_by_us.contains(&port.number));
    needed
        .filter_map(|port| {
            let listener = node.listeners.iter().find(|listener| listener.port == port.number)?;
            let holds = |container: &&Container| {
                let named = listener.container.as_deref() == Some(&container.name);
                container.state.running && (named || container.published.contains(&port.number))
            };
            Some(Taken { port, listener, holder: node.containers.iter().find(holds) })
        })
        .collect()
}

fn finding(profile: &Profile, node: &NodeFacts, taken: &Taken) -> Finding {
    let Taken { port: KnownPort { number, what, hint }, listener, holder } = taken;
    let by = match (holder, &listener.process) {
        (Some(container), _) => format!("container `{}`", container.name),
        (None, Some(process)) => format!("process `{process}`"),
        (None, None) => "a process of another user".to_owned(),
    };
    let message = format!("port {number} ({what}) is taken by {by}, which listens on {}", listener.address);
    if holder.is_some_and(|container| containers::is_stopped(profile, container)) {
        let (message, hint) = (message + ": a deploy stops it", containers::stopped_hint(profile));
        return Finding::warning("port-taken", Some(&node.node), message, &hint).at("conflicts");
    }
    let finding = Finding::error("port-taken", Some(&node.node), message, hint);
    if *number == profile.serve.port.get() { finding.at("serve.port") } else { finding }
}
