//! Every environment variable that sparkctl sets in an engine's container: which, for whom, and why.
//!
//! They are set in the environment of the container itself, on every node, since vLLM on purpose does
//! not forward some of them to its workers, and since on Ray a node's own value wins over the head's.

use std::collections::BTreeMap;

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
    /// What a person is told who sets it in a profile.
    instead: &'static str,
    value: fn(&[Member], usize) -> Option<String>,
}

const FABRIC: &str = "leave it out: it is looked up on each node by the node's `fabric`";
const MONITOR: &str = "leave it out: Ray's memory monitor is always off, as it would kill the engine";
const OURS: &str = "leave it out: sparkctl needs it as it sets it";

/// One row a variable. What is `None` is not set: an empty value is not the same (an empty
/// `NCCL_IB_GID_INDEX` is read as 0).
const VARIABLES: &[Variable] = &[
    // vLLM announces this address to the other ranks; unset, it takes the one of the default route,
    // and the group hangs without a word where that is not the fabric.
    Variable {
        name: "VLLM_HOST_IP",
        reader: Reader::Vllm,
        instead: FABRIC,
        value: |members, rank| Some(members[rank].address.to_string()),
    },
    // The same for SGLang, which otherwise takes the first interface it finds.
    Variable {
        name: "SGLANG_HOST_IP",
        reader: Reader::Sglang,
        instead: FABRIC,
        value: |members, rank| Some(members[rank].address.to_string()),
    },
    // Where torch's and NCCL's first connections are made.
    Variable {
        name: "MASTER_ADDR",
        reader: Reader::Everybody,
        instead: HEAD,
        value: |members, _| Some(members[0].address.to_string()),
    },
    Variable { name: "NCCL_SOCKET_IFNAME", reader: Reader::Everybody, instead: FABRIC, value: interface },
    Variable { name: "GLOO_SOCKET_IFNAME", reader: Reader::Everybody, instead: FABRIC, value: interface },
    Variable { name: "TP_SOCKET_IFNAME", reader: Reader::Everybody, instead: FABRIC, value: interface },
    Variable { name: "UCX_NET_DEVICES", reader: Reader::Everybody, instead: FABRIC, value: interface },
    Variable {
        name: "OMPI_MCA_btl_tcp_if_include",
        reader: Reader::Everybody,
        instead: FABRIC,
        value: interface,
    },
    // The RoCE devices of the fabric's interface; without it NCCL also tries ports that do not reach the peer.
    Variable {
        name: "NCCL_IB_HCA",
        reader: Reader::Everybody,
        instead: FABRIC,
        value: |members, rank| (!members[rank].rdma.is_empty()).then(|| members[rank].rdma.join(",")),
    },
    // One GPU a node: the affinity that NCCL reads from the PCI tree says nothing on GB10.
    Variable {
        name: "NCCL_IGNORE_CPU_AFFINITY",
        reader: Reader::Everybody,
        instead: OURS,
        value: |_, _| Some("1".to_owned()),
    },
    // On unified memory the weights count as used memory; Ray's monitor would kill the engine at 95 %.
    Variable {
        name: "RAY_memory_monitor_refresh_ms",
        reader: Reader::Ray,
        instead: MONITOR,
        value: |_, _| Some("0".to_owned()),
    },
    Variable {
        name: "RAY_USAGE_STATS_ENABLED",
        reader: Reader::Ray,
        instead: OURS,
        value: |_, _| Some("0".to_owned()),
    },
    // Logs that a program can read: every line once, no colours.
    Variable {
        name: "RAY_COLOR_PREFIX",
        reader: Reader::Ray,
        instead: OURS,
        value: |_, _| Some("0".to_owned()),
    },
    Variable {
        name: "RAY_DEDUP_LOGS",
        reader: Reader::Ray,
        instead: OURS,
        value: |_, _| Some("0".to_owned()),
    },
    Variable {
        name: "PYTHONUNBUFFERED",
        reader: Reader::Everybody,
        instead: OURS,
        value: |_, _| Some("1".to_owned()),
    },
    // The weights are on the node: nothing is to be asked of a hub while starting.
    Variable {
        name: "HF_HUB_OFFLINE",
        reader: Reader::Everybody,
        instead: OURS,
        value: |_, _| Some("1".to_owned()),
    },
    Variable {
        name: "VLLM_NO_USAGE_STATS",
        reader: Reader::Vllm,
        instead: OURS,
        value: |_, _| Some("1".to_owned()),
    },
];

#[expect(clippy::unnecessary_wraps, reason = "one row of the table")]
fn interface(members: &[Member], rank: usize) -> Option<String> {
    Some(members[rank].interface.clone())
}

/// What to do instead of setting the variable in a profile, where sparkctl sets it itself for this engine.
pub fn reserved(engine: &Engine, name: &str) -> Option<&'static str> {
    if name == "VLLM_API_KEY" && Reader::Vllm.is_of(engine) {
        return Some(KEY);
    }
    // The launch script sets this one for the engine's own process.
    if name == "RAY_ADDRESS" && Reader::Ray.is_of(engine) {
        return Some(HEAD);
    }
    let row = VARIABLES.iter().find(|variable| variable.name == name && variable.reader.is_of(engine))?;
    Some(row.instead)
}

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
