//! What is seen of the fabric: each node's address on it, one subnet, links that are up, one MTU. Pure.

use std::net::Ipv4Addr;

use super::Finding;
use crate::cluster::facts::NodeFacts;
use crate::profile::{Node, Profile};

/// The network that the head's fabric address is in.
struct Subnet {
    first: Ipv4Addr,
    /// Bits of the network.
    length: u8,
}

impl Subnet {
    /// None where the head does not have its address (which is told), or has one of a point-to-point link: such a
    /// fabric is routed, and no two nodes are in one network.
    fn of_head(profile: &Profile, facts: &[NodeFacts]) -> Option<Self> {
        let head = profile.cluster.nodes.first()?.fabric;
        let addresses = &facts.first()?.interface_of(head)?.addresses;
        let length = addresses.iter().find(|address| address.address == head)?.prefix;
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).filter(|_| (1..31).contains(&length))?;
        Some(Self { first: Ipv4Addr::from(u32::from(head) & mask), length })
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        (u32::from(address) ^ u32::from(self.first)) >> (32 - u32::from(self.length)) == 0
    }
}

/// What is wrong with the nodes' addresses on the fabric, and with the way between them.
pub(super) fn fabric(profile: &Profile, facts: &[NodeFacts], findings: &mut Vec<Finding>) {
    let nodes = &profile.cluster.nodes;
    let subnet = Subnet::of_head(profile, facts);
    let mut misplaced = Vec::new();
    for ((index, node), facts) in nodes.iter().enumerate().zip(facts) {
        let finding = match &subnet {
            Some(subnet) if !subnet.has(node.fabric) => Some(outside(node, facts, subnet, &nodes[0])),
            _ => address(node, facts),
        };
        if let Some(finding) = finding {
            misplaced.push(node.fabric);
            findings.push(finding.at(format!("cluster.nodes[{index}].fabric")));
        }
    }
    for (node, facts) in nodes.iter().zip(facts) {
        // That nothing answers at an address that its node does not have says nothing of the fabric.
        for lost in facts.lost_peers().filter(|lost| !misplaced.contains(lost)) {
            findings.push(Finding::error(
                "fabric-unreachable",
                Some(&node.name),
                format!("{lost} does not answer over the fabric, neither a ping nor a connection"),
                "check cable, `ip link` and addresses at both ends, and that no firewall stands between the nodes",
            ));
        }
    }
}

/// An address from which nothing reaches the head over the fabric.
fn outside(node: &Node, facts: &NodeFacts, subnet: &Subnet, head: &Node) -> Finding {
    let there: Vec<_> = addresses(facts).filter(|(address, _)| subnet.has(*address)).map(said).collect();
    let hint = if there.is_empty() {
        "correct `fabric` of this node in the profile, or give its interface an address there (netplan)"
            .to_owned()
    } else {
        format!("correct `fabric` of this node in the profile: it has {}", there.join(", "))
    };
    let message = format!(
        "the fabric address {} is not in {}/{}, the network of {}'s",
        node.fabric, subnet.first, subnet.length, head.name
    );
    Finding::error("fabric-subnet", Some(&node.name), message, &hint)
}

/// An address that its node does not have, or on a link that is down.
fn address(node: &Node, facts: &NodeFacts) -> Option<Finding> {
    match facts.interface_of(node.fabric) {
        None => {
            let have: Vec<_> = addresses(facts).map(said).collect();
            Some(Finding::error(
                "fabric-address",
                Some(&node.name),
                format!("no interface has the fabric address {}; it has {}", node.fabric, have.join(", ")),
                "correct `fabric` of this node in the profile, or give the interface its address (netplan)",
            ))
        }
        Some(interface) if !interface.up => Some(Finding::error(
            "fabric-down",
            Some(&node.name),
            format!("the fabric interface {} ({}) is down or has no carrier", interface.name, node.fabric),
            "check the cable and `ip link`; the other end has to be up as well",
        )),
        Some(_) => None,
    }
}

fn addresses(facts: &NodeFacts) -> impl Iterator<Item = (Ipv4Addr, &str)> {
    facts.interfaces.iter().flat_map(|i| i.addresses.iter().map(move |a| (a.address, i.name.as_str())))
}

fn said((address, interface): (Ipv4Addr, &str)) -> String {
    format!("{address} on {interface}")
}

/// The interfaces' MTU, compared once the fabric is known to be there.
pub(in crate::plan) fn mtu(profile: &Profile, facts: &[NodeFacts]) -> Vec<Finding> {
    let mtus: Vec<_> = profile
        .cluster
        .nodes
        .iter()
        .zip(facts)
        .filter_map(|(node, facts)| Some((&node.name, facts.interface_of(node.fabric)?.mtu)))
        .collect();
    if mtus.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return Vec::new();
    }
    let seen: Vec<_> = mtus.iter().map(|(node, mtu)| format!("{node} {mtu}")).collect();
    vec![Finding::warning(
        "fabric-mtu",
        None,
        format!("the fabric's MTU differs: {}", seen.join(", ")),
        "give every fabric interface the same MTU (9000 on Sparks)",
    )]
}
