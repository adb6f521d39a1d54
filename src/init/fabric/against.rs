//! What speaks against a subnet as the fabric. Each displays as words for people.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Serialize, Serializer};

use super::End;
use crate::cluster::facts::NodeFacts;
use crate::profile::NodeName;

/// One reason why a subnet is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// Only these nodes are in it.
    NotAll {
        nodes: Vec<NodeName>,
    },
    Wireless {
        node: NodeName,
        interface: String,
    },
    /// No RDMA device is on the interface; `lan`: the way out leaves there.
    NoRdma {
        node: NodeName,
        interface: String,
        lan: bool,
    },
    Down {
        node: NodeName,
        interface: String,
    },
    RdmaDown {
        node: NodeName,
        device: String,
        state: String,
    },
    SameAddress {
        one: NodeName,
        other: NodeName,
        address: Ipv4Addr,
    },
    NoAnswer {
        from: NodeName,
        to: NodeName,
        address: Ipv4Addr,
    },
    NotAsked {
        from: NodeName,
        to: NodeName,
    },
    /// The packets leave by another interface, or by a router.
    OtherWay {
        from: NodeName,
        to: NodeName,
        way: String,
    },
    /// It would do: the other half of the port that was taken.
    OtherHalf {
        port: String,
    },
    /// It would do: another port, a slower one or as fast.
    OtherPort {
        slower: bool,
    },
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAll { nodes } => match nodes.as_slice() {
                [only] => write!(f, "only {only} is in it"),
                [first @ .., last] => {
                    let first: Vec<_> = first.iter().map(NodeName::as_str).collect();
                    write!(f, "only {} and {last} are in it", first.join(", "))
                }
                [] => f.write_str("no node is in it"),
            },
            Self::Wireless { node, interface } => write!(f, "{interface} of {node} is Wi-Fi"),
            Self::NoRdma { node, interface, lan } => {
                let lan = if *lan { ", and it is the way to the LAN" } else { "" };
                write!(f, "no RDMA device is on {interface} of {node}{lan}")
            }
            Self::Down { node, interface } => write!(f, "{interface} of {node} is down or has no cable"),
            Self::RdmaDown { node, device, state } => write!(f, "{device} of {node} is in state {state}"),
            Self::SameAddress { one, other, address } => write!(f, "{one} and {other} both have {address}"),
            Self::NoAnswer { from, to, address } => write!(f, "{to} ({address}) does not answer {from}"),
            Self::NotAsked { from, to } => write!(f, "whether {to} answers {from} is not known"),
            Self::OtherWay { from, to, way } => write!(f, "packets of {from} to {to} leave by {way}"),
            Self::OtherHalf { port } => write!(f, "it would do: the other half of the same port ({port})"),
            Self::OtherPort { slower: true } => f.write_str("it would do: another port, and a slower one"),
            Self::OtherPort { slower: false } => f.write_str("it would do: another port"),
        }
    }
}

impl Serialize for Against {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// All that speaks against these ends, one for each node; none means that they are a fabric.
pub(super) fn all(ends: &[End], facts: &[NodeFacts]) -> Vec<Against> {
    if ends.len() < facts.len() {
        return vec![Against::NotAll { nodes: ends.iter().map(|end| end.node.clone()).collect() }];
    }
    let mut against: Vec<_> = ends.iter().filter_map(itself).collect();
    // What sort of network it is, one end tells for all.
    let sort = |why: &Against| matches!(why, Against::Wireless { .. } | Against::NoRdma { .. });
    if let Some(first) = against.iter().position(sort) {
        against = vec![against.swap_remove(first)];
    }
    for (index, one) in ends.iter().enumerate() {
        let same = ends[..index].iter().filter(|other| other.address == one.address);
        against.extend(same.map(|other| Against::SameAddress {
            one: other.node.clone(),
            other: one.node.clone(),
            address: one.address,
        }));
    }
    // Whether packets pass says nothing where they would not pass anyhow.
    if !against.is_empty() {
        return against;
    }
    for (end, node) in ends.iter().zip(facts) {
        against.extend(ends.iter().filter(|to| to.node != end.node).filter_map(|to| between(end, to, node)));
    }
    against
}

/// What is wrong with one end.
fn itself(end: &End) -> Option<Against> {
    let (node, interface) = (end.node.clone(), end.interface.clone());
    if end.wireless {
        return Some(Against::Wireless { node, interface });
    }
    if end.rdma.is_empty() {
        return Some(Against::NoRdma { node, interface, lan: end.default_route });
    }
    if !end.up {
        return Some(Against::Down { node, interface });
    }
    let dead = |rdma: &super::Rdma| rdma.state.as_deref().is_some_and(|state| state != "ACTIVE");
    if !end.rdma.iter().all(dead) {
        return None;
    }
    let first = &end.rdma[0];
    Some(Against::RdmaDown {
        node,
        device: first.device.clone(),
        state: first.state.clone().unwrap_or_default(),
    })
}

/// What is wrong on the way from one end to another.
fn between(end: &End, to: &End, facts: &NodeFacts) -> Option<Against> {
    let (from, to_node) = (end.node.clone(), to.node.clone());
    let Some(peer) = facts.peers.iter().find(|peer| peer.address == to.address) else {
        return Some(Against::NotAsked { from, to: to_node });
    };
    if !peer.answers {
        return Some(Against::NoAnswer { from, to: to_node, address: to.address });
    }
    let way = match (&peer.gateway, &peer.interface) {
        (Some(gateway), _) => format!("the router {gateway}"),
        (None, Some(interface)) if *interface != end.interface => interface.clone(),
        _ => return None,
    };
    Some(Against::OtherWay { from, to: to_node, way })
}

/// Why ends that would do as well are not taken beside the chosen ones.
pub(super) fn beside(chosen: &[End], ends: &[End], slower: bool) -> Against {
    let same = |end: &End| chosen.iter().any(|other| other.node == end.node && other.same_port(end));
    match ends.first().and_then(|end| end.port.clone()) {
        Some(port) if ends.iter().all(same) => Against::OtherHalf { port },
        _ => Against::OtherPort { slower },
    }
}
