//! Every environment variable that sparkctl sets in an engine's container: which, for whom, and why.
//!
//! They are set in the environment of the container itself, on every node, since vLLM on purpose does
//! not forward some of them to its workers, and since on Ray a node's own value wins over the head's.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{HEAD_ADDRESS as HEAD, KEY, Member};
use crate::profile::{Engine, EngineKind, Launch, Profile};

/// Who reads a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Everybody,
    Vllm,
    Sglang,
    Ray,
}

impl Reader {
    fn is_of(self, engine: &Engine) -> bool {
        match self {
            Self::Everybody => true,
            Self::Vllm => engine.kind == EngineKind::Vllm,
            Self::Sglang => engine.kind == EngineKind::Sglang,
            Self::Ray => engine.launch() == Launch::Ray,
        }
    }
}

/// A variable and where its value comes from.
struct Variable {
    name: &'static str,
    reader: Reader,
    /// Whether each node has a value of its own, which no other node may get.
    own: bool,
    /// What it is for, for whoever reads a rank's environment.
    why: &'static str,
    /// What a person is told who sets it in a profile.
    instead: &'static str,
    value: fn(&[Member], usize) -> Option<String>,
}

const FABRIC: &str = "leave it out: it is looked up on each node by the node's `fabric`";
const MONITOR: &str = "leave it out: Ray's memory monitor is always off, as it would kill the engine";
const OURS: &str = "leave it out: sparkctl needs it as it sets it";

/// A row of what every rank has alike.
const fn alike(
    name: &'static str,
    reader: Reader,
    why: &'static str,
    instead: &'static str,
    value: fn(&[Member], usize) -> Option<String>,
) -> Variable {
    Variable { name, reader, own: false, why, instead, value }
}

/// A row of what is each node's own, and looked up by its fabric address.
const fn own(
    name: &'static str,
    reader: Reader,
    why: &'static str,
    value: fn(&[Member], usize) -> Option<String>,
) -> Variable {
    Variable { name, reader, own: true, why, instead: FABRIC, value }
}

const CONNECT: &str = "first connections over the fabric's interface";

/// One row a variable. What is `None` is not set: an empty value is not the same (an empty
/// `NCCL_IB_GID_INDEX` is read as 0).
const VARIABLES: &[Variable] = &[
    // Unset, it takes the one of the default route, and the group hangs without a word where that is not the fabric.
    own("VLLM_HOST_IP", Reader::Vllm, "the address that vLLM tells the other ranks", address),
    // Likewise: it otherwise takes the first interface it finds.
    own("SGLANG_HOST_IP", Reader::Sglang, "the address that SGLang tells the other ranks", address),
    alike("MASTER_ADDR", Reader::Everybody, "where torch and NCCL first meet", HEAD, |members, _| {
        Some(members[0].address.to_string())
    }),
    own("NCCL_SOCKET_IFNAME", Reader::Everybody, CONNECT, interface),
    own("GLOO_SOCKET_IFNAME", Reader::Everybody, CONNECT, interface),
    own("TP_SOCKET_IFNAME", Reader::Everybody, CONNECT, interface),
    own("UCX_NET_DEVICES", Reader::Everybody, CONNECT, interface),
    own("OMPI_MCA_btl_tcp_if_include", Reader::Everybody, CONNECT, interface),
    // Without it NCCL also tries ports that do not reach the peer.
    own("NCCL_IB_HCA", Reader::Everybody, "the RoCE devices of the fabric's interface", |members, rank| {
        (!members[rank].rdma.is_empty()).then(|| members[rank].rdma.join(","))
    }),
    alike(
        "NCCL_IGNORE_CPU_AFFINITY",
        Reader::Everybody,
        "one GPU a node: what the PCI tree says of affinity is not for GB10",
        OURS,
        on,
    ),
    // On unified memory the weights count as used memory; it would kill the engine at 95 %.
    alike("RAY_memory_monitor_refresh_ms", Reader::Ray, "Ray's memory monitor is off", MONITOR, off),
    alike("RAY_USAGE_STATS_ENABLED", Reader::Ray, "nothing is reported to anybody", OURS, off),
    alike("RAY_COLOR_PREFIX", Reader::Ray, "logs that a program can read: no colours", OURS, off),
    alike("RAY_DEDUP_LOGS", Reader::Ray, "logs that a program can read: every line once", OURS, off),
    alike("PYTHONUNBUFFERED", Reader::Everybody, "a line is in the log when it is written", OURS, on),
    alike("HF_HUB_OFFLINE", Reader::Everybody, "the weights are here: nothing is asked of a hub", OURS, on),
    alike("VLLM_NO_USAGE_STATS", Reader::Vllm, "nothing is reported to anybody", OURS, on),
];

#[expect(clippy::unnecessary_wraps, reason = "one row of the table")]
fn address(members: &[Member], rank: usize) -> Option<String> {
    Some(members[rank].address.to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "one row of the table")]
fn on(_: &[Member], _: usize) -> Option<String> {
    Some("1".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "one row of the table")]
fn off(_: &[Member], _: usize) -> Option<String> {
    Some("0".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "one row of the table")]
fn interface(members: &[Member], rank: usize) -> Option<String> {
    Some(members[rank].interface.clone())
}

/// What to do instead of setting the variable in a profile, where sparkctl sets it itself for this engine.
pub fn reserved(engine: &Engine, name: &str) -> Option<&'static str> {
    if name == super::key_variable(engine.kind) {
        return Some(KEY);
    }
    // The launch script sets this one for the engine's own process.
    if name == "RAY_ADDRESS" && Reader::Ray.is_of(engine) {
        return Some(HEAD);
    }
    let row = VARIABLES.iter().find(|variable| variable.name == name && variable.reader.is_of(engine))?;
    Some(row.instead)
}

/// The variables of which each node has a value of its own.
pub fn of_one_rank(profile: &Profile) -> Vec<&'static str> {
    let own = VARIABLES.iter().filter(|row| row.own && row.reader.is_of(&profile.engine));
    own.map(|row| row.name).collect()
}

/// A variable of a rank's process, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    pub name: String,
    pub value: String,
    /// Who sets it, and why.
    pub from: String,
}

/// The whole environment that a rank's process begins with, where each value comes from, and what it hides: of
/// sparkctl over the profile's over the image's. `set` is what the rank's container is given.
pub fn told(
    profile: &Profile,
    set: &BTreeMap<String, String>,
    image: &BTreeMap<String, String>,
) -> Vec<Told> {
    let secrets = profile.secrets();
    let mut names: BTreeSet<&str> = set.keys().chain(image.keys()).map(String::as_str).collect();
    names.extend(&secrets);
    let told = |name: &str| {
        let ours = VARIABLES.iter().find(|row| row.name == name && row.reader.is_of(&profile.engine));
        let (value, from) = match (set.get(name), ours) {
            _ if secrets.contains(name) => ("‹secret›", "profile, a secret".to_owned()),
            (Some(value), Some(row)) => (value.as_str(), format!("sparkctl: {}", row.why)),
            (Some(value), None) => (value.as_str(), "profile".to_owned()),
            (None, _) => (image[name].as_str(), "image".to_owned()),
        };
        let hidden = image.get(name).filter(|hidden| from != "image" && *hidden != value);
        let hidden = hidden.map_or_else(String::new, |hidden| format!(" (the image has {hidden})"));
        Told { name: name.to_owned(), value: value.to_owned(), from: from + &hidden }
    };
    names.into_iter().map(told).collect()
}

/// What a process in a rank's container has of the variables that it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Its command, in short.
    pub command: String,
    pub env: BTreeMap<String, String>,
}

/// Where processes of a rank differ from what its container was given (`set`); a variable that steers the network and
/// that nobody set is one, too. In words, one for each variable and value.
pub fn differences(set: &BTreeMap<String, String>, processes: &[Process]) -> Vec<String> {
    let mut found = BTreeMap::new();
    for process in processes {
        for (name, wanted) in set {
            let has = process.env.get(name);
            if has != Some(wanted) {
                let has = has.map_or_else(|| "has none".to_owned(), |has| format!("has {has}"));
                let what = format!("{has}, not {wanted}");
                found.entry((name.clone(), what)).or_insert_with(|| process.command.clone());
            }
        }
        for (name, value) in process.env.iter().filter(|(name, _)| !set.contains_key(*name)) {
            let what = format!("has {value}, which nobody set");
            found.entry((name.clone(), what)).or_insert_with(|| process.command.clone());
        }
    }
    found.into_iter().map(|((name, what), command)| format!("{name}: `{command}` {what}")).collect()
}

/// Variables that steer how ranks find one another, beside those in a rank's own environment.
pub const STEERING: &[&str] = &[
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "NCCL_IB_HCA",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_NET",
    "NCCL_P2P_DISABLE",
    "VLLM_HOST_IP",
    "SGLANG_HOST_IP",
];

/// The environment of a rank's container: sparkctl's variables over the profile's. Secrets are not in it: it is
/// planned, shown and recorded.
pub fn variables(profile: &Profile, members: &[Member], rank: usize) -> BTreeMap<String, String> {
    let texts =
        profile.engine.env.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned())));
    let mut all: BTreeMap<_, _> = texts.collect();
    let ours = VARIABLES.iter().filter(|variable| variable.reader.is_of(&profile.engine));
    all.extend(ours.filter_map(|v| Some((v.name.to_owned(), (v.value)(members, rank)?))));
    all
}
