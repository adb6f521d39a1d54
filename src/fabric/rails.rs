//! Which addresses of the nodes are rails of one fabric. Pure.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::cluster::facts::NodeFacts;

/// The addresses of each node on the fabric, those of one rail at the same place: first the one that is
/// given, then further ones. A further rail is a network that every node has an address in, on an
/// interface that is up and has a RoCE or InfiniBand device; so two halves of one port of a Spark are two
/// rails as soon as both have addresses. `fabric` and `facts` are of the same nodes.
pub fn rails(fabric: &[Ipv4Addr], facts: &[NodeFacts]) -> Vec<Vec<Ipv4Addr>> {
    let further: Vec<_> = fabric.iter().zip(facts).map(|(own, facts)| further(*own, facts)).collect();
    let mut rails: Vec<_> = fabric.iter().map(|own| vec![*own]).collect();
    let Some(first) = further.first() else { return rails };
    for network in first.keys() {
        let all: Vec<_> = further.iter().filter_map(|node| node.get(network)).collect();
        if all.len() < rails.len() {
            continue;
        }
        let shared = all.iter().map(|addresses| addresses.len()).min().unwrap_or_default();
        for (rails, addresses) in rails.iter_mut().zip(all) {
            rails.extend(addresses.iter().take(shared).map(|(_, address)| *address));
        }
    }
    rails
}

/// Addresses of a node beside its own one, by their network, in the order of the interfaces' names.
fn further(own: Ipv4Addr, facts: &NodeFacts) -> BTreeMap<(u32, u8), Vec<(&str, Ipv4Addr)>> {
    let mut networks = BTreeMap::<_, Vec<_>>::new();
    let there = |address: Ipv4Addr| {
        facts.interface_of(own).is_some_and(|i| i.addresses.iter().any(|a| a.address == address))
    };
    for interface in facts.interfaces.iter().filter(|interface| interface.up && !interface.rdma.is_empty()) {
        for address in interface.addresses.iter().filter(|address| !there(address.address)) {
            let host_bits = u32::from(32 - address.prefix.min(32));
            let network = u32::from(address.address).checked_shr(host_bits).unwrap_or(0);
            networks
                .entry((network, address.prefix))
                .or_default()
                .push((interface.name.as_str(), address.address));
        }
    }
    for addresses in networks.values_mut() {
        addresses.sort();
    }
    networks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::facts::{Interface, InterfaceAddress};
    use crate::fabric::judge::example;

    /// Interfaces as `NAME ADDRESS/PREFIX`, `-` in front where it has no RoCE device.
    fn node(node: usize, interfaces: &str) -> NodeFacts {
        let interface = |text: &str| {
            let (name, address) = text.trim().split_once(' ').unwrap();
            let (address, prefix) = address.split_once('/').unwrap();
            let address =
                InterfaceAddress { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() };
            let rdma = if name.starts_with('-') { vec![] } else { vec![format!("roce-{name}")] };
            Interface {
                name: name.to_owned(),
                addresses: vec![address],
                up: true,
                rdma,
                ..Interface::default()
            }
        };
        NodeFacts {
            interfaces: interfaces.split(',').map(interface).collect(),
            ..example::facts().swap_remove(node)
        }
    }

    fn check(interfaces: [&str; 2], wanted: [&[&str]; 2]) {
        let facts = [node(0, interfaces[0]), node(1, interfaces[1])];
        let fabric = wanted.map(|addresses| addresses[0].parse().unwrap());
        let wanted =
            wanted.map(|addresses| addresses.iter().map(|a| a.parse().unwrap()).collect::<Vec<Ipv4Addr>>());
        assert_eq!(rails(&fabric, &facts), wanted, "{interfaces:?}");
    }

    #[test]
    fn a_rail_is_a_network_that_all_nodes_share_by_roce() {
        check(["a 10.0.0.1/24", "b 10.0.0.2/24"], [&["10.0.0.1"], &["10.0.0.2"]]);
        check(
            [
                "a 10.0.0.1/24, b 10.0.1.1/24, -lan 10.1.0.1/16",
                "a 10.0.0.2/24, b 10.0.1.2/24, -lan 10.1.0.2/16",
            ],
            [&["10.0.0.1", "10.0.1.1"], &["10.0.0.2", "10.0.1.2"]],
        );
        // The profile may name the second half on one node.
        check(
            ["a 10.0.0.1/24, b 10.0.1.1/24", "b 10.0.0.2/24, a 10.0.1.2/24"],
            [&["10.0.0.1", "10.0.1.1"], &["10.0.0.2", "10.0.1.2"]],
        );
        // A third card with a network of its own is no rail.
        check(
            ["a 10.0.0.1/24, c 10.9.0.1/24", "a 10.0.0.2/24, c 10.8.0.1/24"],
            [&["10.0.0.1"], &["10.0.0.2"]],
        );
        // Twins on one network.
        check(
            ["a 10.0.0.1/24, b 10.0.0.3/24", "a 10.0.0.2/24, b 10.0.0.4/24"],
            [&["10.0.0.1", "10.0.0.3"], &["10.0.0.2", "10.0.0.4"]],
        );
        check(["a 10.0.0.1/24, b 10.0.0.3/24", "a 10.0.0.2/24"], [&["10.0.0.1"], &["10.0.0.2"]]);
        // No network at all, and the whole of the Internet.
        check(
            ["a 10.0.0.1/32, b 1.0.0.1/0", "a 10.0.0.2/32, b 2.0.0.1/0"],
            [&["10.0.0.1", "1.0.0.1"], &["10.0.0.2", "2.0.0.1"]],
        );
    }
}
