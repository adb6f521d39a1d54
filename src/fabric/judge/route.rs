//! Whether packets leave by the fabric's interface.

use std::collections::BTreeMap;

use super::{Finding, Seen, Severity, finding, severity};

pub(super) fn judge(seen: &Seen, findings: &mut Vec<Finding>) {
    // One finding for a node's rail and a wrong way, however many nodes it leads to.
    let mut wrong = BTreeMap::<_, Vec<_>>::new();
    for link in &seen.links.links {
        let (Some(way), Some(own)) = (&link.route, seen.from(link)) else { continue };
        if way.interface != own.name {
            wrong.entry((&link.from, link.rail, &way.interface, None)).or_default().push(link);
        } else if let Some(gateway) = way.gateway {
            wrong.entry((&link.from, link.rail, &way.interface, Some(gateway))).or_default().push(link);
        }
    }
    for ((node, _, interface, gateway), links) in wrong {
        let first = links[0];
        let to: Vec<_> = links.iter().map(|link| link.to_address.to_string()).collect();
        let to = to.join(", ");
        let own = seen.from(first).map_or("", |own| own.name.as_str());
        findings.push(match gateway {
            Some(gateway) => finding(
                Severity::Warning,
                "fabric-route",
                node,
                format!("packets to {to} pass the router {gateway}"),
                "give the fabric's addresses one network: nothing is gained by a router between two nodes",
            ),
            None => finding(
                severity(first),
                "fabric-route",
                node,
                format!(
                    "packets to {to} leave by {interface}, not by {own}, which has {}",
                    first.from_address
                ),
                &twins(seen, first, interface, own),
            ),
        });
    }
}

/// Two interfaces in one network take turns as they like; else a route is in the way.
fn twins(seen: &Seen, link: &super::Link, interface: &str, own: &str) -> String {
    let other = seen.node(&link.from).and_then(|facts| facts.interface(interface));
    match other.and_then(|other| other.addresses.iter().find(|address| address.contains(link.to_address))) {
        Some(twin) => format!(
            "{interface} has {}/{} in the same network: give each interface a network of its own",
            twin.address, twin.prefix
        ),
        None => format!("see `ip route get {}`, and remove the route that leads past {own}", link.to_address),
    }
}
