//! The fabric's links as they were probed: one entry for each ordered pair of nodes and rail. Plain
//! data, always possibly stale, no opinion: what it means is `judge`'s to say. Pure.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::profile::NodeName;

/// All links of the fabric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Of each ordered pair of nodes and each rail that both have, in that order.
    pub links: Vec<Link>,
    /// What went wrong beside the links: figures of earlier times that a node could not give or keep.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
}

impl Links {
    /// The link from an address to another.
    pub fn link(&self, from: Ipv4Addr, to: Ipv4Addr) -> Option<&Link> {
        self.links.iter().find(|link| link.from_address == from && link.to_address == to)
    }

    /// The same link in the other direction.
    pub fn back(&self, link: &Link) -> Option<&Link> {
        self.link(link.to_address, link.from_address)
    }
}

/// The way from one node to another, in this direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub from: NodeName,
    pub to: NodeName,
    /// 0 for the addresses that the profile names, 1 and on for further ones.
    pub rail: usize,
    pub from_address: Ipv4Addr,
    pub to_address: Ipv4Addr,
    /// Where packets go out; `None` where no route leads there, or that could not be asked.
    pub route: Option<Way>,
    /// Whether a TCP connection came about.
    pub reach: Reach,
    /// Whether a datagram arrived, whatever became of its answer: with it a direction that is dead is
    /// told from its opposite. `None` where the other end did not listen.
    pub arrives: Option<bool>,
    /// The largest packet; `None` where nothing was reached.
    pub mtu: Option<PathMtu>,
    /// The transfer that was measured now; `None` where none was.
    pub rate: Option<Rate>,
    /// Why a transfer that was asked for could not be measured.
    pub rate_failed: Option<String>,
    /// Transfers that were measured before; `None` where none was.
    pub before: Option<Before>,
}

/// Where packets to an address go out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// For packets from the node's own address on this rail.
    pub interface: String,
    /// The address that packets have where a program asks for none.
    pub source: Option<Ipv4Addr>,
    /// The router that they pass; `None` on a network of one's own.
    pub gateway: Option<Ipv4Addr>,
}

/// Whether a TCP connection came about, to a listener that proved to be ours; else why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    Connected,
    /// Turned away at once: a firewall that rejects, or another machine of that address.
    Refused,
    /// No answer within 2 s, although a machine of that address is there: a firewall that drops.
    TimedOut,
    /// No machine answers for that address: cable, interface or address of the other end.
    Unreachable,
    /// No route leads there.
    NoRoute,
    /// The node does not have the address that it should come from.
    NoAddress,
    /// Something else answered: a proxy, or another machine of that address.
    Stranger,
    /// It was not tried, and why.
    Unknown(String),
}

/// The largest packet that arrives in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathMtu {
    /// Bytes: MTU of the interface that packets go out by.
    pub expected: u32,
    /// Bytes that pass; where fewer than expected, up to 4 more might as well.
    pub passed: u32,
    /// How it was seen.
    pub by: MtuBy,
}

/// How the largest packet was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MtuBy {
    /// Datagrams that must not be cut into pieces, answered by the other end.
    Datagrams,
    /// No datagram arrived at all: the kernel's segment size of a TCP connection. It knows both
    /// interfaces, not what lies between them.
    Segments,
}

/// A measured transfer: what arrived, counted where it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub bytes_per_second: u64,
    /// How long bytes were counted, after TCP had come to speed.
    pub seconds: f64,
    /// Connections at once.
    pub streams: u32,
    pub at: Timestamp,
}

/// Transfers that were measured before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// The last one.
    pub last: Rate,
    /// The fastest one. What is measured now is compared with this: compared with the last one, a link
    /// that has become slow would be told once and then never again.
    pub best: Rate,
}

/// Something that went wrong on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    pub node: NodeName,
    pub what: String,
}
