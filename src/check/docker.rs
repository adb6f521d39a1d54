//! Docker Engine: whether it can be used, how it gives a GPU to a container, and its disk.

use super::{Finding, Seen};
use crate::cluster::facts::{Docker, DockerFacts, NoDocker, NodeFacts};
use crate::plan::render::size;
use crate::profile::NodeName;

/// A Docker Engine that cannot be used.
pub fn unusable(node: &NodeName, why: &NoDocker) -> Finding {
    let id = match why {
        NoDocker::Absent => "docker-absent",
        NoDocker::Stopped => "docker-stopped",
        NoDocker::Forbidden { .. } => "docker-forbidden",
        NoDocker::Failing { .. } => "docker-failing",
    };
    let hint = why.hint().unwrap_or_else(|| "see `sudo journalctl -u docker` on the node".to_owned());
    Finding::error(id, Some(node), format!("Docker: {why}"), &hint)
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    for facts in seen.facts() {
        match &facts.docker {
            // Told as what sshd forbids.
            DockerFacts::Unusable(NoDocker::Failing { why }) if why.contains("forbids forwarding") => {}
            DockerFacts::Unusable(why) => findings.push(unusable(&facts.node, why)),
            DockerFacts::Running(docker) => engine(facts, docker, findings),
        }
    }
}

/// Bytes that logs and compiled kernels take soon.
const LOW: u64 = 5_000_000_000;

fn engine(facts: &NodeFacts, docker: &Docker, findings: &mut Vec<Finding>) {
    let node = Some(&facts.node);
    if docker.rootless == Some(true) {
        findings.push(Finding::warning(
            "docker-rootless",
            node,
            "Docker runs without root".to_owned(),
            "install Docker Engine for the whole machine, and let the user in: sudo usermod -aG docker USER",
        ));
    }
    gpu(facts, docker, findings);
    if docker.cgroup_version.as_deref() == Some("1") {
        let hint = "nothing to do for sparkctl; systems of today use version 2";
        let seen = "Docker uses cgroup version 1".to_owned();
        findings.push(Finding::note("docker-cgroup-version", node, seen, hint));
    }
    if let Some(disk) = docker.disk.filter(|disk| disk.free < LOW) {
        findings.push(Finding::warning(
            "disk-low",
            node,
            format!("{} of {} are free at `{}`", size(disk.free), size(disk.total), docker.root),
            "free some space: `docker system df` shows what takes it",
        ));
    }
}

/// The first engine that takes a request for GPUs where the toolkit gives them by CDI.
const CDI_REQUESTS: (u32, u32) = (28, 3);

/// How a container gets a GPU. Where no driver is loaded there is nothing to give.
fn gpu(facts: &NodeFacts, docker: &Docker, findings: &mut Vec<Finding>) {
    let Some(toolkit) = &facts.toolkit else { return };
    let node = Some(&facts.node);
    let cdi = toolkit.mode.as_deref() == Some("cdi");
    if cdi && version(&docker.version).is_some_and(|version| version < CDI_REQUESTS) {
        findings.push(Finding::error(
            "docker-cdi",
            node,
            format!("the toolkit gives GPUs by CDI, and Docker {} cannot ask for them so", docker.version),
            "sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto, or update Docker to 28.3",
        ));
    } else if cdi && toolkit.cdi_files.is_empty() {
        findings.push(Finding::error(
            "docker-cdi",
            node,
            "the toolkit gives GPUs by CDI, and there is no CDI specification of NVIDIA's".to_owned(),
            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
        ));
    }
    let legacy = !cdi && docker.cdi_devices.as_ref().is_none_or(Vec::is_empty);
    if legacy && docker.cgroup_driver.as_deref() == Some("systemd") && facts.nvidia.module.is_some() {
        findings.push(Finding::note(
            "docker-cgroup",
            node,
            "Docker uses systemd's cgroups, and the toolkit its legacy way".to_owned(),
            "set \"exec-opts\": [\"native.cgroupdriver=cgroupfs\"] in /etc/docker/daemon.json, or go over to CDI",
        ));
    }
}

/// `28.3.3` as numbers.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
