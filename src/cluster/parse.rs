//! From the output of `gather.sh` to facts. Pure, and never panics, whatever comes.
//!
//! What a node does not tell is absent, never invented; what no plan can do without and did not come
//! (a section cut off, addresses unreadable) is an error; what else could not be read is a gap.

mod gpu;
mod machine;
mod model;
mod network;
mod rdma;
mod release;
pub mod served;
mod sshd;
mod toolkit;

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::facts::{
    ContainerToolkit, Disk, Gap, Gpu, Interface, Listener, Missing, ModelFolder, ModelScan, Nvidia, Peer,
    Process, RdmaDevice, Route, Sshd, System, User,
};
use crate::delivery::kept::KeptFacts;
use crate::profile::DeploymentName;
use crate::release::journal::{Entry, Holder};
use crate::release::{Release, ReleaseNumber};

/// All of a node's facts but those that the Docker Engine tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub gaps: Vec<Gap>,
    pub system: System,
    /// The node's clock at the beginning and at the end.
    pub clock: Option<(Timestamp, Timestamp)>,
    pub user: User,
    pub interfaces: Vec<Interface>,
    pub routes: Option<Vec<Route>>,
    pub peers: Vec<Peer>,
    pub rdma_devices: Vec<RdmaDevice>,
    pub gpus: Vec<Gpu>,
    pub nvidia: Nvidia,
    pub infiniband: bool,
    /// Containers are told by their ID here, as in `processes` and `nvidia`.
    pub listeners: Vec<Listener>,
    pub processes: Option<Vec<Process>>,
    pub model: Option<ModelFolder>,
    pub model_disk: Option<Disk>,
    pub models: Option<ModelScan>,
    pub docker_disk: Option<Disk>,
    pub toolkit: Option<ContainerToolkit>,
    pub tools: BTreeMap<String, String>,
    pub sshd: Option<Sshd>,
    pub releases: Vec<Release>,
    pub unreadable_releases: Vec<String>,
    pub highest_release: Option<ReleaseNumber>,
    pub kept: KeptFacts,
    pub journal: Vec<Entry>,
    pub holder: Option<Holder>,
}

/// Reads the output of `gather.sh`. The error is words.
pub fn parse(deployment: Option<&DeploymentName>, output: &[u8]) -> Result<Seen, String> {
    let sections = Sections::of(output);
    let last = sections.0.last().map_or("the beginning", |(name, _)| name);
    if last != "end" {
        return Err(format!("the answer was cut off after `{last}`"));
    }
    // Without these it would seem that there is nothing, where nothing was looked at.
    if let Some(lacks) =
        ["system", "addresses", "releases", "kept"].iter().find(|name| sections.bytes(name).is_none())
    {
        return Err(format!("the answer lacks `{lacks}`"));
    }
    let text = |name: &str| sections.text(name).unwrap_or_default();
    let mut gaps = Gaps(sections.timed_out());
    let containers = machine::containers(&text("cgroups"));
    let (rdma_devices, rdma) = rdma::devices(&text("rdma"), &text("rdma-files"), &text("ibdev2netdev"));
    let (gpus, nvidia) = gpu::gpus(&sections, &containers, &mut gaps);
    let releases = release::releases(&sections, deployment);
    Ok(Seen {
        system: machine::system(&sections),
        clock: machine::clock(&text("clock")).zip(machine::clock(&text("clock-end"))),
        user: machine::user(&text("user")),
        interfaces: network::interfaces(&text("addresses"), &text("interfaces"), &rdma)?,
        routes: sections.text("routes").and_then(|text| gaps.or_gap("routes", network::routes(&text))),
        peers: text("peers").lines().filter_map(network::peer).collect(),
        rdma_devices,
        gpus,
        nvidia,
        infiniband: text("infiniband").trim() == "yes",
        listeners: network::listeners(&text("listeners"), &containers)?,
        processes: sections
            .text("processes")
            .and_then(|text| gaps.or_gap("processes", machine::processes(&text, &containers))),
        model: model::folder(&sections, &mut gaps)?,
        model_disk: model::disk(&text("model-disk")),
        models: sections.bytes("models").and_then(|json| gaps.or_gap("models", model::json(json))),
        docker_disk: model::disk(&text("docker-disk")),
        toolkit: toolkit::toolkit(&text("toolkit"), &text("toolkit-config"), &text("cdi")),
        tools: toolkit::tools(&text("tools")),
        sshd: sshd::sshd(&sections),
        releases: releases.read,
        unreadable_releases: releases.unreadable,
        highest_release: releases.highest,
        kept: KeptFacts::parse(&text("kept")),
        journal: release::journal(&text("journal")),
        holder: release::holder(&text("holder")),
        gaps: gaps.0,
    })
}

/// The sections by name, in their order.
struct Sections<'a>(Vec<(&'a str, Cow<'a, [u8]>)>);

impl<'a> Sections<'a> {
    fn of(output: &'a [u8]) -> Self {
        const BEFORE: &[u8] = b"\n=== sparkctl ";
        const AFTER: &[u8] = b" ===\n";
        let find = |from: usize, what: &[u8]| {
            let rest = output.get(from..)?;
            rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
        };
        let mut sections: Vec<(&str, Cow<[u8]>)> = Vec::new();
        let mut next = find(0, BEFORE);
        while let Some(at) = next {
            let name_from = at + BEFORE.len();
            let Some(name_to) = find(name_from, AFTER) else { break };
            let body_from = name_to + AFTER.len();
            // One back: an empty section's end is the next one's beginning.
            next = find(body_from - 1, BEFORE);
            let body = output.get(body_from..next.unwrap_or(output.len())).unwrap_or_default();
            if let Ok(name) = std::str::from_utf8(&output[name_from..name_to]) {
                // What hung within a section is told in between.
                match sections.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, parts)) => parts.to_mut().extend_from_slice(body),
                    None => sections.push((name, Cow::Borrowed(body))),
                }
            }
        }
        Self(sections)
    }

    /// What a section says; `None` where it was not asked for.
    fn bytes(&self, wanted: &str) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| *name == wanted).map(|(_, body)| body.as_ref())
    }

    fn text(&self, wanted: &str) -> Option<String> {
        self.bytes(wanted).map(|body| String::from_utf8_lossy(body).into_owned())
    }

    /// Sections whose name begins so, by the rest of their names.
    fn beginning<'b>(&'b self, with: &'b str) -> impl Iterator<Item = (&'a str, &'b [u8])> + 'b {
        self.0.iter().filter_map(move |(name, body)| Some((name.strip_prefix(with)?, body.as_ref())))
    }

    fn timed_out(&self) -> Vec<Gap> {
        let gap = |(what, body): (&str, &[u8])| {
            let said = String::from_utf8_lossy(body).into_owned();
            let seconds = said.lines().next()?.trim().strip_prefix("timed-out ")?.parse().ok()?;
            Some(Gap { what: what.to_owned(), why: Missing::TimedOut(seconds) })
        };
        self.beginning("gap ").filter_map(gap).collect()
    }
}

/// What could not be had.
struct Gaps(Vec<Gap>);

impl Gaps {
    /// The value, or its absence with the reason noted. That it timed out says enough.
    fn or_gap<T>(&mut self, what: &str, read: Result<T, Missing>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(why) => {
                if self.seconds(what).is_none() {
                    self.0.push(Gap { what: what.to_owned(), why });
                }
                None
            }
        }
    }

    /// After how many seconds something was given up.
    fn seconds(&self, what: &str) -> Option<u64> {
        self.0.iter().find_map(|gap| match gap.why {
            Missing::TimedOut(seconds) if gap.what == what => Some(seconds),
            _ => None,
        })
    }
}

/// The first line with something in it, for messages; not longer than a line.
fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing").chars().take(300).collect()
}

/// The value behind `KEY=`, where there is one.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(line.trim()).filter(|value| !value.is_empty())
}

/// `yes` and `no`; all else is not known.
fn yes_no(word: Option<&str>) -> Option<bool> {
    match word? {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
