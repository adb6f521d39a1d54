//! From the output of `gather.sh` to facts. Pure, and never panics, whatever comes.
//!
//! What a node does not tell is absent, never invented; what it should have told and did not (a
//! section cut off, addresses unreadable) is an error.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::facts::{
    ContainerToolkit, Disk, Gap, Gpu, Interface, InterfaceAddress, Listener, ModelFile, ModelFolder,
    ModelScan, Nvidia, Peer, Process, RdmaDevice, Route, Sshd, System, User,
};
use crate::delivery::kept::KeptFacts;
use crate::profile::DeploymentName;
use crate::release::{FORMAT, Release, ReleaseNumber};
use jiff::Timestamp;

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
    pub listeners: Vec<Listener>,
    pub processes: Option<Vec<Process>>,
    pub models: Option<ModelScan>,
    pub toolkit: Option<ContainerToolkit>,
    pub sshd: Option<Sshd>,
    pub model: Option<ModelFolder>,
    pub model_disk: Option<Disk>,
    pub docker_disk: Option<Disk>,
    pub tools: BTreeMap<String, String>,
    pub releases: Vec<Release>,
    pub unreadable_releases: Vec<String>,
    pub highest_release: Option<ReleaseNumber>,
    pub kept: KeptFacts,
}

/// Reads the output of `gather.sh`. The error is words.
pub fn parse(deployment: Option<&DeploymentName>, output: &[u8]) -> Result<Seen, String> {
    let sections = sections(output);
    if sections.last().is_none_or(|(name, _)| *name != "end") {
        let last = sections.last().map_or("the beginning", |(name, _)| name);
        return Err(format!("the answer was cut off after `{last}`"));
    }
    let text = |wanted: &str| {
        let body = sections.iter().find(|(name, _)| *name == wanted).map_or(&[][..], |(_, body)| body);
        String::from_utf8_lossy(body).into_owned()
    };
    let bytes = |wanted: &str| sections.iter().find(|(name, _)| *name == wanted).map(|(_, body)| *body);
    let rdma = rdma(&text("rdma"), &text("ibdev2netdev"));
    let mut seen = Seen {
        system: system(&text("system"), &text("os-release"), &text("meminfo")),
        interfaces: interfaces(&text("addresses"), &rdma)?,
        gpus: text("gpus").lines().filter_map(gpu).collect(),
        infiniband: text("infiniband").trim() == "yes",
        listeners: listeners(&text("listeners"))?,
        peers: text("peers").lines().filter_map(peer).collect(),
        gaps: Vec::new(),
        clock: None,
        user: User::default(),
        routes: None,
        rdma_devices: Vec::new(),
        nvidia: Nvidia::default(),
        processes: None,
        models: None,
        toolkit: None,
        sshd: None,
        model: None,
        model_disk: disk(&text("model-disk")),
        docker_disk: disk(&text("docker-disk")),
        tools: tools(&text("tools")),
        releases: Vec::new(),
        unreadable_releases: Vec::new(),
        highest_release: None,
        kept: KeptFacts::parse(&text("kept")),
    };
    if text("model").trim() == "folder" {
        let problems = text("model-problems");
        if let Some(first) = problems.lines().map(str::trim).find(|line| !line.is_empty()) {
            return Err(format!("the model's folder cannot be read in full: {first}"));
        }
        seen.model = Some(ModelFolder {
            files: model_files(bytes("model-files").unwrap_or_default())?,
            dangling: dangling(bytes("model-dangling").unwrap_or_default()),
            outside: dangling(bytes("model-outside").unwrap_or_default()),
            unreadable: Vec::new(),
            content: None,
            partial: text("model-partial").lines().filter_map(|size| size.trim().parse::<u64>().ok()).sum(),
        });
    }
    for (name, body) in &sections {
        if let Some(folder) = name.strip_prefix("release ") {
            read_release(&mut seen, deployment, folder, body);
        }
    }
    seen.releases.sort_by_key(|release| release.number);
    Ok(seen)
}

/// The sections by name, in their order.
fn sections(output: &[u8]) -> Vec<(&str, &[u8])> {
    const BEFORE: &[u8] = b"\n=== sparkctl ";
    const AFTER: &[u8] = b" ===\n";
    let find = |from: usize, what: &[u8]| {
        let rest = output.get(from..)?;
        rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
    };
    let mut sections = Vec::new();
    let mut next = find(0, BEFORE);
    while let Some(at) = next {
        let name_from = at + BEFORE.len();
        let Some(name_to) = find(name_from, AFTER) else { break };
        let body_from = name_to + AFTER.len();
        // One back: an empty section's end is the next one's beginning.
        next = find(body_from - 1, BEFORE);
        let body = output.get(body_from..next.unwrap_or(output.len())).unwrap_or_default();
        if let Ok(name) = std::str::from_utf8(&output[name_from..name_to]) {
            sections.push((name, body));
        }
    }
    sections
}

fn system(system: &str, os_release: &str, meminfo: &str) -> System {
    let value = |key: &str| {
        let line = system.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().to_owned()
    };
    let os = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let memory = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or_default().saturating_mul(1024)
    };
    System {
        hostname: value("hostname"),
        os: os.unwrap_or_default().trim_matches(['"', '\'']).to_owned(),
        architecture: value("architecture"),
        kernel: value("kernel"),
        boot_id: value("boot_id"),
        home: value("home"),
        memory_total: memory("MemTotal"),
        memory_available: memory("MemAvailable"),
        ..System::default()
    }
}

fn peer(line: &str) -> Option<Peer> {
    let (address, answers) = line.split_once(' ')?;
    Some(Peer {
        address: address.parse().ok()?,
        answers: answers == "yes",
        interface: None,
        source: None,
        gateway: None,
        round_trip_us: None,
        whole_packets: None,
    })
}

/// RDMA devices by interface: from the kernel's files, else from `ibdev2netdev`.
fn rdma(files: &str, ibdev2netdev: &str) -> HashMap<String, BTreeSet<String>> {
    let mut pairs: Vec<_> = files.lines().filter_map(|line| line.trim().split_once(' ')).collect();
    if pairs.is_empty() {
        // `rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)`
        pairs = ibdev2netdev
            .lines()
            .filter_map(|line| {
                let (device, interface) = line.split_once("==>")?;
                Some((device.split_whitespace().next()?, interface.split_whitespace().next()?))
            })
            .collect();
    }
    let mut devices = HashMap::<_, BTreeSet<_>>::new();
    for (device, interface) in pairs {
        devices.entry(interface.to_owned()).or_default().insert(device.to_owned());
    }
    devices
}

/// What `ip -j addr` prints; other keys are ignored, as versions differ.
#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    mtu: u32,
    #[serde(default)]
    addr_info: Vec<LinkAddress>,
}

#[derive(Deserialize)]
struct LinkAddress {
    #[serde(default)]
    family: String,
    #[serde(default)]
    local: String,
    #[serde(default)]
    prefixlen: u8,
}

fn interfaces(json: &str, rdma: &HashMap<String, BTreeSet<String>>) -> Result<Vec<Interface>, String> {
    let links: Vec<Link> = serde_json::from_str(json).map_err(|error| {
        let said = json.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        format!("`ip -j addr` (package iproute2) gave no list of addresses ({error}): {said}")
    })?;
    let interface = |link: Link| {
        let addresses =
            link.addr_info.iter().filter(|address| address.family == "inet").filter_map(|address| {
                Some(InterfaceAddress { address: address.local.parse().ok()?, prefix: address.prefixlen })
            });
        Interface {
            addresses: addresses.collect(),
            mtu: link.mtu,
            up: ["UP", "LOWER_UP"].iter().all(|wanted| link.flags.iter().any(|flag| flag == wanted)),
            rdma: rdma.get(&link.ifname).into_iter().flatten().cloned().collect(),
            name: link.ifname,
            ..Interface::default()
        }
    };
    // Some versions print an empty object for a link that is filtered out.
    Ok(links.into_iter().filter(|link| !link.ifname.is_empty()).map(interface).collect())
}

/// `NVIDIA GB10, 580.95.05, [N/A], [N/A], 0, 41`, sizes in MiB. The name may hold commas.
fn gpu(line: &str) -> Option<Gpu> {
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

/// `LISTEN 0 4096 127.0.0.53%lo:53 0.0.0.0:* users:(("systemd-resolve",pid=1,fd=17))`
fn listeners(text: &str) -> Result<Vec<Listener>, String> {
    if text.lines().any(|line| line == "ss failed") {
        let said = text.lines().next().unwrap_or_default();
        return Err(format!("`ss` (package iproute2) gave no list of listening ports: {said}"));
    }
    let listener = |line: &str| {
        let mut fields = line.split_whitespace().skip_while(|field| *field != "LISTEN").skip(3);
        let (address, port) = fields.next()?.rsplit_once(':')?;
        let process = line.split_once("users:((\"").and_then(|(_, rest)| rest.split_once('"'));
        Some(Listener {
            port: port.parse().ok()?,
            address: address.split('%').next().unwrap_or(address).to_owned(),
            process: process.map(|(name, _)| name.to_owned()),
            ..Listener::default()
        })
    };
    Ok(text.lines().filter_map(listener).collect())
}

/// `rsync rsync  version 3.2.7  protocol version 32`: the first word that looks like a version.
fn tools(text: &str) -> BTreeMap<String, String> {
    let tool = |line: &str| {
        let (name, said) = line.split_once(' ')?;
        let version = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        Some((name.to_owned(), version.unwrap_or("unknown").to_owned()))
    };
    text.lines().filter_map(tool).collect()
}

fn disk(text: &str) -> Option<Disk> {
    let mut fields = text.split_whitespace();
    Some(Disk { total: fields.next()?.parse().ok()?, free: fields.next()?.parse().ok()? })
}

/// The entries of a list with a NUL behind each.
fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == 0).filter(|entry| !entry.is_empty())
}

fn model_files(list: &[u8]) -> Result<Vec<ModelFile>, String> {
    let file = |entry: &[u8]| {
        let lossy = String::from_utf8_lossy(entry);
        let refused = |why: &str| format!("a file of the model has a name that {why}: {lossy:?}");
        let text = std::str::from_utf8(entry).map_err(|_| refused("is not UTF-8"))?;
        let mut fields = text.splitn(3, ' ');
        let (size, mtime, path) = (fields.next(), fields.next(), fields.next());
        let size = size.and_then(|size| size.parse().ok());
        let mtime = mtime.and_then(|mtime| mtime.split('.').next()?.parse().ok());
        let (Some(size), Some(mtime), Some(path)) = (size, mtime, path) else {
            return Err(format!("the list of the model's files has an entry that makes no sense: {text:?}"));
        };
        if path.contains(['\n', '\r']) {
            return Err(refused("has a line break in it"));
        }
        Ok(ModelFile { path: path.to_owned(), size, mtime })
    };
    let mut files = entries(list).map(file).collect::<Result<Vec<_>, _>>()?;
    files.sort();
    Ok(files)
}

fn dangling(list: &[u8]) -> Vec<String> {
    let mut names: Vec<_> = entries(list).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names
}

/// Reads one record. Its folder's number counts even where the record does not.
fn read_release(seen: &mut Seen, deployment: Option<&DeploymentName>, folder: &str, json: &[u8]) {
    let number = folder.parse::<ReleaseNumber>();
    if let Ok(number) = number {
        seen.highest_release = seen.highest_release.max(Some(number));
    }
    let release = number.and_then(|number| {
        let release = release(json)?;
        if release.number != number {
            return Err(format!("it says that it is release {}", release.number));
        }
        if Some(&release.deployment) != deployment {
            return Err(format!("it says that it is of deployment `{}`", release.deployment));
        }
        Ok(release)
    });
    match release {
        Ok(release) => seen.releases.push(release),
        Err(why) => seen.unreadable_releases.push(format!("releases/{folder}: {why}")),
    }
}

fn release(json: &[u8]) -> Result<Release, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    if json.iter().all(u8::is_ascii_whitespace) {
        return Err("the record is empty".to_owned());
    }
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(String::from_utf8_lossy(json).trim().to_owned());
    }
    // The format first: a newer record may have fields that are unknown here.
    let Format { format } = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if format > FORMAT {
        return Err(format!(
            "it was written by a newer sparkctl (format {format}; this one reads up to {FORMAT})"
        ));
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
