//! What should be alike on all nodes: one table of it, and findings on what differs.

use serde::Serialize;

use super::{Finding, Member, Seen, Severity, content};
use crate::cluster::facts::NodeFacts;
use crate::fabric::Links;
use crate::plan::render::size;
use crate::profile::{NodeName, Profile};

/// A line of the table: a value for each node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub what: &'static str,
    /// By node, in the profile's order; none where it is not known.
    pub values: Vec<(NodeName, Option<String>)>,
}

impl Row {
    /// Whether nodes that tell it differ.
    pub fn differs(&self) -> bool {
        let mut known = self.values.iter().filter_map(|(_, value)| value.as_ref());
        known.next().is_some_and(|first| known.any(|value| value != first))
    }
}

/// A line, how its value is found, and the check of it, where no other tells it.
struct Line {
    what: &'static str,
    id: Option<(&'static str, Severity, &'static str)>,
    value: fn(&Seen, &Member) -> Option<String>,
}

const FIRMWARE: &str =
    "bring both to one version: sudo fwupdmgr refresh && sudo fwupdmgr update, then switch them off and on";

const LINES: &[Line] = &[
    Line { what: "system", id: None, value: |_, m| Some(m.facts.system.os.clone()) },
    Line {
        what: "kernel",
        id: Some((
            "parity-kernel",
            Severity::Note,
            "bring both to one kernel: sudo apt full-upgrade, then reboot",
        )),
        value: |_, m| Some(m.facts.system.kernel.clone()),
    },
    Line {
        what: "gpu",
        id: Some(("parity-gpu", Severity::Warning, "build the group of nodes with the same GPUs")),
        value: |_, m| gpus(m.facts),
    },
    Line {
        what: "driver",
        id: Some(("parity-driver", Severity::Warning, "bring both to one driver, then reboot")),
        value: |_, m| Some(m.facts.gpus.first()?.driver.clone()),
    },
    Line {
        what: "vbios",
        id: Some(("parity-firmware", Severity::Warning, FIRMWARE)),
        value: |_, m| m.facts.gpus.first()?.vbios.clone(),
    },
    Line {
        what: "firmware",
        id: Some(("parity-firmware", Severity::Warning, FIRMWARE)),
        value: |_, m| m.facts.system.firmware.clone(),
    },
    Line { what: "nic", id: Some(("parity-firmware", Severity::Warning, FIRMWARE)), value: |_, m| card(m) },
    Line { what: "caps", id: None, value: |_, m| caps(m.facts) },
    Line { what: "cuda", id: None, value: |_, m| m.facts.nvidia.cuda.clone() },
    Line {
        what: "docker",
        id: Some(("parity-docker", Severity::Note, "bring both to one version: sudo apt upgrade")),
        value: |_, m| Some(m.facts.engine()?.version.clone()),
    },
    Line {
        what: "store",
        id: None,
        value: |_, m| Some(format!("{:?}", m.facts.engine()?.store).to_lowercase()),
    },
    Line { what: "cgroups", id: None, value: |_, m| m.facts.engine()?.cgroup_driver.clone() },
    Line {
        what: "toolkit",
        id: Some(("parity-docker", Severity::Note, "bring both to one version: sudo apt upgrade")),
        value: |_, m| m.facts.toolkit.as_ref()?.version.clone(),
    },
    Line { what: "memory", id: None, value: |_, m| Some(size(m.facts.system.memory_total)) },
    Line { what: "mtu", id: None, value: |_, m| Some(m.facts.interface_of(m.node.fabric)?.mtu.to_string()) },
    Line {
        what: "link",
        id: None,
        value: |_, m| Some(format!("{} Gb/s", m.facts.interface_of(m.node.fabric)?.speed? / 1000)),
    },
    Line { what: "image", id: None, value: image },
    Line { what: "model", id: None, value: |_, m| Some(model(m.facts)) },
];

/// What is alike, and what is not.
pub fn table(profile: &Profile, facts: &[NodeFacts]) -> Vec<Row> {
    let links = Links::default();
    let seen = Seen::new(profile, facts, &links);
    let row = |line: &Line| {
        let value = |member: &Member| (member.node.name.clone(), (line.value)(&seen, member));
        Row { what: line.what, values: seen.nodes.iter().map(value).collect() }
    };
    LINES.iter().map(row).collect()
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    for line in LINES {
        let Some((id, severity, hint)) = line.id else { continue };
        let nodes = seen.nodes.iter();
        let values = nodes.filter_map(|member| Some((&member.node.name, (line.value)(seen, member)?)));
        let values: Vec<_> = values.collect();
        if values.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            continue;
        }
        let told: Vec<_> = values.iter().map(|(node, value)| format!("{node} {value}")).collect();
        let message = format!("{} differs: {}", line.what, told.join(", "));
        findings.push(Finding::new(severity, id, None, message, hint));
    }
    memory(seen, findings);
}

/// Percent that memory may differ by: firmware and kernel of the same machine keep a little more or less.
const ALIKE: u64 = 3;

fn memory(seen: &Seen, findings: &mut Vec<Finding>) {
    let total = |facts: &NodeFacts| facts.system.memory_total;
    let (Some(least), Some(most)) = (seen.facts().map(total).min(), seen.facts().map(total).max()) else {
        return;
    };
    if (most - least) * 100 <= most * ALIKE {
        return;
    }
    let told: Vec<_> = seen.facts().map(|facts| format!("{} {}", facts.node, size(total(facts)))).collect();
    let hint = "set `engine.memory_fraction` for the smallest; a node that lost memory may keep it for a crash kernel or CMA";
    let message = format!("memory differs: {}", told.join(", "));
    findings.push(Finding::warning("parity-memory", None, message, hint));
}

/// Firmware of the card that the fabric's address is on.
fn card(member: &Member) -> Option<String> {
    let devices = &member.facts.interface_of(member.node.fabric)?.rdma;
    devices.iter().find_map(|name| member.facts.rdma_device(name)?.firmware.clone())
}

/// Limits of the GPU that are set at each boot; not known where the driver was not asked.
fn caps(facts: &NodeFacts) -> Option<String> {
    facts.gpus.first()?;
    let flags = facts
        .nvidia
        .caps
        .iter()
        .map(|(_, line)| line.split_once("nvidia-smi ").map_or(line.as_str(), |of| of.1));
    let flags: Vec<_> = flags.collect();
    Some(if flags.is_empty() { "none".to_owned() } else { flags.join("; ") })
}

fn gpus(facts: &NodeFacts) -> Option<String> {
    let first = &facts.gpus.first()?.name;
    Some(match facts.gpus.len() {
        1 => first.clone(),
        count => format!("{count} x {first}"),
    })
}

/// The image that would be started: whether the node has it, or another under its name.
fn image(seen: &Seen, member: &Member) -> Option<String> {
    let wanted = content(seen.profile, seen.facts())?;
    member.facts.engine()?;
    let short = |content: &crate::container::ImageContent| {
        content.to_string().trim_start_matches("sha256:").chars().take(12).collect::<String>()
    };
    if member.facts.image(wanted).is_some() {
        return Some(short(wanted));
    }
    let named = member.facts.image_named(&seen.profile.image.reference.with_tag());
    Some(named.map_or_else(|| "absent".to_owned(), |other| short(&other.content)))
}

fn model(facts: &NodeFacts) -> String {
    let Some(model) = &facts.model else { return "absent".to_owned() };
    let bytes = model.files.iter().map(|file| file.size).sum();
    format!("{} in {} files", size(bytes), model.files.len())
}
