//! Ends: the addresses of nodes by subnet, as far as a fabric could be there.
//!
//! Left out from the start: loopback, bridges (`docker0`), tunnels (Tailscale, `WireGuard`) and what else is made of
//! software, unless an RDMA device is on it: a bond of two RoCE ports is one, and so is a VLAN on one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::cluster::facts::{Interface, InterfaceAddress, InterfaceKind, NodeFacts};
use crate::profile::NodeName;

/// A network by its address and the length of its prefix. Displays as `192.168.200.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet {
    network: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    /// The network that an address is in.
    pub fn of(address: InterfaceAddress) -> Self {
        let prefix = address.prefix.min(32);
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        Self { network: Ipv4Addr::from(u32::from(address.address) & mask), prefix }
    }

    /// Whether an address is in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        InterfaceAddress { address: self.network, prefix: self.prefix }.contains(address)
    }

    /// Whether its addresses were taken by the machines themselves (RFC 3927), so that they may change.
    pub fn is_link_local(self) -> bool {
        self.network.is_link_local()
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl Serialize for Subnet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a subnet: write it as `192.168.200.0/24`");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address = address.parse().map_err(|_| wrong())?;
        let prefix = prefix.parse().ok().filter(|prefix| (1..=32).contains(prefix)).ok_or_else(wrong)?;
        Ok(Self::of(InterfaceAddress { address, prefix }))
    }
}

/// A node's address in a subnet, and what is under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct End {
    pub node: NodeName,
    pub address: Ipv4Addr,
    pub interface: String,
    /// Whether the interface is up and has a carrier.
    pub up: bool,
    pub wireless: bool,
    /// RDMA devices on the interface, and the state of each where that is known.
    pub rdma: Vec<Rdma>,
    /// The physical port at the card: `p0`.
    pub port: Option<String>,
    /// Address of the interface on the PCI bus.
    pub pci: Option<String>,
    /// Mb/s.
    pub speed: Option<u32>,
    pub mtu: u32,
    /// Whether the node's way out leaves here.
    pub default_route: bool,
}

/// An RDMA device under an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rdma {
    pub device: String,
    /// The word of its port's state: `ACTIVE`; `None` where it is not known.
    pub state: Option<String>,
}

impl End {
    fn new(facts: &NodeFacts, interface: &Interface, address: Ipv4Addr) -> Self {
        let state = |device: &str| facts.rdma_device(device)?.ports.first()?.state.clone();
        let rdma = interface
            .rdma
            .iter()
            .map(|device| Rdma { device: device.clone(), state: state(device) })
            .collect();
        Self {
            node: facts.node.clone(),
            address,
            interface: interface.name.clone(),
            up: interface.up,
            wireless: interface.kind == InterfaceKind::Wireless,
            rdma,
            port: port(interface),
            pci: interface.pci.clone(),
            speed: interface.speed,
            mtu: interface.mtu,
            default_route: facts
                .default_routes()
                .first()
                .is_some_and(|route| route.interface == interface.name),
        }
    }

    /// Whether this and another end of the same node are the two halves of one physical port. The card of a Spark
    /// shows each port twice, once in each of two PCI domains.
    pub fn same_port(&self, other: &Self) -> bool {
        let behind_domain = |pci: &Option<String>| {
            pci.as_deref().and_then(|pci| pci.split_once(':')).map(|(_, behind)| behind.to_owned())
        };
        let (mine, theirs) = (behind_domain(&self.pci), behind_domain(&other.pci));
        self.port.is_some()
            && self.port == other.port
            && (mine == theirs || mine.is_none() || theirs.is_none())
    }

    /// What sorts the ends of a node: the first function of the first card comes first.
    pub(super) fn order(&self) -> (Option<&str>, &str, Ipv4Addr) {
        (self.pci.as_deref(), &self.interface, self.address)
    }
}

/// `enp1s0f0np0 (rocep1s0f0, port p0)`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut more: Vec<_> = self.rdma.iter().map(|rdma| rdma.device.clone()).collect();
        more.extend(self.port.as_ref().map(|port| format!("port {port}")));
        f.write_str(&self.interface)?;
        if more.is_empty() { Ok(()) } else { write!(f, " ({})", more.join(", ")) }
    }
}

/// The physical port of an interface: as the kernel says, else as its name says, which systemd ends with it.
pub fn port(interface: &Interface) -> Option<String> {
    let in_name = || {
        let (_, port) = interface.name.rsplit_once('n')?;
        let number = port.strip_prefix('p')?;
        (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then(|| port.to_owned())
    };
    let said = interface.phys_port_name.clone().filter(|name| !name.is_empty());
    said.or_else(|| if interface.rdma.is_empty() { None } else { in_name() })
}

/// Whether a fabric could be on an interface at all.
pub fn could_be(interface: &Interface) -> bool {
    match interface.kind {
        InterfaceKind::Loopback | InterfaceKind::Tunnel | InterfaceKind::Bridge => false,
        InterfaceKind::Virtual | InterfaceKind::Bond | InterfaceKind::Vlan => !interface.rdma.is_empty(),
        InterfaceKind::Ethernet | InterfaceKind::Wireless | InterfaceKind::Infiniband => true,
    }
}

/// All ends of all nodes by subnet; within one in the order of the nodes, and of [`End::order`].
pub fn by_subnet(facts: &[NodeFacts]) -> BTreeMap<Subnet, Vec<End>> {
    let mut subnets: BTreeMap<Subnet, Vec<End>> = BTreeMap::new();
    for node in facts {
        let interfaces = node.interfaces.iter().filter(|interface| could_be(interface));
        let mut ends: Vec<_> = interfaces
            .flat_map(|interface| interface.addresses.iter().map(move |address| (interface, *address)))
            .map(|(interface, address)| (Subnet::of(address), End::new(node, interface, address.address)))
            .collect();
        ends.sort_by(|one, other| one.1.order().cmp(&other.1.order()));
        for (subnet, end) in ends {
            subnets.entry(subnet).or_default().push(end);
        }
    }
    subnets
}

/// The end of a node that has this address, on whatever interface.
pub(super) fn with_address(node: &NodeFacts, address: Ipv4Addr) -> Option<End> {
    node.interface_of(address).map(|interface| End::new(node, interface, address))
}

/// The first end of a node in a subnet, on whatever interface.
pub(super) fn in_subnet(node: &NodeFacts, subnet: Subnet) -> Option<End> {
    let addresses = node.interfaces.iter().flat_map(|i| i.addresses.iter().map(|a| a.address));
    with_address(node, addresses.filter(|address| subnet.contains(*address)).min()?)
}
