//! The RoCE devices of the rails, their addresses, and halves of a port that are not used.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::{Finding, Link, NodeFacts, Seen, Severity, finding, severity};
use crate::cluster::facts::Interface;

pub(super) fn judge(seen: &Seen, findings: &mut Vec<Finding>) {
    let mut ends = BTreeMap::new();
    for link in &seen.links.links {
        ends.entry((&link.from, link.rail)).or_insert(link);
    }
    for link in ends.values() {
        let (Some(facts), Some(interface)) = (seen.node(&link.from), seen.from(link)) else { continue };
        if interface.rdma.is_empty() {
            absent(seen, link, interface, findings);
        }
        for device in &interface.rdma {
            device_finding(facts, link, interface, device, findings);
        }
        if link.rail == 0 {
            unused(seen, facts, interface, findings);
        }
    }
}

/// No RoCE device here, although the other end has one.
fn absent(seen: &Seen, link: &Link, interface: &Interface, findings: &mut Vec<Finding>) {
    if let Some(other) = seen.to(link).and_then(|other| other.rdma.first()) {
        findings.push(finding(
            severity(link),
            "rdma-inactive",
            &link.from,
            format!("{} ({}) has no RoCE device, {} has {other}", interface.name, link.from_address, link.to),
            "see `rdma link` and `lsmod | grep mlx5_ib`; else name the address of an interface with a device as `fabric`",
        ));
    }
}

/// A device that cannot carry traffic, or has no address to be reached by.
fn device_finding(
    facts: &NodeFacts,
    link: &Link,
    interface: &Interface,
    device: &str,
    findings: &mut Vec<Finding>,
) {
    // Asked for less, the node told of no devices; one that tells no states cannot be judged.
    let Some(told) = facts.rdma_device(device) else { return };
    let ports: Vec<_> = told.ports.iter().filter(|port| port.state.is_some()).collect();
    let Some(port) = ports.iter().find(|port| port.is_active()) else {
        if let Some(port) = ports.first() {
            let state = port.state.as_deref().unwrap_or_default();
            let physical = port.physical.as_ref().map_or(String::new(), |word| format!(", {word}"));
            findings.push(finding(
                severity(link),
                "rdma-inactive",
                &link.from,
                format!("RoCE device {device} of {} is {state}{physical}, not ACTIVE", interface.name),
                &format!("check the cable, `ip link show {}` and `rdma link`; after a warm reboot that lost it, a cold one brings it back", interface.name),
            ));
        }
        return;
    };
    let ethernet = port.link_layer.as_deref() == Some("Ethernet");
    if ethernet && port.roce_v2_index(link.from_address).is_none() {
        let seen = match port.gids.len() {
            0 => "its GID table is empty".to_owned(),
            count => format!("none of its {count} GIDs is"),
        };
        findings.push(finding(
            severity(link),
            "gid-absent",
            &link.from,
            format!("RoCE device {device} of {} has no RoCE v2 GID of {}: {seen}", interface.name, link.from_address),
            &format!("set the address anew: sudo ip link set {0} down && sudo ip link set {0} up; see `show_gids` or /sys/class/infiniband/{device}/ports/1/gids", interface.name),
        ));
    }
}

/// The other half of the same port that is up and is no rail.
fn unused(seen: &Seen, facts: &NodeFacts, interface: &Interface, findings: &mut Vec<Finding>) {
    let Some(port) = &interface.phys_port_name else { return };
    let rails: Vec<Ipv4Addr> = seen
        .links
        .links
        .iter()
        .filter(|link| link.from == facts.node)
        .map(|link| link.from_address)
        .collect();
    let same_port = |other: &&Interface| {
        other.name != interface.name
            && other.phys_port_name.as_ref() == Some(port)
            && other.driver == interface.driver
            && other.up
            && !other.rdma.is_empty()
    };
    for half in facts.interfaces.iter().filter(same_port) {
        if half.addresses.iter().any(|address| rails.contains(&address.address)) {
            continue;
        }
        let (seen, hint) = match half.addresses.first() {
            None => (
                "has no address",
                "give it an address in a network of its own on every node (netplan), to use both halves",
            ),
            Some(_) => (
                "is in no network that all nodes have",
                "give it an address in one network on all nodes, to use both halves",
            ),
        };
        findings.push(finding(
            Severity::Note,
            "rails",
            &facts.node,
            format!("{}, the other half of the port of {}, is up but {seen}: one half carries half of the port's speed", half.name, interface.name),
            hint,
        ));
    }
}
