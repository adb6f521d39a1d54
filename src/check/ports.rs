//! Ports of the engine that something else listens on.

use super::{Finding, Member, Seen};
use crate::cluster::facts::Container;
use crate::engine::{self, KnownPort};
use crate::profile::Profile;

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    for member in &seen.nodes {
        ports(seen.profile, *member, findings);
    }
}

fn ports(profile: &Profile, member: Member, findings: &mut Vec<Finding>) {
    let Member { rank, facts: node, .. } = member;
    // Another deployment of ours holds its own ports; that it runs here is told already.
    let other = |c: &Container| {
        c.state.running && c.ours.as_ref().is_some_and(|ours| ours.deployment != profile.name)
    };
    if node.containers.iter().any(other) {
        return;
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
    for KnownPort { number, what, hint } in engine::ports(profile, rank) {
        if held_by_us.contains(&number) {
            continue;
        }
        if let Some(listener) = node.listeners.iter().find(|listener| listener.port == number) {
            let publisher = node.containers.iter().find(|c| c.state.running && c.published.contains(&number));
            let by = match (publisher, &listener.process) {
                (Some(container), _) => format!("container `{}`", container.name),
                (None, Some(process)) => format!("process `{process}`"),
                (None, None) => "a process of another user".to_owned(),
            };
            let message =
                format!("port {number} ({what}) is taken by {by}, which listens on {}", listener.address);
            let finding = Finding::error("port-taken", Some(&node.node), message, hint);
            findings.push(if number == profile.serve.port.get() {
                finding.at("serve.port")
            } else {
                finding
            });
        }
    }
}
