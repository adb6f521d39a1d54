//! Findings: what would make a deploy fail, or go badly, seen before anything is changed. Pure.
//!
//! Every finding says what was seen, on which node, and what to do. Errors refuse a plan.

mod fabric;

use std::fmt;

use serde::Serialize;

use crate::cluster::facts::{Container, NodeFacts};
use crate::container::{ImageContent, container_name};
use crate::engine::{self, KnownPort};
use crate::profile::{NodeName, Profile};
use crate::release::Release;

pub(super) use fabric::mtu;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Warning,
    Error,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A short name that stays: `fabric-address`.
    pub id: &'static str,
    pub severity: Severity,
    pub node: Option<NodeName>,
    /// The field of the profile that it is about, e.g. `cluster.nodes[1].fabric`; none where it is about a node alone.
    pub path: Option<String>,
    pub message: String,
    pub hint: Option<String>,
}

impl Finding {
    fn new(
        severity: Severity,
        id: &'static str,
        node: Option<&NodeName>,
        message: String,
        hint: &str,
    ) -> Self {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Self { id, severity, node: node.cloned(), path: None, message, hint }
    }

    /// Something that refuses the plan.
    pub(crate) fn error(id: &'static str, node: Option<&NodeName>, message: String, hint: &str) -> Self {
        Self::new(Severity::Error, id, node, message, hint)
    }

    /// Something that a person should know.
    pub(crate) fn warning(id: &'static str, node: Option<&NodeName>, message: String, hint: &str) -> Self {
        Self::new(Severity::Warning, id, node, message, hint)
    }

    /// The same, about this field of the profile.
    #[must_use]
    pub(crate) fn at(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "{node}: ")?;
        }
        write!(f, "{} ({})", self.message, self.id)
    }
}

/// What can be told of the nodes for this profile, whatever the image and the weights.
pub fn check(profile: &Profile, facts: &[NodeFacts]) -> Vec<Finding> {
    let mut findings = Vec::new();
    fabric::fabric(profile, facts, &mut findings);
    for facts in facts {
        foreign_gpu_users(profile, facts, &mut findings);
        unreadable_model(profile, facts, &mut findings);
        for why in &facts.unreadable_releases {
            findings.push(Finding::warning(
                "release-unreadable",
                Some(&facts.node),
                format!("a release record cannot be read: {why}"),
                "it may be of a newer sparkctl; it is left as it is",
            ));
        }
    }
    names_taken(profile, facts, &mut findings);
    parity(facts, &mut findings);
    gpus(profile, facts, &mut findings);
    for (rank, node) in facts.iter().enumerate() {
        ports(profile, rank, node, &mut findings);
    }
    tools(profile, facts, &mut findings);
    same_machine(facts, &mut findings);
    findings
}

/// What cannot be read can neither be compared nor copied nor served.
fn unreadable_model(profile: &Profile, facts: &NodeFacts, findings: &mut Vec<Finding>) {
    if let Some(first) = facts.model.as_ref().and_then(|model| model.unreadable.first()) {
        findings.push(Finding::error(
            "model-unreadable",
            Some(&facts.node),
            format!("`{}` cannot be read in full: {first}", profile.model.path),
            "let the user read it: sudo chown -R USER FOLDER, or chmod -R a+rX FOLDER",
        ));
    }
}

/// A release is of other nodes than those at hand.
pub(super) fn other_nodes(release: &Release, what: &str) -> Finding {
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

fn names_taken(profile: &Profile, facts: &[NodeFacts], findings: &mut Vec<Finding>) {
    for (rank, facts) in (0..).zip(facts) {
        let name = container_name(&profile.name, rank);
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

fn parity(facts: &[NodeFacts], findings: &mut Vec<Finding>) {
    let (head, workers) = facts.split_first().expect("a profile has nodes");
    for worker in workers {
        if worker.system.architecture != head.system.architecture {
            findings.push(Finding::error(
                "architecture",
                Some(&worker.node),
                format!("is {}, {} is {}", worker.system.architecture, head.node, head.system.architecture),
                "one image cannot run on both: take nodes of one kind",
            ));
        }
    }
}

fn gpus(profile: &Profile, facts: &[NodeFacts], findings: &mut Vec<Finding>) {
    for node in facts.iter().filter(|facts| facts.gpus.is_empty()) {
        findings.push(Finding::error(
            "gpu-absent",
            Some(&node.node),
            "nvidia-smi reports no GPU".to_owned(),
            "run `nvidia-smi` on the node; after a driver update it needs a reboot",
        ));
    }
    let there: usize = facts.iter().map(|facts| facts.gpus.len()).sum();
    let wanted = profile.engine.parts();
    if wanted > there as u64 && facts.iter().all(|facts| !facts.gpus.is_empty()) {
        let message = format!("the model is to be spread over {wanted} GPUs, but the nodes have {there}");
        let hint = "lower `engine.tensor_parallel`, or add nodes";
        findings.push(Finding::error("gpu-count", None, message, hint).at("engine.tensor_parallel"));
    }
}

fn ports(profile: &Profile, rank: usize, node: &NodeFacts, findings: &mut Vec<Finding>) {
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

fn tools(profile: &Profile, facts: &[NodeFacts], findings: &mut Vec<Finding>) {
    let mut wanted = Vec::new();
    if facts.len() > 1 {
        wanted = vec![("rsync", "copies weights between nodes"), ("python3", "passes images between nodes")];
    } else if !profile.engine.secrets().is_empty() {
        wanted = vec![("python3", "takes secrets out of the logs that are kept")];
    }
    for node in facts {
        for (tool, why) in &wanted {
            if !node.tools.contains_key(*tool) {
                findings.push(Finding::error(
                    "tool-absent",
                    Some(&node.node),
                    format!("`{tool}` is not installed; it {why}"),
                    &format!("sudo apt install {tool}"),
                ));
            }
        }
    }
}

fn same_machine(facts: &[NodeFacts], findings: &mut Vec<Finding>) {
    for (i, one) in facts.iter().enumerate() {
        let path = format!("cluster.nodes[{i}].host");
        let twin = facts[..i].iter().find(|other| {
            other.system.boot_id == one.system.boot_id && other.system.hostname == one.system.hostname
        });
        if let Some(other) = twin {
            let message =
                format!("is the same machine as {} (host name {})", other.node, one.system.hostname);
            let hint = "give each node of the profile a `host` of its own";
            findings.push(Finding::error("same-machine", Some(&one.node), message, hint).at(path));
        }
    }
}

/// What can be told of an image on the nodes that will run it.
pub(super) fn image_architecture(content: &ImageContent, facts: &[NodeFacts]) -> Vec<Finding> {
    let Some(image) = facts.iter().find_map(|facts| facts.image(content)) else { return Vec::new() };
    // Nodes that differ are told of as such: no image would do.
    if facts.iter().any(|node| node.system.architecture != facts[0].system.architecture) {
        return Vec::new();
    }
    let as_docker_says = |uname: &str| match uname {
        "x86_64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        other => other.to_owned(),
    };
    facts
        .iter()
        .filter(|facts| as_docker_says(&facts.system.architecture) != image.architecture)
        .map(|facts| {
            Finding::error(
                "image-architecture",
                Some(&facts.node),
                format!("the image is for {}, the node is {}", image.architecture, facts.system.architecture),
                "pull or build the image for the node's architecture",
            )
        })
        .collect()
}
