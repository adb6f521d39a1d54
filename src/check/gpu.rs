//! GPUs, their driver, NVIDIA's toolkit, limits of clocks and power, who else holds a GPU, and who lost it.

use super::{Finding, Seen};
use crate::cluster::facts::{NodeFacts, Smi};

/// Without which no engine starts.
pub(super) fn needed(seen: &Seen, findings: &mut Vec<Finding>) {
    for facts in seen.facts().filter(|facts| facts.gpus.is_empty()) {
        findings.push(absent(facts));
    }
    let there: usize = seen.facts().map(|facts| facts.gpus.len()).sum();
    let wanted = seen.profile.engine.parts();
    let all = seen.nodes.len() == seen.profile.cluster.nodes.len();
    if all && wanted > there as u64 && seen.facts().all(|facts| !facts.gpus.is_empty()) {
        let message = format!("the model is to be spread over {wanted} GPUs, but the nodes have {there}");
        let hint = "lower `engine.tensor_parallel`, or add nodes";
        findings.push(Finding::error("gpu-count", None, message, hint).at("engine.tensor_parallel"));
    }
}

/// No GPU, and why.
fn absent(facts: &NodeFacts) -> Finding {
    let node = Some(&facts.node);
    match &facts.nvidia.smi {
        Smi::Failing { said } if facts.nvidia.version_mismatch() => Finding::error(
            "gpu-driver",
            node,
            format!("the driver was updated while an older one is loaded: {said}"),
            "reboot the node",
        ),
        Smi::Failing { said } => Finding::error(
            "gpu-driver",
            node,
            format!("`nvidia-smi` fails: {said}"),
            "run `nvidia-smi` on the node; after an update of driver or kernel it needs a reboot",
        ),
        Smi::TimedOut { seconds } => Finding::error(
            "gpu-driver",
            node,
            format!("`nvidia-smi` gave no answer within {seconds} s"),
            "see `sudo dmesg | grep -i xid` on the node; a driver that hangs comes back with a reboot",
        ),
        Smi::Absent => Finding::error(
            "gpu-absent",
            node,
            "`nvidia-smi` is not installed, so the node reports no GPU".to_owned(),
            "install NVIDIA's driver, and see that `nvidia-smi` lists a GPU",
        ),
        Smi::Working => Finding::error(
            "gpu-absent",
            node,
            "nvidia-smi reports no GPU".to_owned(),
            "run `nvidia-smi` on the node; after a driver update it needs a reboot",
        ),
    }
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    for facts in seen.facts() {
        driver(facts, findings);
        clocks(facts, findings);
        capped(facts, findings);
        processes(facts, findings);
        lost(seen, facts, findings);
    }
}

fn driver(facts: &NodeFacts, findings: &mut Vec<Finding>) {
    let node = Some(&facts.node);
    let nvidia = &facts.nvidia;
    // A module that is loaded is a real driver; `nvidia-smi` alone may be an imitation.
    if let (Some(module), Some(gpu)) = (&nvidia.module, facts.gpus.first()) {
        if gpu.driver != *module {
            findings.push(Finding::error(
                "gpu-driver",
                node,
                format!("the loaded driver is {module}, and `nvidia-smi` is of {}", gpu.driver),
                "reboot the node, so that the driver that is installed is the one that is loaded",
            ));
        }
        let cdi = facts.engine().and_then(|docker| docker.cdi_devices.as_ref());
        if facts.toolkit.is_none() && cdi.is_none_or(Vec::is_empty) && facts.engine().is_some() {
            findings.push(Finding::error(
                "toolkit-absent",
                node,
                "`nvidia-ctk` is not installed, and Docker has no CDI device of NVIDIA's".to_owned(),
                "sudo apt install nvidia-container-toolkit && sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
            ));
        }
    }
    if facts.gpus.iter().any(|gpu| gpu.persistence == Some(false)) {
        let seen = "persistence mode is off".to_owned();
        let hint = "sudo systemctl enable --now nvidia-persistenced";
        findings.push(Finding::note("gpu-persistence", node, seen, hint));
    }
}

/// A clock this far below what the GPU can do, while it works, is no coincidence. In percent.
const HELD_DOWN: u32 = 60;
/// Percent of utilisation from which clocks say something.
const BUSY: u8 = 80;

/// The driver's words for what should not be. At its power limit (`sw_power_cap`) many a healthy GPU works.
const HOLD_DOWN: &[&str] = &[
    "applications_clocks_setting",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
];

fn clocks(facts: &NodeFacts, findings: &mut Vec<Finding>) {
    for gpu in &facts.gpus {
        let reasons = gpu.throttled.iter().flatten().filter(|reason| HOLD_DOWN.contains(&reason.as_str()));
        let reasons: Vec<_> = reasons.map(|reason| reason.replace('_', " ")).collect();
        let busy = gpu.utilisation.is_some_and(|percent| percent >= BUSY);
        let low = gpu.clock.zip(gpu.clock_max).filter(|(now, most)| now * 100 < most * HELD_DOWN);
        let (message, hint) = match (reasons.is_empty(), low.filter(|_| busy)) {
            (false, _) => (
                format!(
                    "the driver holds {}'s clocks down, as `nvidia-smi -q -d PERFORMANCE` says: {}",
                    gpu.name,
                    reasons.join(", ")
                ),
                "look at its cooling and its power supply (a Spark wants its own), and lift a cap by `sudo nvidia-smi -rgc`",
            ),
            (true, Some((now, most))) => (
                format!("{} works at {now} MHz of {most}, while `nvidia-smi` calls it busy", gpu.name),
                "lift a cap by `sudo nvidia-smi -rgc`; a Spark that stays slow got too little power: shut it down, unplug it for a minute, start again",
            ),
            (true, None) => continue,
        };
        findings.push(Finding::warning("gpu-slow", Some(&facts.node), message, hint));
    }
}

/// A power limit this far below the GPU's own is one that somebody set. In percent.
const LOWERED: f64 = 97.0;

/// Limits that are known while the GPU idles. What clock a cap allows shows only under load: an idle GPU is slow anyhow.
fn capped(facts: &NodeFacts, findings: &mut Vec<Finding>) {
    let node = Some(&facts.node);
    for (file, line) in &facts.nvidia.caps {
        let message = format!("a limit of the GPU is set at each boot: `{line}` in {file}");
        let hint = "nothing to do where it is meant, for heat or power; lift it by `sudo nvidia-smi -rgc`, and remove the line";
        findings.push(Finding::note("gpu-capped", node, message, hint));
    }
    for gpu in &facts.gpus {
        if let (Some(limit), Some(own)) = (gpu.power_limit, gpu.power_default)
            && limit * 100.0 < own * LOWERED
        {
            let message =
                format!("`nvidia-smi` says that {} may take {limit} W, and by default {own}", gpu.name);
            let hint = format!("nothing to do where it is meant; lift it by `sudo nvidia-smi -pl {own}`");
            findings.push(Finding::note("gpu-capped", node, message, &hint));
        }
    }
}

/// Containers of ours that cannot open the GPU any more. Where the driver itself does not work, that is told.
fn lost(seen: &Seen, facts: &NodeFacts, findings: &mut Vec<Finding>) {
    if facts.nvidia.smi != Smi::Working {
        return;
    }
    for (container, said) in &facts.nvidia.lost {
        let name = &seen.profile.name;
        findings.push(Finding::warning(
            "gpu-lost",
            Some(&facts.node),
            format!("container `{container}` lost the GPU: `nvidia-smi` in it says \"{said}\""),
            &format!(
                "sparkctl stop {name}, then deploy; so that it does not come again, see what `docker-cgroup` says of this node"
            ),
        ));
    }
}

/// Memory from which a process on the GPU is no desktop. Bytes.
const MUCH: u64 = 1 << 30;

/// Engines outside of containers. Those inside are told as containers.
fn processes(facts: &NodeFacts, findings: &mut Vec<Finding>) {
    // Whether a process runs in a container cannot always be seen; what GPU containers do is told already, or ours.
    if facts.containers.iter().any(|container| container.gpus && container.state.running) {
        return;
    }
    for process in facts.nvidia.processes.iter().flatten().filter(|process| process.container.is_none()) {
        let known = facts.processes.iter().flatten().find(|known| known.pid == process.pid);
        let memory = process.memory.unwrap_or(0);
        if known.is_none() && memory < MUCH {
            continue;
        }
        findings.push(Finding::error(
            "gpu-taken",
            Some(&facts.node),
            format!(
                "process {} ({}) holds the GPU with {}, outside of any container",
                process.pid,
                process.name,
                crate::memory::gib(memory)
            ),
            &format!("end it by its service, else by `kill {}`, and keep it from coming back", process.pid),
        ));
    }
}
