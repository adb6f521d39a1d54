//! The machines themselves: architecture, tools, clocks, kernel, memory, what earlier runs left.

use super::{Finding, Seen};
use crate::cluster::facts::{Limit, Missing, NodeFacts};
use crate::plan::render::size;
use crate::release::Release;

/// Without which no group starts.
pub(super) fn needed(seen: &Seen, findings: &mut Vec<Finding>) {
    for facts in seen.facts() {
        for why in &facts.unreadable_releases {
            findings.push(Finding::warning(
                "release-unreadable",
                Some(&facts.node),
                format!("a release record cannot be read: {why}"),
                "it may be of a newer sparkctl; it is left as it is",
            ));
        }
        for words in facts.releases.iter().filter_map(Release::newer_words) {
            findings.push(Finding::note(
                "release-newer",
                Some(&facts.node),
                words,
                "it is read as far as it is known here, and left as it is; use the newer sparkctl",
            ));
        }
    }
    architecture(seen, findings);
    tools(seen, findings);
    same_machine(seen, findings);
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    clocks(seen, findings);
    for facts in seen.facts() {
        system(facts, findings);
        old_tools(facts, findings);
        left(seen, facts, findings);
        for gap in &facts.gaps {
            if let Missing::TimedOut(seconds) = gap.why
                && gap.what != "nvidia-smi"
            {
                findings.push(Finding::warning(
                    "unanswered",
                    Some(&facts.node),
                    format!("`{}` gave no answer within {seconds} s", gap.what),
                    "run it by hand on the node; see `sudo dmesg` for a disk or a driver that hangs",
                ));
            }
        }
    }
}

fn architecture(seen: &Seen, findings: &mut Vec<Finding>) {
    let Some(head) = seen.nodes.first() else { return };
    for worker in &seen.nodes[1..] {
        let (own, wanted) = (&worker.facts.system.architecture, &head.facts.system.architecture);
        if own != wanted {
            findings.push(Finding::error(
                "architecture",
                Some(&worker.node.name),
                format!("is {own}, {} is {wanted}", head.node.name),
                "one image cannot run on both: take nodes of one kind",
            ));
        }
    }
}

fn tools(seen: &Seen, findings: &mut Vec<Finding>) {
    let mut wanted = Vec::new();
    if seen.profile.cluster.nodes.len() > 1 {
        wanted = vec![("rsync", "copies weights between nodes"), ("python3", "passes images between nodes")];
    } else if !seen.profile.secrets().is_empty() {
        wanted = vec![("python3", "takes secrets out of the logs that are kept")];
    }
    for facts in seen.facts() {
        for (tool, why) in &wanted {
            if !facts.tools.contains_key(*tool) {
                findings.push(Finding::error(
                    "tool-absent",
                    Some(&facts.node),
                    format!("`{tool}` is not installed; it {why}"),
                    &format!("sudo apt install {tool}"),
                ));
            }
        }
    }
}

fn same_machine(seen: &Seen, findings: &mut Vec<Finding>) {
    for (place, one) in seen.nodes.iter().enumerate() {
        let system = &one.facts.system;
        let twin = seen.nodes[..place].iter().find(|other| {
            other.facts.system.boot_id == system.boot_id && other.facts.system.hostname == system.hostname
        });
        if let Some(other) = twin {
            let message =
                format!("is the same machine as {} (host name {})", other.node.name, system.hostname);
            let hint = "give each node of the profile a `host` of its own";
            let found = Finding::error("same-machine", Some(&one.node.name), message, hint);
            findings.push(found.at(format!("cluster.nodes[{}].host", one.rank)));
        }
    }
}

/// The versions that know what sparkctl asks of them: rsync's `--info`, Python's f-strings and `capture_output`.
const OLDEST: &[(&str, u32, u32)] = &[("rsync", 3, 1), ("python3", 3, 7)];

fn old_tools(facts: &NodeFacts, findings: &mut Vec<Finding>) {
    for (tool, major, minor) in OLDEST {
        let Some(version) = facts.tools.get(*tool) else { continue };
        let mut parts = version.split('.').map(str::parse::<u32>);
        if let (Some(Ok(have_major)), Some(Ok(have_minor))) = (parts.next(), parts.next())
            && (have_major, have_minor) < (*major, *minor)
        {
            findings.push(Finding::error(
                "tool-old",
                Some(&facts.node),
                format!("`{tool}` is {version}, and {major}.{minor} is the oldest that will do"),
                &format!("update it: sudo apt install {tool}"),
            ));
        }
    }
}

/// How far clocks may be apart. Seconds.
const APART: i64 = 2;

fn clocks(seen: &Seen, findings: &mut Vec<Finding>) {
    let clock = |facts: &&NodeFacts| facts.clock.is_some();
    let mut nodes = seen.facts().filter(clock);
    if let Some(first) = nodes.next() {
        for other in nodes {
            let (Some(mine), Some(theirs)) = (other.clock, first.clock) else { continue };
            let (least, most) = mine.ahead_of(&theirs);
            let (seconds, way) = match (least.as_secs(), most.as_secs()) {
                (ahead, _) if ahead >= APART => (ahead, "ahead of"),
                (_, behind) if behind <= -APART => (-behind, "behind"),
                _ => continue,
            };
            findings.push(Finding::warning(
                "clock-skew",
                Some(&other.node),
                format!("its clock is {seconds} s {way} {}'s", first.node),
                "sudo timedatectl set-ntp true on both, and see `timedatectl`",
            ));
        }
    }
    for facts in seen.facts().filter(|facts| facts.system.clock_synchronised == Some(false)) {
        findings.push(Finding::note(
            "clock-unsynchronised",
            Some(&facts.node),
            "no time server keeps its clock".to_owned(),
            "sudo timedatectl set-ntp true",
        ));
    }
}

/// Swap in use from which a node on unified memory has been short of it. Bytes.
const SWAPPED: u64 = 2 << 30;

fn system(facts: &NodeFacts, findings: &mut Vec<Finding>) {
    let node = Some(&facts.node);
    let system = &facts.system;
    if let (Some(total), Some(free)) = (system.cma_total, system.cma_free)
        && free > total
    {
        findings.push(Finding::warning(
            "kernel-cma",
            node,
            format!("kernel {}: CmaFree ({}) is above CmaTotal ({})", system.kernel, size(free), size(total)),
            "boot kernel 6.17 or later, or add `kho=off` to the kernel's command line",
        ));
    }
    if system.earlyoom == Some(true) {
        findings.push(Finding::warning(
            "earlyoom",
            node,
            "earlyoom runs".to_owned(),
            "sudo systemctl disable --now earlyoom",
        ));
    }
    if let (Some(total), Some(free)) = (system.swap_total, system.swap_free) {
        let used = total.saturating_sub(free);
        if used >= SWAPPED {
            findings.push(Finding::warning(
                "swap-used",
                node,
                format!("{} of its swap are in use", size(used)),
                "end what holds memory, then empty it: sudo swapoff -a && sudo swapon -a",
            ));
        }
    }
    if system.reboot_required == Some(true) {
        findings.push(Finding::note(
            "reboot-required",
            node,
            "an update waits for a reboot".to_owned(),
            "reboot it at a time of your choice",
        ));
    }
    let rootless = facts.engine().is_some_and(|docker| docker.rootless == Some(true));
    if let (Some(Limit::Bytes(bytes)), true) = (facts.user.memlock, rootless) {
        findings.push(Finding::warning(
            "memlock",
            node,
            format!("the user may lock {} of memory, and Docker runs as this user", size(bytes)),
            "set `memlock unlimited` for the user in /etc/security/limits.conf, or use Docker that runs as root",
        ));
    }
}

/// What earlier runs left of their own.
fn left(seen: &Seen, facts: &NodeFacts, findings: &mut Vec<Finding>) {
    let dead = facts.ours(&seen.profile.name).filter(|(container, _)| !container.state.running);
    let dead: Vec<_> = dead.map(|(container, _)| container.name.as_str()).collect();
    let partial = facts.model.as_ref().map_or(0, |model| model.partial);
    let mut told = Vec::new();
    if !dead.is_empty() {
        told.push(format!("{} of an earlier run does not run", dead.join(", ")));
    }
    if partial > 0 {
        told.push(format!("{} of a copy that was cut", size(partial)));
    }
    if !told.is_empty() {
        findings.push(Finding::note(
            "leftovers",
            Some(&facts.node),
            told.join("; "),
            "the next deploy clears it up, and goes on with the copy",
        ));
    }
}
