//! The machine: os-release, meminfo, lscpu, timedatectl, the user, processes.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{Sections, first_line, value, yes_no};
use crate::cluster::facts::{Cpu, Limit, Missing, Process, System, User};

pub(super) fn system(sections: &Sections) -> System {
    let text = |name: &str| sections.text(name).unwrap_or_default();
    let (system, meminfo, times) = (text("system"), text("meminfo"), text("timedatectl"));
    let said = |key: &str| value(&system, key).map(str::to_owned);
    let memory = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.map(|kibibytes| kibibytes.saturating_mul(1024))
    };
    let os = text("os-release");
    let os = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let zone = || said("localtime").and_then(|path| Some(path.split_once("zoneinfo/")?.1.to_owned()));
    System {
        hostname: said("hostname").unwrap_or_default(),
        os: os.unwrap_or_default().trim_matches(['"', '\'']).to_owned(),
        architecture: said("architecture").unwrap_or_default(),
        kernel: said("kernel").unwrap_or_default(),
        boot_id: said("boot_id").unwrap_or_default(),
        home: said("home").unwrap_or_default(),
        memory_total: memory("MemTotal").unwrap_or_default(),
        memory_available: memory("MemAvailable").unwrap_or_default(),
        memory_free: memory("MemFree"),
        memory_cached: memory("Cached"),
        swap_total: memory("SwapTotal"),
        swap_free: memory("SwapFree"),
        cma_total: memory("CmaTotal"),
        cma_free: memory("CmaFree"),
        firmware: said("firmware"),
        vendor: said("vendor"),
        product: said("product"),
        cpu: cpu(&text("lscpu"), value(&system, "cores")),
        uptime_seconds: said("uptime").and_then(|text| text.split(['.', ' ']).next()?.parse().ok()),
        systemd: yes_no(value(&system, "systemd")),
        earlyoom: yes_no(value(&system, "earlyoom")),
        timezone: value(&times, "Timezone").map(str::to_owned).or_else(zone),
        clock_synchronised: yes_no(value(&times, "NTPSynchronized")),
        reboot_required: yes_no(value(&system, "reboot_required")),
    }
}

/// `Model name:   Cortex-X925`, a line for each kind of cores.
fn cpu(lscpu: &str, cores: Option<&str>) -> Option<Cpu> {
    let mut models: Vec<String> = Vec::new();
    for line in lscpu.lines() {
        if let Some(name) = line.trim().strip_prefix("Model name:").map(str::trim)
            && !name.is_empty()
            && name != "-"
            && !models.iter().any(|model| model == name)
        {
            models.push(name.to_owned());
        }
    }
    Some(Cpu { models, cores: cores?.parse().ok()? })
}

/// `1796065788.647919443`: seconds since 1970 and nanoseconds. Dates without fractions print `%N` as it is.
pub(super) fn clock(text: &str) -> Option<Timestamp> {
    let (seconds, nanoseconds) = text.trim().split_once('.')?;
    let nanoseconds = (nanoseconds.len() == 9).then(|| nanoseconds.parse().ok())??;
    Timestamp::new(seconds.parse().ok()?, nanoseconds).ok()
}

pub(super) fn user(text: &str) -> User {
    let said = |key: &str| value(text, key).map(str::to_owned);
    let memlock = |limit: &str| match limit {
        "unlimited" => Some(Limit::Unlimited),
        kibibytes => Some(Limit::Bytes(kibibytes.parse::<u64>().ok()?.checked_mul(1024)?)),
    };
    User {
        name: said("name"),
        uid: value(text, "uid").and_then(|uid| uid.parse().ok()),
        groups: said("groups").map(|names| names.split_whitespace().map(str::to_owned).collect()),
        sudo: yes_no(value(text, "sudo")),
        shell: said("shell"),
        greeting: None,
        lingering: yes_no(value(text, "lingering")),
        memlock: value(text, "memlock").and_then(memlock),
    }
}

/// Containers by the processes in them: `/proc/4121/cgroup:677283ad...`, the ID of 64 digits.
pub(super) fn containers(cgroups: &str) -> HashMap<u32, String> {
    let container = |line: &str| {
        let (path, id) = line.rsplit_once(':')?;
        let pid = path.strip_prefix("/proc/")?.strip_suffix("/cgroup")?.parse().ok()?;
        Some((pid, id.trim().to_owned()))
    };
    cgroups.lines().filter_map(container).collect()
}

/// `4121 1000 86400 vllm VLLM::EngineCor`: process, user, seconds, what it looks like, name. A last
/// line `all` says that the list came to its end.
pub(super) fn processes(text: &str, containers: &HashMap<u32, String>) -> Result<Vec<Process>, Missing> {
    if text.lines().last() != Some("all") {
        return Err(Missing::Failed(format!("`ps` gave no list of processes: {}", first_line(text))));
    }
    let process = |line: &str| {
        let mut fields = line.splitn(5, ' ');
        let pid = fields.next()?.parse().ok()?;
        Some(Process {
            pid,
            uid: fields.next()?.parse().ok()?,
            seconds: fields.next()?.parse().ok()?,
            engine: fields.next()?.to_owned(),
            name: fields.next()?.trim().to_owned(),
            container: containers.get(&pid).cloned(),
        })
    };
    Ok(text.lines().filter_map(process).collect())
}
