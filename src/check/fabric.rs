//! The fabric: each node's address on it, one subnet, links that are up, one MTU and speed; and what the probed links
//! mean, which `fabric::judge` says.

use std::net::Ipv4Addr;

use super::{Finding, Member, Seen};
use crate::cluster::facts::{InterfaceKind, NodeFacts};
use crate::fabric::{Links, Reach, judge};
use crate::profile::Node;

/// The network that the head's fabric address is in.
struct Subnet {
    first: Ipv4Addr,
    /// Bits of the network.
    length: u8,
}

impl Subnet {
    /// None where the head does not have its address (which is told), or has one of a point-to-point link: such a
    /// fabric is routed, and no two nodes are in one network.
    fn of_head(seen: &Seen) -> Option<Self> {
        let head = seen.head()?;
        let addresses = &head.facts.interface_of(head.node.fabric)?.addresses;
        let length = addresses.iter().find(|address| address.address == head.node.fabric)?.prefix;
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).filter(|_| (1..31).contains(&length))?;
        Some(Self { first: Ipv4Addr::from(u32::from(head.node.fabric) & mask), length })
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        (u32::from(address) ^ u32::from(self.first)) >> (32 - u32::from(self.length)) == 0
    }
}

/// What is wrong with the nodes' addresses on the fabric, and with the way between them.
pub(super) fn needed(seen: &Seen, findings: &mut Vec<Finding>) {
    let misplaced = places(seen, findings);
    for member in &seen.nodes {
        // That nothing answers at an address that its node does not have says nothing of the fabric.
        for lost in member.facts.lost_peers().filter(|lost| !misplaced.contains(lost)) {
            if was_probed(seen, member.node.fabric, lost) {
                continue;
            }
            findings.push(Finding::error(
                "fabric-unreachable",
                Some(&member.node.name),
                format!("{lost} does not answer over the fabric, neither a ping nor a connection"),
                "check cable, `ip link` and addresses at both ends, and that no firewall stands between the nodes",
            ));
        }
    }
}

/// What the probed links tell, and what differs between the ends.
pub(super) fn further(seen: &Seen, findings: &mut Vec<Finding>) {
    let misplaced = places(seen, &mut Vec::new());
    let there = |link: &&crate::fabric::Link| {
        !misplaced.contains(&link.from_address) && !misplaced.contains(&link.to_address)
    };
    let links = Links {
        links: seen.links.links.iter().filter(there).cloned().collect(),
        troubles: seen.links.troubles.clone(),
    };
    let facts: Vec<_> = seen.facts().cloned().collect();
    findings.extend(judge(&links, &facts));
    mtu(seen, findings);
    speed(seen, findings);
}

/// Findings on addresses that are not there or are of no use, and those addresses.
fn places(seen: &Seen, findings: &mut Vec<Finding>) -> Vec<Ipv4Addr> {
    let subnet = Subnet::of_head(seen);
    let mut misplaced = Vec::new();
    for Member { rank, node, facts } in &seen.nodes {
        let finding = match &subnet {
            Some(subnet) if !subnet.has(node.fabric) => {
                Some(outside(node, facts, subnet, seen.profile.head()))
            }
            _ => address(node, facts),
        };
        if let Some(finding) = finding {
            misplaced.push(node.fabric);
            findings.push(finding.at(format!("cluster.nodes[{rank}].fabric")));
        }
    }
    misplaced
}

/// Whether the probe tried the way from an address to another.
fn was_probed(seen: &Seen, from: Ipv4Addr, to: Ipv4Addr) -> bool {
    seen.links.link(from, to).is_some_and(|link| !matches!(link.reach, Reach::Unknown(_)))
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

/// The interfaces' MTU.
fn mtu(seen: &Seen, findings: &mut Vec<Finding>) {
    let mtus = seen
        .nodes
        .iter()
        .filter_map(|member| Some((&member.node.name, member.facts.interface_of(member.node.fabric)?.mtu)));
    let mtus: Vec<_> = mtus.collect();
    if mtus.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return;
    }
    let told: Vec<_> = mtus.iter().map(|(node, mtu)| format!("{node} {mtu}")).collect();
    findings.push(Finding::warning(
        "fabric-mtu",
        None,
        format!("the fabric's MTU differs: {}", told.join(", ")),
        "give every fabric interface the same MTU (9000 on Sparks)",
    ));
}

/// The speed that the cards have agreed on with what they are plugged into.
fn speed(seen: &Seen, findings: &mut Vec<Finding>) {
    let speeds = seen.nodes.iter().filter_map(|member| {
        let interface = member.facts.interface_of(member.node.fabric)?;
        // What is made of software claims a speed that says nothing.
        let claims = matches!(interface.kind, InterfaceKind::Ethernet | InterfaceKind::Infiniband);
        Some((
            &member.node.name,
            interface.name.as_str(),
            interface.speed.filter(|_| claims && interface.up)?,
        ))
    });
    let speeds: Vec<_> = speeds.collect();
    if speeds.windows(2).all(|pair| pair[0].2 == pair[1].2) {
        return;
    }
    let told: Vec<_> =
        speeds.iter().map(|(node, name, speed)| format!("{node} {} Gb/s ({name})", speed / 1000)).collect();
    findings.push(Finding::warning(
        "fabric-speed",
        None,
        format!("the fabric's speed differs: {}", told.join(", ")),
        "check the cable of the slower end, and what `ethtool` says of its interface",
    ));
}
