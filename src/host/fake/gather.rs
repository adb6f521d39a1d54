//! What `gather.sh` prints on a machine in memory: the commands' own formats, so that their parsers are
//! part of every test.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::json;

use super::cluster::State;
use super::kept;
use super::machine::{Machine, ReleaseFolder};
use crate::cluster::facts::{
    Depth, GidKind, Gpu, Interface, InterfaceKind, Limit, ModelContent, Nvidia, RdmaDevice, Route, Smi, User,
};
use crate::profile::NodeName;

/// Sections as they are printed.
struct Page(Vec<u8>);

impl Page {
    fn section(&mut self, name: &str, body: impl AsRef<[u8]>) {
        self.0.extend_from_slice(format!("\n=== sparkctl {name} ===\n").as_bytes());
        self.0.extend_from_slice(body.as_ref());
    }

    /// A section of `KEY=VALUE` lines.
    fn values(&mut self, name: &str, values: &[(&str, Option<String>)]) {
        let line = |(key, value): &(&str, Option<String>)| {
            format!("{key}={}\n", value.as_deref().unwrap_or_default())
        };
        self.section(name, values.iter().map(line).collect::<String>());
    }
}

fn yes_no(value: Option<bool>) -> Option<String> {
    value.map(|value| if value { "yes" } else { "no" }.to_owned())
}

/// Prints it. The arguments are those of the script.
pub(super) fn print(state: &mut State, node: &NodeName, arguments: &[String]) -> Vec<u8> {
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    let depth = match argument(0) {
        "status" => Depth::Status,
        "plan" => Depth::Plan,
        _ => Depth::Check,
    };
    let (deployment, model, scan) = (argument(1), argument(2), argument(4) == "scan");
    let peers: Vec<Ipv4Addr> = argument(3).split(' ').filter_map(|address| address.parse().ok()).collect();
    let ports = state.ports(node);
    let holder = state.holder(node);
    let machine = &*state.machine(node);
    let mut page = Page(Vec::new());
    let clock = || {
        let now = Timestamp::now().saturating_add(machine.clock_ahead).unwrap_or_default();
        format!("{}.{:09}\n", now.as_second(), now.subsec_nanosecond())
    };
    page.section("clock", clock());
    system(&mut page, machine, depth);
    network(&mut page, machine, depth);
    page.section("peers", peers.iter().map(|peer| self::peer(machine, *peer, depth)).collect::<String>());
    gpus(&mut page, machine, depth);
    if depth >= Depth::Plan {
        listeners(&mut page, machine, &ports);
        let tools = machine.tools.iter().map(|(tool, version)| format!("{tool} {tool} {version}\n"));
        page.section("tools", tools.collect::<String>());
        let disk =
            machine.docker.disk.map_or(String::new(), |disk| format!("{} {}\n", disk.total, disk.free));
        page.section("docker-disk", disk);
        if !model.is_empty() {
            model_folder(&mut page, machine, model);
        }
    }
    if let Some(models) = machine.models.as_ref().filter(|_| scan) {
        page.section("models", json!(models).to_string());
    }
    if depth == Depth::Check {
        more(&mut page, machine);
    }
    page.section("releases", "");
    for ((_, folder), there) in machine.releases.iter().filter(|((of, _), _)| of == deployment) {
        page.section(&format!("release {folder}"), release_text(there));
    }
    page.section("holder", holder.unwrap_or_default());
    page.section("journal", machine.journals.get(deployment).cloned().unwrap_or_default());
    page.section("kept", kept::section(machine, deployment));
    page.section("clock-end", clock());
    page.section("end", "");
    page.0
}

fn system(page: &mut Page, machine: &Machine, depth: Depth) {
    let system = &machine.system;
    let known = |text: &str| Some(text.to_owned());
    let mut values = vec![
        ("hostname", known(&system.hostname)),
        ("architecture", known(&system.architecture)),
        ("kernel", known(&system.kernel)),
        ("home", known(&system.home)),
        ("boot_id", known(&system.boot_id)),
    ];
    if depth == Depth::Check {
        values.extend([
            ("firmware", system.firmware.clone()),
            ("vendor", system.vendor.clone()),
            ("product", system.product.clone()),
            ("uptime", system.uptime_seconds.map(|seconds| format!("{seconds}.25 0.00"))),
            ("systemd", yes_no(system.systemd)),
            ("earlyoom", yes_no(system.earlyoom)),
            ("reboot_required", yes_no(system.reboot_required)),
            ("cores", system.cpu.as_ref().map(|cpu| cpu.cores.to_string())),
        ]);
        let models = system.cpu.iter().flat_map(|cpu| &cpu.models);
        let line = |model: &String| format!("  Model name:   {model}\n");
        page.section("lscpu", models.map(line).collect::<String>());
        let times =
            [("Timezone", system.timezone.clone()), ("NTPSynchronized", yes_no(system.clock_synchronised))];
        page.values("timedatectl", &times);
    }
    page.values("system", &values);
    page.section("os-release", format!("PRETTY_NAME=\"{}\"\n", system.os));
    let memory = [
        ("MemTotal", Some(system.memory_total)),
        ("MemFree", system.memory_free),
        ("MemAvailable", Some(system.memory_available)),
        ("Cached", system.memory_cached),
        ("SwapTotal", system.swap_total),
        ("SwapFree", system.swap_free),
        ("CmaTotal", system.cma_total),
        ("CmaFree", system.cma_free),
    ];
    let memory = memory.iter().filter_map(|(key, bytes)| Some(format!("{key}: {} kB\n", (*bytes)? / 1024)));
    page.section("meminfo", memory.collect::<String>());
}

fn network(page: &mut Page, machine: &Machine, depth: Depth) {
    let addresses: Vec<_> = machine
        .interfaces
        .iter()
        .map(|interface| {
            let mut flags = Vec::new();
            flags.extend((interface.kind == InterfaceKind::Loopback).then_some("LOOPBACK"));
            flags.extend((interface.enabled || interface.up).then_some("UP"));
            flags.push(if interface.up { "LOWER_UP" } else { "NO-CARRIER" });
            let addresses = interface.addresses.iter();
            let addresses = addresses
                .map(|a| json!({ "family": "inet", "local": a.address, "prefixlen": a.prefix }))
                .collect::<Vec<_>>();
            json!({ "ifname": interface.name, "flags": flags, "mtu": interface.mtu, "addr_info": addresses })
        })
        .collect();
    page.section("addresses", json!(addresses).to_string());
    let pairs = machine.interfaces.iter().flat_map(|interface| {
        interface.rdma.iter().map(move |device| format!("{device} {}\n", interface.name))
    });
    page.section("rdma", pairs.collect::<String>());
    page.section("infiniband", if machine.infiniband { "yes\n" } else { "" });
    if depth >= Depth::Plan {
        page.section("rdma-files", machine.rdma_devices.iter().map(rdma_files).collect::<String>());
        page.section("interfaces", machine.interfaces.iter().map(interface_files).collect::<String>());
        if let Some(routes) = &machine.routes {
            page.section("routes", json!(routes.iter().map(route).collect::<Vec<_>>()).to_string());
        }
    }
}

fn interface_files(interface: &Interface) -> String {
    let kind = match interface.kind {
        InterfaceKind::Wireless => "uevent:DEVTYPE=wlan",
        InterfaceKind::Bridge => "uevent:DEVTYPE=bridge",
        InterfaceKind::Bond => "uevent:DEVTYPE=bond",
        InterfaceKind::Vlan => "uevent:DEVTYPE=vlan",
        InterfaceKind::Tunnel => "type:65534",
        InterfaceKind::Infiniband => "type:32",
        InterfaceKind::Ethernet => "device/uevent:MODALIAS=pci",
        InterfaceKind::Loopback | InterfaceKind::Virtual => "type:1",
    };
    let mut text = format!("/sys/class/net/{}/{kind}\n", interface.name);
    let speed = interface.speed.map(|speed| speed.to_string());
    for (path, value) in [
        ("speed:", speed.as_ref()),
        ("device/uevent:DRIVER=", interface.driver.as_ref()),
        ("address:", interface.mac.as_ref()),
        ("phys_port_name:", interface.phys_port_name.as_ref()),
        ("phys_switch_id:", interface.phys_switch_id.as_ref()),
        ("device/uevent:PCI_SLOT_NAME=", interface.pci.as_ref()),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "/sys/class/net/{}/{path}{value}", interface.name);
        }
    }
    text
}

fn rdma_files(device: &RdmaDevice) -> String {
    let root = format!("/sys/class/infiniband/{}", device.name);
    let mut text = device
        .pci
        .as_ref()
        .map_or(String::new(), |pci| format!("{root}/device/uevent:PCI_SLOT_NAME={pci}\n"));
    if let Some(firmware) = &device.firmware {
        let _ = writeln!(text, "{root}/fw_ver:{firmware}");
    }
    for port in &device.ports {
        let root = format!("{root}/ports/{}", port.port);
        let mut line = |path: &str, value: &str| {
            let _ = writeln!(text, "{root}/{path}:{value}");
        };
        for (path, word) in [("state", &port.state), ("phys_state", &port.physical)] {
            if let Some(word) = word {
                line(path, &format!("4: {word}"));
            }
        }
        if let Some(rate) = port.rate {
            line("rate", &format!("{rate} Gb/sec (4X HDR)"));
        }
        if let Some(layer) = &port.link_layer {
            line("link_layer", layer);
        }
        for gid in &port.gids {
            line(&format!("gids/{}", gid.index), &gid.gid.to_string());
            if let Some(kind) = gid.kind {
                let kind = if kind == GidKind::RoceV2 { "RoCE v2" } else { "IB/RoCE v1" };
                line(&format!("gid_attrs/types/{}", gid.index), kind);
            }
            if let Some(interface) = &gid.interface {
                line(&format!("gid_attrs/ndevs/{}", gid.index), interface);
            }
        }
    }
    text
}

fn route(route: &Route) -> serde_json::Value {
    let mut line = json!({ "dst": route.destination, "dev": route.interface, "metric": route.metric });
    for (key, address) in [("gateway", route.gateway), ("prefsrc", route.source)] {
        if let Some(address) = address {
            line[key] = json!(address);
        }
    }
    line
}

/// A peer's line: it answers unless it is among the lost ones.
fn peer(machine: &Machine, peer: Ipv4Addr, depth: Depth) -> String {
    let answers = !machine.lost_peers.contains(&peer);
    let near = machine
        .interfaces
        .iter()
        .find_map(|interface| Some((interface, interface.addresses.iter().find(|a| a.contains(peer))?)));
    let route = near.map_or(json!([]), |(interface, own)| {
        let device = if own.address == peer { "lo" } else { &interface.name };
        json!([{ "dst": peer, "dev": device, "prefsrc": own.address }])
    });
    match (answers, depth) {
        (true, Depth::Check) => format!("{peer} yes 0.200 yes {route}\n"),
        (true, _) => format!("{peer} yes 0.200 - {route}\n"),
        (false, _) => format!("{peer} no - - {route}\n"),
    }
}

fn gpus(page: &mut Page, machine: &Machine, depth: Depth) {
    let figure = |bytes: Option<u64>| bytes.map_or("[N/A]".to_owned(), |b| (b / (1024 * 1024)).to_string());
    let percent = |value: Option<u8>| value.map_or("[N/A]".to_owned(), |value| value.to_string());
    let gpus = machine.gpus.iter().map(|gpu| {
        let (total, used) = (figure(gpu.memory_total), figure(gpu.memory_used));
        let (busy, heat) = (percent(gpu.utilisation), percent(gpu.temperature));
        format!("{}, {}, {total}, {used}, {busy}, {heat}\n", gpu.name, gpu.driver)
    });
    match &machine.nvidia.smi {
        Smi::Absent => page.section("gpus", "absent\n"),
        Smi::Working => page.section("gpus", gpus.collect::<String>()),
        Smi::Failing { said } => page.section("gpus", said),
        Smi::TimedOut { seconds } => page.section("gap nvidia-smi", format!("timed-out {seconds}\n")),
    }
    let lost = machine.nvidia.lost.iter().filter(|(name, _)| machine.runs(name));
    let lines = lost.map(|(name, said)| format!("{name} {said}\n"));
    page.section("container-gpus", lines.collect::<String>());
    if depth == Depth::Check {
        page.section("gpu-details", machine.gpus.iter().map(details).collect::<String>());
        page.section("gpu-board", machine.gpus.iter().map(board).collect::<String>());
        driver(page, &machine.nvidia, figure);
    }
}

fn details(gpu: &Gpu) -> String {
    fn or_not(value: Option<impl ToString>) -> String {
        value.map_or("[N/A]".to_owned(), |value| value.to_string())
    }
    let persistence = gpu.persistence.map(|on| if on { "Enabled" } else { "Disabled" });
    let bits = |reasons: &Vec<String>| {
        let bit = |reason: &String| match reason.as_str() {
            "applications_clocks_setting" => 0x2,
            "sw_power_cap" => 0x4,
            "hw_slowdown" => 0x8,
            "sync_boost" => 0x10,
            "sw_thermal_slowdown" => 0x20,
            "hw_thermal_slowdown" => 0x40,
            "hw_power_brake_slowdown" => 0x80,
            _ => 0x100,
        };
        format!("{:#018x}", reasons.iter().map(bit).fold(0_u64, |all, bit| all | bit))
    };
    let (uuid, pci) = (or_not(gpu.uuid.as_ref()), or_not(gpu.pci.as_ref()));
    let (power, limit) = (or_not(gpu.power), or_not(gpu.power_limit));
    let (clock, most) = (or_not(gpu.clock), or_not(gpu.clock_max));
    let (persistence, reasons) = (or_not(persistence), or_not(gpu.throttled.as_ref().map(bits)));
    format!("{uuid}, {pci}, {power}, {limit}, {clock}, {most}, {persistence}, {reasons}\n")
}

fn board(gpu: &Gpu) -> String {
    let or_not = |value: Option<String>| value.unwrap_or_else(|| "[N/A]".to_owned());
    let watts = gpu.power_default.map(|watts| watts.to_string());
    format!("{}, {}\n", or_not(gpu.vbios.clone()), or_not(watts))
}

fn driver(page: &mut Page, nvidia: &Nvidia, figure: impl Fn(Option<u64>) -> String) {
    page.section("nvidia-module", nvidia.module.clone().unwrap_or_default());
    let caps = nvidia.caps.iter().map(|(file, line)| format!("{file}:{line}\n"));
    page.section("gpu-caps", caps.collect::<String>());
    let mut versions = String::new();
    for (key, version) in [("NVML version        ", &nvidia.library), ("CUDA Version        ", &nvidia.cuda)]
    {
        if let Some(version) = version {
            let _ = writeln!(versions, "{key}: {version}");
        }
    }
    page.section("nvidia-version", versions);
    if let Some(processes) = &nvidia.processes {
        let line =
            |p: &crate::cluster::facts::GpuProcess| format!("{}, {}, {}\n", p.pid, figure(p.memory), p.name);
        page.section("gpu-processes", processes.iter().map(line).collect::<String>() + "all\n");
    }
}

fn listeners(page: &mut Page, machine: &Machine, ports: &[u16]) {
    let foreign = machine.listeners.iter().map(|listener| {
        let pid = listener.pid.map_or(String::new(), |pid| format!(",pid={pid},fd=3"));
        let process = listener.process.as_ref();
        let process = process.map_or(String::new(), |name| format!("users:((\"{name}\"{pid}))"));
        format!("LISTEN 0 128 {}:{} 0.0.0.0:* {process}\n", listener.address, listener.port)
    });
    let ours = ports.iter().map(|port| format!("LISTEN 0 2048 0.0.0.0:{port} 0.0.0.0:*\n"));
    page.section("listeners", foreign.chain(ours).collect::<String>());
    // The kernel tells the container of a process by its ID.
    let id = |name: &str| machine.containers.get(name).map(|found| found.container.id.clone());
    let of_listeners = machine.listeners.iter().filter_map(|l| Some((l.pid?, l.container.as_deref()?)));
    let processes = machine.processes.iter().flatten();
    let of_processes = processes.filter_map(|p| Some((p.pid, p.container.as_deref()?)));
    let of_gpus = machine.nvidia.processes.iter().flatten();
    let of_gpus = of_gpus.filter_map(|p| Some((p.pid, p.container.as_deref()?)));
    let lines = of_listeners
        .chain(of_processes)
        .chain(of_gpus)
        .filter_map(|(pid, name)| Some(format!("/proc/{pid}/cgroup:{}\n", id(name)?)));
    page.section("cgroups", lines.collect::<String>());
}

fn model_folder(page: &mut Page, machine: &Machine, model: &str) {
    page.section("model-disk", format!("{} {}\n", machine.model_disk.total, machine.model_disk.free));
    let Some(folder) = machine.folders.get(model) else { return page.section("model", "") };
    let entry = |name: &String| format!("{name}\0");
    let list = |names: &[String]| names.iter().map(entry).collect::<String>();
    page.section("model", "folder\n");
    let files = folder.files.iter();
    let files = files.map(|file| format!("{} {}.0000000000 {}\0", file.size, file.mtime, file.path));
    page.section("model-files", files.collect::<String>());
    page.section("model-dangling", list(&folder.dangling));
    page.section("model-outside", list(&folder.outside));
    page.section("model-partial", format!("{}\n", folder.partial));
    page.section("model-problems", folder.unreadable.join("\n") + "\n");
    let hashes = folder.files.iter().filter_map(|file| Some((file.path.clone(), file.sha256.clone()?)));
    let hashes: BTreeMap<_, _> = hashes.collect();
    if folder.content.is_some() || !hashes.is_empty() {
        let content = ModelContent { hashes, ..folder.content.clone().unwrap_or_default() };
        page.section("model-content", json!(content).to_string());
    }
}

/// What is asked at depth `check` only.
fn more(page: &mut Page, machine: &Machine) {
    user(page, &machine.user);
    if let Some(processes) = &machine.processes {
        let line = |p: &crate::cluster::facts::Process| {
            format!("{} {} {} {} {}\n", p.pid, p.uid, p.seconds, p.engine, p.name)
        };
        page.section("processes", processes.iter().map(line).collect::<String>() + "all\n");
    }
    if let Some(toolkit) = &machine.toolkit {
        let version = toolkit.version.as_ref();
        let version = version.map(|version| format!("NVIDIA Container Toolkit CLI version {version}\n"));
        page.section("toolkit", version.unwrap_or_default());
        let mode = toolkit.mode.as_ref();
        let mode = mode.map(|mode| format!("[nvidia-container-runtime]\nmode = \"{mode}\"\n"));
        page.section("toolkit-config", mode.unwrap_or_default());
        page.section("cdi", toolkit.cdi_files.join("\n"));
    }
    if let Some(sshd) = &machine.sshd {
        let sessions = sshd.max_sessions.map(|sessions| sessions.to_string());
        let lines = [
            ("MaxSessions", sessions.as_ref()),
            ("MaxStartups", sshd.max_startups.as_ref()),
            ("AllowTcpForwarding", sshd.tcp_forwarding.as_ref()),
            ("AllowStreamLocalForwarding", sshd.stream_local_forwarding.as_ref()),
            ("DisableForwarding", sshd.disable_forwarding.as_ref()),
        ];
        let lines = lines.iter().filter_map(|(key, value)| Some(format!("{key} {}\n", (*value)?)));
        page.section("sshd /etc/ssh/sshd_config", lines.collect::<String>());
    }
}

fn user(page: &mut Page, user: &User) {
    let memlock = user.memlock.map(|limit| match limit {
        Limit::Unlimited => "unlimited".to_owned(),
        Limit::Bytes(bytes) => (bytes / 1024).to_string(),
    });
    let values = [
        ("name", user.name.clone()),
        ("uid", user.uid.map(|uid| uid.to_string())),
        ("groups", user.groups.as_ref().map(|groups| groups.join(" "))),
        ("shell", user.shell.clone()),
        ("lingering", yes_no(user.lingering)),
        ("memlock", memlock),
        ("sudo", yes_no(user.sudo)),
    ];
    page.values("user", &values);
}

fn release_text(there: &ReleaseFolder) -> &[u8] {
    there.record.as_deref().unwrap_or(b"cat: release.json: No such file or directory\n")
}
