//! Every environment variable that sparkctl sets in an engine's container: which, for whom, and why.
//!
//! They are set in the environment of the container itself, on every node, since vLLM on purpose does
//! not forward some of them to its workers, and since on Ray a node's own value wins over the head's.

use std::collections::BTreeMap;

use super::Member;
use crate::profile::Profile;

/// A variable and where its value comes from.
struct Variable {
    name: &'static str,
    /// What a person is told who sets it in a profile.
    instead: &'static str,
    value: fn(&[Member], usize) -> Option<String>,
}

const FABRIC: &str = "leave it out: it is looked up on each node by the node's `fabric`";
const HEAD: &str = "leave it out: it is the first node's `fabric`";
const MONITOR: &str = "leave it out: Ray's memory monitor is always off, as it would kill the engine";
const OURS: &str = "leave it out: sparkctl needs it as it sets it";

/// One row a variable. What is `None` is not set: an empty value is not the same (an empty
/// `NCCL_IB_GID_INDEX` is read as 0).
const VARIABLES: &[Variable] = &[
    // vLLM announces this address to the other ranks; unset, it takes the one of the default route,
    // and the group hangs without a word where that is not the fabric.
    Variable {
        name: "VLLM_HOST_IP",
        instead: FABRIC,
        value: |members, rank| Some(members[rank].address.to_string()),
    },
    // Where torch's and NCCL's first connections are made.
    Variable { name: "MASTER_ADDR", instead: HEAD, value: |members, _| Some(members[0].address.to_string()) },
    Variable { name: "NCCL_SOCKET_IFNAME", instead: FABRIC, value: interface },
    Variable { name: "GLOO_SOCKET_IFNAME", instead: FABRIC, value: interface },
    Variable { name: "TP_SOCKET_IFNAME", instead: FABRIC, value: interface },
    Variable { name: "UCX_NET_DEVICES", instead: FABRIC, value: interface },
    Variable { name: "OMPI_MCA_btl_tcp_if_include", instead: FABRIC, value: interface },
    // The RoCE devices of the fabric's interface; without it NCCL also tries ports that do not reach the peer.
    Variable {
        name: "NCCL_IB_HCA",
        instead: FABRIC,
        value: |members, rank| (!members[rank].rdma.is_empty()).then(|| members[rank].rdma.join(",")),
    },
    // One GPU a node: the affinity that NCCL reads from the PCI tree says nothing on GB10.
    Variable { name: "NCCL_IGNORE_CPU_AFFINITY", instead: OURS, value: |_, _| Some("1".to_owned()) },
    // On unified memory the weights count as used memory; Ray's monitor would kill the engine at 95 %.
    Variable { name: "RAY_memory_monitor_refresh_ms", instead: MONITOR, value: |_, _| Some("0".to_owned()) },
    Variable { name: "RAY_USAGE_STATS_ENABLED", instead: OURS, value: |_, _| Some("0".to_owned()) },
    // Logs that a program can read: every line once, no colours.
    Variable { name: "RAY_COLOR_PREFIX", instead: OURS, value: |_, _| Some("0".to_owned()) },
    Variable { name: "RAY_DEDUP_LOGS", instead: OURS, value: |_, _| Some("0".to_owned()) },
    Variable { name: "PYTHONUNBUFFERED", instead: OURS, value: |_, _| Some("1".to_owned()) },
    // The weights are on the node: nothing is to be asked of a hub while starting.
    Variable { name: "HF_HUB_OFFLINE", instead: OURS, value: |_, _| Some("1".to_owned()) },
    Variable { name: "VLLM_NO_USAGE_STATS", instead: OURS, value: |_, _| Some("1".to_owned()) },
];

#[expect(clippy::unnecessary_wraps, reason = "one row of the table")]
fn interface(members: &[Member], rank: usize) -> Option<String> {
    Some(members[rank].interface.clone())
}

/// What to do instead of setting the variable in a profile, where sparkctl sets it itself.
pub fn reserved(name: &str) -> Option<&'static str> {
    if name == "VLLM_API_KEY" {
        return Some("leave it out: this version cannot ask an endpoint that needs a key");
    }
    // The launch script sets this one for the engine's own process.
    if name == "RAY_ADDRESS" {
        return Some(HEAD);
    }
    VARIABLES.iter().find(|variable| variable.name == name).map(|variable| variable.instead)
}

/// The environment of a rank's container: sparkctl's variables over the profile's. Secrets are not in it: it is
/// planned, shown and recorded.
pub fn variables(profile: &Profile, members: &[Member], rank: usize) -> BTreeMap<String, String> {
    let texts =
        profile.engine.env.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned())));
    let mut all: BTreeMap<_, _> = texts.collect();
    all.extend(VARIABLES.iter().filter_map(|v| Some((v.name.to_owned(), (v.value)(members, rank)?))));
    all
}
