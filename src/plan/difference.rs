//! How what runs differs from what is wanted, in words. Pure.

use super::planner::{engine_words, release_numbered};
use super::render::{shown, words};
use crate::cluster::facts::NodeFacts;
use crate::container::{ContainerSpec, Mount, container_name};
use crate::delivery::kept::{Kept, KeptKind};
use crate::engine::prelude;
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
                let release = release_numbered(ours.release, facts);
                let before = release.as_ref().and_then(|release| {
                    let mut ranks = release.ranks.iter();
                    Some((release, ranks.find(|before| before.rank == rank.rank)?))
                });
                found.extend(match before {
                    Some((release, before)) => {
                        let mut found = spec_differences(&rank.node, &before.spec, &rank.spec);
                        if let Some(facts) = facts.iter().find(|facts| facts.node == rank.node) {
                            found.extend(mount_differences(facts, release, &before.spec, wanted, &rank.spec));
                        }
                        found
                    }
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
            if release_numbered(one, facts).is_some_and(|release| is_other(&release, wanted)) {
                found.push("the model's files changed since they were loaded".to_owned());
            }
        }
        [] => {}
        _ => found.push("the ranks are of different releases".to_owned()),
    }
    found
}

/// In words, how one release differs from another, as far as their records tell.
pub(super) fn between(before: &Release, after: &Release) -> Vec<String> {
    let mut found = Vec::new();
    let nodes =
        |release: &Release| -> Vec<_> { release.ranks.iter().map(|rank| rank.node.to_string()).collect() };
    if nodes(before) != nodes(after) {
        found.push(format!("nodes {} → {}", nodes(before).join(", "), nodes(after).join(", ")));
    }
    if let (Some(old), Some(new)) = (engine_words(before), engine_words(after))
        && old != new
    {
        found.push(format!("engine {old} → {new}"));
    }
    let (old, new) = (&before.profile.model.path, &after.profile.model.path);
    if old != new {
        found.push(format!("model {old} → {new}"));
    } else if is_other(before, after) {
        found.push("the model's files".to_owned());
    }
    for rank in &after.ranks {
        let Some(old) = before.ranks.iter().find(|old| old.rank == rank.rank) else { continue };
        found.extend(spec_differences(&rank.node, &old.spec, &rank.spec));
        if old.spec.mounts != rank.spec.mounts {
            found.push(format!("{}: what is mounted: files, secrets or folders", rank.node));
        }
    }
    found
}

/// Whether two releases are of other weights: by their content where that is known of both, else by times.
fn is_other(one: &Release, other: &Release) -> bool {
    match (&one.weights_content, &other.weights_content) {
        (Some(one), Some(other)) => one != other,
        _ => one.weights != other.weights,
    }
}

/// What differs between two specifications of a rank, in words.
fn spec_differences(node: &NodeName, before: &ContainerSpec, after: &ContainerSpec) -> Vec<String> {
    let mut found = Vec::new();
    if before.image != after.image {
        found.push(format!("{node}: image {} → {}", before.image, after.image));
    }
    let ((ahead_before, argv_before), (ahead_after, argv_after)) =
        (prelude::split(&before.argv), prelude::split(&after.argv));
    if argv_before != argv_after {
        found.push(format!("{node}: arguments {}", list_difference(argv_before, argv_after)));
    }
    if ahead_before.before != ahead_after.before {
        let told = |list: &[Vec<String>]| list.iter().map(|argv| words(argv)).collect::<Vec<_>>();
        let change = list_difference(&told(&ahead_before.before), &told(&ahead_after.before));
        found.push(format!("{node}: commands ahead of the engine {change}"));
    } else if ahead_before == ahead_after && argv_before == argv_after && before.argv != after.argv {
        found.push(format!("{node}: the script that runs ahead of the engine is of another sparkctl"));
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
        (spec.devices.clone(), spec.gpus, spec.capabilities.clone(), spec.ulimits.clone())
    };
    if rest(before) != rest(after) {
        found.push(format!("{node}: devices or limits"));
    }
    found
}

/// What differs between what is mounted into two containers of a rank, one of the release `old` that runs, one of the
/// release `new` that is wanted.
fn mount_differences(
    facts: &NodeFacts,
    old: &Release,
    before: &ContainerSpec,
    new: &Release,
    after: &ContainerSpec,
) -> Vec<String> {
    let mut found = Vec::new();
    let of = |spec: &ContainerSpec, target: &str| -> Option<Mount> {
        spec.mounts.iter().find(|mount| mount.target == target).cloned()
    };
    let added = after.mounts.iter().filter(|mount| of(before, &mount.target).is_none());
    for target in before.mounts.iter().chain(added).map(|mount| mount.target.as_str()) {
        let (before, after) = (of(before, target), of(after, target));
        if before == after {
            continue;
        }
        let kept = |mount: &Option<Mount>| {
            Kept::mounted(&mount.as_ref()?.source, &facts.system.home, &new.deployment)
        };
        let (kept_before, kept_after) = (kept(&before), kept(&after));
        if kept_before.iter().chain(&kept_after).any(|kept| kept.kind == KeptKind::Secrets) {
            found.extend(secret_differences(facts, old, kept_before.as_ref(), new));
            continue;
        }
        let word = if kept_before.or(kept_after).is_some() { "file" } else { "mount" };
        let how = match (&before, &after) {
            (None, _) => "is new",
            (_, None) => "is gone",
            _ => "changed",
        };
        found.push(format!("{word} {target} {how}"));
    }
    if found.is_empty() && before.mounts != after.mounts {
        found.push("the order of the mounts".to_owned());
    }
    found.into_iter().map(|change| format!("{}: {change}", facts.node)).collect()
}

/// Which secrets differ. That a value changed was found out on the node, where it lies.
fn secret_differences(facts: &NodeFacts, old: &Release, before: Option<&Kept>, new: &Release) -> Vec<String> {
    let (old, new) = (old.profile.secrets(), new.profile.secrets());
    let there = before.and_then(|kept| facts.kept.secrets.get(&kept.id));
    let mut found = Vec::new();
    for name in old.union(&new) {
        let same = there.and_then(|values| values.get(*name).copied().flatten());
        found.push(match (old.contains(name), new.contains(name), same) {
            (false, _, _) => format!("secret {name} is new"),
            (_, false, _) => format!("secret {name} is gone"),
            (_, _, Some(true)) => continue,
            (_, _, Some(false)) => format!("secret {name} changed"),
            (_, _, None) => format!("secret {name} is another release's"),
        });
    }
    if found.is_empty() {
        found.push("the file of secrets is another one".to_owned());
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
