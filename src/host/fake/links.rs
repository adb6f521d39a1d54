//! The links between the machines in memory, as the fabric's probes see them.

use std::net::Ipv4Addr;

use serde_json::json;
use tokio::sync::mpsc;

use super::cluster::{FakeCluster, State, alive};
use super::machine::Machine;
use super::scripts::{bad, good, secret};
use crate::cluster::facts::Interface;
use crate::fabric::Reach;
use crate::host::{Output, Script};
use crate::profile::NodeName;

/// How long a measured transfer is said to have taken.
const SECONDS: u64 = 2;
/// The file's name.
const FIGURES: &str = "fabric.json";

/// How a link behaves in one direction. What is usual: it works, at the interface's MTU, with 96 Gb/s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeLink {
    /// How a connection goes.
    pub reach: Reach,
    /// Whether datagrams arrive.
    pub arrives: bool,
    /// Bytes of the largest packet that passes, where that is less than the interface's MTU.
    pub mtu: Option<u32>,
    pub bytes_per_second: u64,
    /// The interface that packets leave by, where that is not the one that has the address.
    pub interface: Option<String>,
}

impl Default for FakeLink {
    fn default() -> Self {
        Self {
            reach: Reach::Connected,
            arrives: true,
            mtu: None,
            bytes_per_second: 12_000_000_000,
            interface: None,
        }
    }
}

/// A listener of a probe.
pub(super) struct FakeListener {
    secret: String,
    lines: mpsc::WeakSender<String>,
}

impl FakeCluster {
    /// Changes how the link from an address to another behaves, in this direction.
    pub fn link(
        &self,
        from: impl Into<Ipv4Addr>,
        to: impl Into<Ipv4Addr>,
        change: impl FnOnce(&mut FakeLink),
    ) {
        change(self.state().links.entry((from.into(), to.into())).or_default());
    }
}

/// Whether a script of the probes leaves its node as it is.
pub(super) fn reads(name: &str) -> bool {
    matches!(name, "fabric-listen" | "fabric-reach" | "fabric-send" | "read-figures")
}

/// A listener at every address that the node has; it then waits for its end.
pub(super) fn listen(state: &mut State, node: &NodeName, script: &Script, lines: &mpsc::Sender<String>) {
    for argument in &script.args {
        let own = argument.split('=').next().unwrap_or_default();
        let Some(address) = own.parse().ok().filter(|own| interface(state, node, *own).is_some()) else {
            let why = "Cannot assign requested address";
            let _ = lines.try_send(json!({ "failed": { "address": own, "why": why } }).to_string());
            continue;
        };
        let port = state.port();
        let listener = FakeListener { secret: secret(script), lines: lines.downgrade() };
        state.listeners.insert((address, port), listener);
        let ports = json!({ "listening": { "address": own, "tcp": port, "udp": port } });
        let _ = lines.try_send(ports.to_string());
    }
    let _ = lines.try_send(json!({ "ready": {} }).to_string());
}

fn interface(state: &mut State, node: &NodeName, address: Ipv4Addr) -> Option<Interface> {
    let interfaces = &state.machine(node).interfaces;
    let has = |interface: &&Interface| interface.addresses.iter().any(|a| a.address == address);
    interfaces.iter().find(has).cloned()
}

/// All ways from a node.
pub(super) fn reach(state: &mut State, node: &NodeName, script: &Script) -> Output {
    let mut said = String::new();
    for argument in &script.args {
        let parts: Vec<_> = argument.split(',').collect();
        let [own, peer, tcp, _] = parts[..] else { return bad("usage") };
        let (Ok(own), Ok(peer), Ok(port)) = (own.parse(), peer.parse(), tcp.parse()) else {
            return bad("usage");
        };
        said.push_str(&way(state, node, own, (peer, port), &secret(script)).to_string());
        said.push('\n');
    }
    good(said)
}

fn way(
    state: &mut State,
    node: &NodeName,
    own: Ipv4Addr,
    (peer, port): (Ipv4Addr, u16),
    secret: &str,
) -> serde_json::Value {
    let link = state.links.get(&(own, peer)).cloned().unwrap_or_default();
    let there = state.by_address(peer).map(|(node, _)| node.clone());
    let there = there.and_then(|node| interface(state, &node, peer));
    let Some(here) = interface(state, node, own) else {
        return told(own, peer, None, &Reach::NoAddress, None);
    };
    let near = here.addresses.iter().any(|address| address.address == own && address.contains(peer));
    let lost = state.machine(node).lost_peers.contains(&peer);
    let up = here.up && there.as_ref().is_some_and(|there| there.up) && !lost;
    let listener = state.listeners.get(&(peer, port)).filter(|listener| alive(&listener.lines));
    let ours = listener.filter(|listener| listener.secret == secret);
    let (reach, arrives) = match (near, up, ours) {
        (false, ..) => (Reach::NoRoute, false),
        (true, false, _) => (Reach::Unreachable, false),
        (true, true, None) => (Reach::Refused, false),
        (true, true, Some(_)) => (link.reach, link.arrives),
    };
    if let Some(lines) = ours.filter(|_| arrives).and_then(|listener| listener.lines.upgrade()) {
        let _ = lines.try_send(json!({ "arrived": { "from": own, "to": peer } }).to_string());
    }
    let passes = link.mtu.unwrap_or(u32::MAX).min(there.map_or(0, |there| there.mtu)).min(here.mtu);
    let mtu = (reach == Reach::Connected)
        .then(|| json!({ "expected": here.mtu, "passed": passes, "by": "datagrams" }));
    let out = link.interface.unwrap_or(here.name);
    let route = near.then(|| json!({ "interface": out, "source": own, "gateway": null }));
    told(own, peer, route.as_ref(), &reach, mtu.as_ref())
}

fn told(
    own: Ipv4Addr,
    peer: Ipv4Addr,
    route: Option<&serde_json::Value>,
    reach: &Reach,
    mtu: Option<&serde_json::Value>,
) -> serde_json::Value {
    json!({ "way": { "from": own, "to": peer, "route": route, "reach": reach, "mtu": mtu } })
}

/// What the machine remembers of its links' speed.
pub(super) fn figures(machine: &mut Machine, script: &Script) -> Option<Output> {
    match script.name {
        "read-figures" => Some(good(machine.kept.get(FIGURES).cloned().unwrap_or_default())),
        "write-figures" => {
            machine.kept.insert(FIGURES.to_owned(), script.input.clone());
            Some(good(""))
        }
        _ => None,
    }
}

/// A transfer, which takes no time here: the listener says what came.
pub(super) fn send(state: &State, script: &Script) -> Output {
    let parts: Vec<_> = script.args.iter().map(String::as_str).collect();
    let [own, peer, port, session, ..] = parts[..] else { return bad("usage") };
    let (Ok(own), Ok(peer), Ok(port)) =
        (own.parse::<Ipv4Addr>(), peer.parse::<Ipv4Addr>(), port.parse::<u16>())
    else {
        return bad("usage");
    };
    let listener = state.listeners.get(&(peer, port)).filter(|listener| listener.secret == secret(script));
    let Some(lines) = listener.and_then(|listener| listener.lines.upgrade()) else {
        return bad(&format!("cannot reach {peer} from {own}: Connection refused"));
    };
    let link = state.links.get(&(own, peer)).cloned().unwrap_or_default();
    let bytes = link.bytes_per_second.saturating_mul(SECONDS);
    let counted = json!({ "counted": { "session": session, "bytes": bytes, "seconds": SECONDS } });
    let _ = lines.try_send(counted.to_string());
    good("")
}
