//! Containers that are in the way: of other people, of other deployments, and with our names.

use super::{Finding, Member, Seen, ports};
use crate::cluster::facts::{Container, NodeFacts};
use crate::container::container_name;
use crate::fabric::Links;
use crate::profile::{Conflicts, Profile};
use crate::release::Foreign;

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    for member in &seen.nodes {
        foreign_gpu_users(seen.profile, member.facts, findings);
    }
    names_taken(seen, findings);
}

fn foreign_gpu_users(profile: &Profile, facts: &NodeFacts, findings: &mut Vec<Finding>) {
    for container in facts.containers.iter().filter(|c| c.gpus && !c.state.running && c.ours.is_none()) {
        if container.restart == "always" {
            findings.push(Finding::warning(
                "gpu-claimed",
                Some(&facts.node),
                format!(
                    "container `{}` does not run, but comes back with the node and takes the GPU",
                    container.name
                ),
                &format!("docker update --restart no {}", container.name),
            ));
        }
    }
    for container in facts.containers.iter().filter(|c| c.gpus && c.state.running) {
        match &container.ours {
            Some(ours) if ours.deployment == profile.name => {}
            Some(ours) => findings.push(Finding::error(
                "gpu-taken",
                Some(&facts.node),
                format!("deployment `{}` holds the GPU (container {})", ours.deployment, container.name),
                &format!(
                    "sparkctl stop {} (or its profile's file, where it is not known here)",
                    ours.deployment
                ),
            )),
            None => findings.push(stranger_on_gpu(profile, facts, container)),
        }
    }
}

fn stranger_on_gpu(profile: &Profile, facts: &NodeFacts, container: &Container) -> Finding {
    let (node, seen) = (Some(&facts.node), described(container));
    if is_stopped(profile, container) {
        let message = format!("{seen} holds the GPU, and is not sparkctl's: a deploy stops it");
        return Finding::warning("gpu-taken", node, message, &stopped_hint(profile)).at("conflicts");
    }
    if profile.conflicts == Conflicts::Stop {
        let message = format!("{seen} holds the GPU, and would be gone for good once it is stopped");
        return Finding::error("gpu-taken", node, message, &format!("docker stop {}", container.name));
    }
    let hint = format!(
        "stop it, and keep it from coming back after a reboot: docker update --restart no {0} && docker stop {0}",
        container.name
    );
    Finding::error("gpu-taken", node, format!("{seen} holds the GPU, and is not sparkctl's"), &hint)
}

/// A container of other people's, with what a person needs to know it by.
fn described(container: &Container) -> String {
    let mut words = vec![format!("image {}", container.image)];
    words.push(if container.auto_remove {
        "started with --rm".to_owned()
    } else {
        format!("restart policy {}", container.restart)
    });
    words.extend(container.state.started.map(|at| format!("since {}", at.strftime("%Y-%m-%d %H:%M UTC"))));
    words.extend(container.serves().map(|model| format!("serves {model}")));
    format!("container `{}` ({})", container.name, words.join(", "))
}

/// Whether a deploy stops this container where it is in the way. One that Docker would remove could not come back.
pub(super) fn is_stopped(profile: &Profile, container: &Container) -> bool {
    profile.conflicts == Conflicts::Stop && container.ours.is_none() && !container.auto_remove
}

pub(super) fn stopped_hint(profile: &Profile) -> String {
    format!(
        "nothing to do where it is meant: it comes back if the deploy fails, and by `sparkctl rollback {} --to 0`",
        profile.name
    )
}

/// The containers of other people's that a deploy of this profile stops.
pub(crate) fn to_stop(profile: &Profile, facts: &[NodeFacts]) -> Vec<Foreign> {
    let links = Links::default();
    let mut found = Vec::new();
    for Member { rank, facts, .. } in Seen::new(profile, facts, &links).nodes {
        let ports = ports::taken(profile, rank, facts);
        for container in facts.containers.iter().filter(|c| c.state.running && is_stopped(profile, c)) {
            let held = ports.iter().filter(|taken| taken.holder.is_some_and(|it| it.id == container.id));
            let held: Vec<_> = held.map(|taken| taken.port.number).collect();
            if container.gpus || !held.is_empty() {
                found.push(Foreign {
                    node: facts.node.clone(),
                    id: container.id.clone(),
                    name: container.name.clone(),
                    image: container.image.clone(),
                    restart: container.restart.clone(),
                    since: container.state.started,
                    serves: container.serves(),
                    gpus: container.gpus,
                    ports: held,
                });
            }
        }
    }
    found
}

fn names_taken(seen: &Seen, findings: &mut Vec<Finding>) {
    for member in &seen.nodes {
        let rank = u32::try_from(member.rank).expect("a few nodes");
        let name = container_name(&seen.profile.name, rank);
        let facts = member.facts;
        let stranger =
            facts.containers.iter().find(|container| container.name == name && container.ours.is_none());
        if let Some(stranger) = stranger {
            findings.push(Finding::error(
                "name-taken",
                Some(&facts.node),
                format!("a container named `{name}` (image {}) is not sparkctl's", stranger.image),
                &format!("docker rename {name} OTHER_NAME, or choose another `name` for the deployment"),
            ));
        }
    }
}
