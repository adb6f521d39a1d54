//! Interfaces, routes, the way to the other nodes, RDMA devices, listening ports.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// The kernel's name, e.g. `enp1s0f0np0`.
    pub name: String,
    /// Its IPv4 addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Bytes.
    pub mtu: u32,
    /// Whether it is up and has a carrier.
    pub up: bool,
    /// RoCE or InfiniBand devices on it, e.g. `rocep1s0f0`.
    pub rdma: Vec<String>,
    /// Whether it is switched on; one that is on and not `up` has no carrier.
    #[serde(default)]
    pub enabled: bool,
    /// What it is.
    #[serde(default)]
    pub kind: InterfaceKind,
    /// Speed of the link in Mb/s; absent without a carrier, on Wi-Fi, and where it has no meaning.
    pub speed: Option<u32>,
    /// The kernel's driver: `mlx5_core`, `r8127`, `mt7925e`.
    pub driver: Option<String>,
    /// Ethernet address.
    pub mac: Option<String>,
    /// The name of the physical port at the card: `p0`. The two halves of one cage of a Spark have the same.
    pub phys_port_name: Option<String>,
    /// The card's own id as a switch, where it has one.
    pub phys_switch_id: Option<String>,
    /// Address on the PCI bus: `0000:01:00.0`, `0002:01:00.0`.
    pub pci: Option<String>,
}

/// What an interface is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterfaceKind {
    Loopback,
    /// A wired card.
    Ethernet,
    Wireless,
    /// IP over InfiniBand.
    Infiniband,
    Bridge,
    Bond,
    Vlan,
    /// Tailscale, `WireGuard`, a tunnel.
    Tunnel,
    /// Made of software, of another sort: an end of a pair, a dummy.
    #[default]
    Virtual,
}

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceAddress {
    pub address: Ipv4Addr,
    pub prefix: u8,
}

impl InterfaceAddress {
    /// Whether another address is in the same network.
    pub fn contains(&self, other: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
        u32::from(self.address) & mask == u32::from(other) & mask
    }
}

/// An IPv4 route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// `default`, or a network: `192.168.200.0/24`.
    pub destination: String,
    pub interface: String,
    pub gateway: Option<Ipv4Addr>,
    /// The address that packets leave with.
    pub source: Option<Ipv4Addr>,
    /// The smaller one is preferred.
    pub metric: u32,
}

impl Route {
    /// Whether it leads everywhere.
    pub fn is_default(&self) -> bool {
        self.destination == "default"
    }
}

/// Another node's address on the fabric, as reached from this node. Its own address is among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub address: Ipv4Addr,
    /// Whether it answers a ping, or takes or refuses a connection.
    pub answers: bool,
    /// The interface that packets to it leave by; `None` where no route leads there or that was not asked.
    pub interface: Option<String>,
    /// The address that they leave with.
    pub source: Option<Ipv4Addr>,
    /// The router that they pass; `None` where the peer is on the same network.
    pub gateway: Option<Ipv4Addr>,
    /// Microseconds to it and back, of one ping.
    pub round_trip_us: Option<u32>,
    /// Whether a packet as large as the interface's MTU arrives in one piece; `None` where that was not asked, or
    /// nothing answers pings.
    pub whole_packets: Option<bool>,
}

/// A RoCE or InfiniBand device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaDevice {
    /// `rocep1s0f0`, `mlx5_0`.
    pub name: String,
    /// Address on the PCI bus.
    pub pci: Option<String>,
    /// Version of the card's firmware: `28.43.1014`.
    pub firmware: Option<String>,
    pub ports: Vec<RdmaPort>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaPort {
    /// From 1.
    pub port: u32,
    /// The word of its state: `ACTIVE`, `DOWN`, `INIT`, `ARMED`.
    pub state: Option<String>,
    /// The word of its physical state: `LinkUp`, `Disabled`, `Polling`.
    pub physical: Option<String>,
    /// Gb/s.
    pub rate: Option<u32>,
    /// `Ethernet` (RoCE) or `InfiniBand`.
    pub link_layer: Option<String>,
    /// The entries of its GID table that are not empty.
    pub gids: Vec<Gid>,
}

impl RdmaPort {
    /// Whether traffic can pass.
    pub fn is_active(&self) -> bool {
        self.state.as_deref() == Some("ACTIVE")
    }

    /// The index of the `RoCE` v2 entry of an IPv4 address: what `NCCL_IB_GID_INDEX` would have to be.
    pub fn roce_v2_index(&self, address: Ipv4Addr) -> Option<u32> {
        let same = |gid: &&Gid| gid.kind == Some(GidKind::RoceV2) && gid.ipv4() == Some(address);
        self.gids.iter().find(same).map(|gid| gid.index)
    }
}

/// An entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gid {
    pub index: u32,
    pub gid: Ipv6Addr,
    pub kind: Option<GidKind>,
    /// The interface that it stands for.
    pub interface: Option<String>,
}

impl Gid {
    /// The IPv4 address that it was made of.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.gid.to_ipv4_mapped()
    }
}

/// What a GID is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GidKind {
    /// InfiniBand, or `RoCE` v1, which does not leave its Ethernet segment: the kernel calls both so.
    IbOrRoceV1,
    RoceV2,
}

/// A TCP port that something listens on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    pub port: u16,
    /// The local address as `ss` prints it: `0.0.0.0`, `[::]`, `192.168.200.11`.
    pub address: String,
    /// The process, where the kernel lets this user see it.
    pub process: Option<String>,
    pub pid: Option<u32>,
    /// The container of that process, or the one that Docker publishes the port for.
    pub container: Option<String>,
}
