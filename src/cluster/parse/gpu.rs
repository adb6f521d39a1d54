//! GPUs: what `nvidia-smi` prints as CSV, and its versions.

use std::collections::HashMap;

use super::{Gaps, Sections, first_line};
use crate::cluster::facts::{Gpu, GpuProcess, Nvidia, Smi};

/// The bits of `clocks_event_reasons.active`, in NVML's words. An idle GPU, and clocks that somebody
/// set, are no throttling, but the latter is worth knowing.
const REASONS: &[(u64, &str)] = &[
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clocks_setting"),
];

pub(super) fn gpus(
    sections: &Sections,
    containers: &HashMap<u32, String>,
    gaps: &mut Gaps,
) -> (Vec<Gpu>, Nvidia) {
    let text = |name: &str| sections.text(name).unwrap_or_default();
    let list = text("gpus");
    let mut gpus: Vec<_> = list.lines().filter_map(gpu).collect();
    let details = text("gpu-details");
    if details.lines().filter(|line| !line.trim().is_empty()).count() == gpus.len() {
        for (gpu, line) in gpus.iter_mut().zip(details.lines()) {
            more(gpu, line);
        }
    }
    for (gpu, line) in gpus.iter_mut().zip(text("gpu-board").lines()) {
        board(gpu, line);
    }
    let versions = text("nvidia-version");
    // The library of a driver that was updated, while the old module is still loaded, names itself.
    let library = after(&versions, "NVML version").or_else(|| after(&list, "NVML library version"));
    let nvidia = Nvidia {
        smi: match gaps.seconds("nvidia-smi") {
            Some(seconds) => Smi::TimedOut { seconds },
            None if !gpus.is_empty() => Smi::Working,
            None if matches!(list.trim(), "absent" | "") => Smi::Absent,
            None => Smi::Failing { said: said(&list) },
        },
        module: Some(first_line(&text("nvidia-module"))).filter(|version| version != "nothing"),
        library,
        cuda: after(&versions, "CUDA Version").filter(|version| version != "N/A"),
        processes: processes(&text("gpu-processes"), containers),
        lost: text("container-gpus").lines().filter_map(pair).collect(),
        caps: text("gpu-caps").lines().filter_map(cap).collect(),
    };
    (gpus, nvidia)
}

/// `NVIDIA GB10, 580.95.05, [N/A], [N/A], 0, 41`, sizes in MiB. The name may hold commas.
pub(super) fn gpu(line: &str) -> Option<Gpu> {
    let mut fields = line.rsplitn(6, ',').map(str::trim);
    let [temperature, utilisation, used, total, driver, name] = std::array::from_fn(|_| fields.next());
    let mebibytes = |field: Option<&str>| field?.parse::<u64>().ok()?.checked_mul(1024 * 1024);
    Some(Gpu {
        name: name.filter(|name| !name.is_empty())?.to_owned(),
        driver: driver?.to_owned(),
        memory_total: mebibytes(total),
        memory_used: mebibytes(used),
        utilisation: utilisation?.parse().ok(),
        temperature: temperature?.parse().ok(),
        ..Gpu::default()
    })
}

/// `GPU-5a..., 0000000F:01:00.0, 4.21, [N/A], 208, 3003, Enabled, 0x0000000000000001`; the last is
/// missing where the driver does not know it.
fn more(gpu: &mut Gpu, line: &str) {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next().filter(|field| !field.starts_with('['));
    gpu.uuid = next().map(str::to_owned);
    gpu.pci = next().map(str::to_owned);
    let watts = |field: Option<&str>| field?.parse::<f64>().ok().filter(|watts| watts.is_finite());
    (gpu.power, gpu.power_limit) = (watts(next()), watts(next()));
    let megahertz = |field: Option<&str>| field?.parse().ok();
    (gpu.clock, gpu.clock_max) = (megahertz(next()), megahertz(next()));
    gpu.persistence = match next() {
        Some("Enabled") => Some(true),
        Some("Disabled") => Some(false),
        _ => None,
    };
    let reasons = next().and_then(|bits| u64::from_str_radix(bits.strip_prefix("0x")?, 16).ok());
    gpu.throttled = reasons.map(|bits| {
        REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, word)| (*word).to_owned()).collect()
    });
}

/// `9A.0B.2A.00.05, 700.00`
fn board(gpu: &mut Gpu, line: &str) {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next().filter(|field| !field.is_empty() && !field.starts_with('['));
    gpu.vbios = next().map(str::to_owned);
    gpu.power_default = next().and_then(|watts| watts.parse().ok()).filter(|watts: &f64| watts.is_finite());
}

/// `sparkctl-demo-0 Failed to initialize NVML: Unknown Error`
fn pair(line: &str) -> Option<(String, String)> {
    let (name, said) = line.split_once(' ')?;
    Some((name.to_owned(), said.trim().to_owned()))
}

/// `/etc/systemd/system/multi-user.target.wants/cap.service:ExecStart=/usr/bin/nvidia-smi -lgc 200,2150`
fn cap(line: &str) -> Option<(String, String)> {
    let (file, line) = line.split_once(':')?;
    let line = line.trim();
    (file.starts_with('/') && !line.starts_with(['#', ';']))
        .then(|| (file.to_owned(), line.chars().take(200).collect()))
}

/// `4121, 63931, python3`, memory in MiB; a last line `all` says that the list came to its end.
fn processes(text: &str, containers: &HashMap<u32, String>) -> Option<Vec<GpuProcess>> {
    if text.lines().last() != Some("all") {
        return None;
    }
    let process = |line: &str| {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let pid = fields.next()?.parse().ok()?;
        Some(GpuProcess {
            pid,
            memory: fields.next()?.parse::<u64>().ok().and_then(|size| size.checked_mul(1024 * 1024)),
            name: fields.next()?.to_owned(),
            container: containers.get(&pid).cloned(),
        })
    };
    Some(text.lines().filter_map(process).collect())
}

/// `CUDA Version        : 13.0`
fn after(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key))?;
    let word = line.trim_start_matches([' ', ':']).split_whitespace().next()?;
    Some(word.to_owned())
}

/// What it said instead of a list, on one line.
fn said(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ").chars().take(500).collect()
}
