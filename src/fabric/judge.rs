//! What the probed links mean, together with the facts: findings. Pure.
//!
//! What both directions of a link have in common is told once. What the facts alone say (an address
//! that no interface has, an interface that is down, interfaces of different MTU) is left to the checks
//! of facts. The interface of the default route never matters.

mod devices;
mod reach;
mod route;
mod speed;

#[cfg(test)]
#[path = "judge/tests/example.rs"]
pub(super) mod example;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use super::links::{Link, Links};
use crate::check::{Finding, Severity};
use crate::cluster::facts::{Interface, NodeFacts};
use crate::profile::NodeName;

/// What a person should know of the fabric. `facts` are of the nodes that were probed, in any order;
/// of one that is missing nothing is compared.
pub fn judge(links: &Links, facts: &[NodeFacts]) -> Vec<Finding> {
    let seen = Seen { links, facts };
    let mut findings = Vec::new();
    reach::judge(&seen, &mut findings);
    route::judge(&seen, &mut findings);
    speed::judge(&seen, &mut findings);
    devices::judge(&seen, &mut findings);
    for trouble in &links.troubles {
        findings.push(finding(
            Severity::Warning,
            "fabric-figures",
            &trouble.node,
            trouble.what.clone(),
            "measured speeds are compared there next time only where this file can be read; remove it to begin anew",
        ));
    }
    findings
}

/// What is judged.
struct Seen<'a> {
    links: &'a Links,
    facts: &'a [NodeFacts],
}

impl<'a> Seen<'a> {
    fn node(&self, node: &NodeName) -> Option<&'a NodeFacts> {
        self.facts.iter().find(|facts| &facts.node == node)
    }

    /// The interface that has an address of a node.
    fn interface(&self, node: &NodeName, address: Ipv4Addr) -> Option<&'a Interface> {
        self.node(node)?.interface_of(address)
    }

    fn from(&self, link: &Link) -> Option<&'a Interface> {
        self.interface(&link.from, link.from_address)
    }

    fn to(&self, link: &Link) -> Option<&'a Interface> {
        self.interface(&link.to, link.to_address)
    }

    /// Both directions of each link, each once.
    fn couples(&self) -> impl Iterator<Item = (&'a Link, &'a Link)> {
        let links = &self.links.links;
        links.iter().enumerate().filter_map(move |(place, link)| {
            let back = links.iter().skip(place + 1);
            let mut back = back
                .filter(|back| (back.from_address, back.to_address) == (link.to_address, link.from_address));
            Some((link, back.next()?))
        })
    }
}

/// The one place that makes findings of the fabric.
fn finding(severity: Severity, id: &'static str, node: &NodeName, message: String, hint: &str) -> Finding {
    Finding::new(severity, id, Some(node), message, hint)
}

/// What a further rail lacks makes the group slower; what the first one lacks makes it impossible.
fn severity(link: &Link) -> Severity {
    if link.rail == 0 { Severity::Error } else { Severity::Warning }
}

/// `spark2 (192.168.200.13)`
fn target(link: &Link) -> String {
    format!("{} ({})", link.to, link.to_address)
}

/// ` on rail 2`, where there are several.
fn on_rail(link: &Link) -> String {
    if link.rail == 0 { String::new() } else { format!(" on rail {}", link.rail + 1) }
}
