//! Containers that are in the way: of other people, of other deployments, and with our names.

use super::{Finding, Seen};
use crate::cluster::facts::NodeFacts;
use crate::container::container_name;
use crate::profile::Profile;

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
                &format!("sparkctl stop {} (or its profile's file, where it is not known here)", ours.deployment),
            )),
            None => findings.push(Finding::error(
                "gpu-taken",
                Some(&facts.node),
                format!(
                    "container `{}` (image {}, restart policy {}) holds the GPU, and is not sparkctl's",
                    container.name, container.image, container.restart
                ),
                &format!(
                    "stop it, and keep it from coming back after a reboot: docker update --restart no {0} && docker stop {0}",
                    container.name
                ),
            )),
        }
    }
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
