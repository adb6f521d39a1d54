//! How what runs differs from what is wanted, in words. Pure.

use super::planner::release_numbered;
use super::render::shown;
use crate::cluster::facts::NodeFacts;
use crate::container::{ContainerSpec, container_name};
use crate::profile::NodeName;
use crate::release::Release;

/// In words, how the group that runs differs from `wanted`'s; empty where it is that group, running whole.
pub(super) fn differences(wanted: &Release, facts: &[NodeFacts]) -> Vec<String> {
    let mut found = Vec::new();
    let deployment = &wanted.deployment;
    for rank in &wanted.ranks {
        let ours = facts.iter().find(|facts| facts.node == rank.node).and_then(|facts| {
            facts
                .ours(deployment)
                .find(|(container, _)| container.name == container_name(deployment, rank.rank))
        });
        match ours {
            None => found.push(format!("{}: no container of rank {}", rank.node, rank.rank)),
            Some((container, _)) if !container.state.running => {
                found.push(format!(
                    "{}: rank {} does not run ({})",
                    rank.node, rank.rank, container.state.status
                ));
            }
            Some((_, ours)) if ours.spec != rank.spec.digest() => {
                let before = release_numbered(ours.release, facts)
                    .and_then(|release| release.ranks.into_iter().find(|before| before.rank == rank.rank));
                found.extend(match before {
                    Some(before) => spec_differences(&rank.node, &before.spec, &rank.spec),
                    None => {
                        vec![format!("{}: rank {} runs with another specification", rank.node, rank.rank)]
                    }
                });
            }
            Some(_) => {}
        }
    }
    for facts in facts {
        for (container, ours) in facts.ours(deployment) {
            let wanted_here =
                wanted.ranks.iter().any(|rank| rank.node == facts.node && rank.rank == ours.rank);
            if !wanted_here {
                found.push(format!("{}: {} is not of this group", facts.node, container.name));
            }
        }
    }
    let mut releases: Vec<_> =
        facts.iter().flat_map(|f| f.ours(deployment)).map(|(_, ours)| ours.release).collect();
    releases.sort();
    releases.dedup();
    match releases[..] {
        [one] => {
            if release_numbered(one, facts).is_some_and(|release| release.weights != wanted.weights) {
                found.push("the model's files changed since they were loaded".to_owned());
            }
        }
        [] => {}
        _ => found.push("the ranks are of different releases".to_owned()),
    }
    found
}

/// What differs between two specifications of a rank, in words.
fn spec_differences(node: &NodeName, before: &ContainerSpec, after: &ContainerSpec) -> Vec<String> {
    let mut found = Vec::new();
    if before.image != after.image {
        found.push(format!("{node}: image {} → {}", before.image, after.image));
    }
    if before.argv != after.argv {
        found.push(format!("{node}: arguments {}", list_difference(&before.argv, &after.argv)));
    }
    for name in before.env.keys().chain(after.env.keys().filter(|name| !before.env.contains_key(*name))) {
        let change = match (before.env.get(name), after.env.get(name)) {
            (Some(old), Some(new)) if old != new => format!("{name}: {old} → {new}"),
            (Some(_), None) => format!("{name} is unset"),
            (None, Some(new)) => format!("{name}={new} is new"),
            _ => continue,
        };
        found.push(format!("{node}: environment {change}"));
    }
    let rest = |spec: &ContainerSpec| {
        let mounts = spec.mounts.clone();
        (mounts, spec.devices.clone(), spec.gpus, spec.capabilities.clone(), spec.ulimits.clone())
    };
    if rest(before) != rest(after) {
        found.push(format!("{node}: mounts, devices or limits"));
    }
    found
}

/// The part of two lists between what they share at both ends.
fn list_difference(before: &[String], after: &[String]) -> String {
    let front = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let back =
        before[front..].iter().rev().zip(after[front..].iter().rev()).take_while(|(a, b)| a == b).count();
    // A flag is told with its value.
    let start = if front > 0 && before[front - 1].starts_with("--") && !before[front - 1].contains('=') {
        front - 1
    } else {
        front
    };
    let middle = |list: &[String]| {
        let words: Vec<_> = list[start..list.len() - back].iter().map(|word| shown(word)).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
    };
    format!("{} → {}", middle(before), middle(after))
}
