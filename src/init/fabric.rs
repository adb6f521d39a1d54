//! Which addresses are the fabric: out of the facts of all nodes, with the reason, and with why not the others. Pure.
//!
//! Taken by itself is only a subnet that every node has an address in, on an active RDMA device, where each node
//! answers each other one over that very interface. All else is told, and taken only when a person names it. The
//! result does not depend on the order of nodes or interfaces. Speed is not measured here.

mod against;
mod ends;
mod refusal;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::Serialize;

use crate::cluster::facts::{InterfaceKind, NodeFacts};
use crate::profile::NodeName;

pub use against::Against;
pub use ends::{End, Rdma, Subnet, could_be, port};
pub use refusal::Refusal;

/// What a person asked for as the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    Subnet(Subnet),
    /// An address for each node, in the order of the nodes.
    Addresses(Vec<Ipv4Addr>),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return text.parse().map(Self::Subnet);
        }
        let address =
            |part: &str| part.trim().parse().map_err(|_| format!("`{part}` is not an IPv4 address"));
        text.split(',').map(address).collect::<Result<_, _>>().map(Self::Addresses)
    }
}

/// Which addresses are the fabric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The addresses; `None`: nothing is taken, and `refusal` says why.
    pub chosen: Option<Chosen>,
    /// Subnets that are not taken.
    pub others: Vec<Other>,
    /// What a person should know of the fabric that was taken, or of the network as a whole.
    pub warnings: Vec<String>,
    pub refusal: Option<Refusal>,
}

/// The fabric that was taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chosen {
    /// `None` where the addresses that a person named are of several.
    pub subnet: Option<Subnet>,
    /// One for each node, in their order.
    pub ends: Vec<End>,
    pub because: String,
}

/// A subnet that was not taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
    pub subnet: Subnet,
    pub ends: Vec<End>,
    pub against: Vec<Against>,
}

/// The addresses that have to be asked for from every node before [`choose`] can say anything.
pub fn to_ask(facts: &[NodeFacts], wanted: Option<&Wanted>) -> Vec<Ipv4Addr> {
    let shared = ends::by_subnet(facts).into_values().filter(|ends| nodes(ends).len() > 1);
    let mut addresses: Vec<_> = shared.flatten().map(|end| end.address).collect();
    match wanted {
        Some(Wanted::Addresses(wanted)) => addresses.extend(wanted),
        Some(Wanted::Subnet(subnet)) => {
            addresses.extend(
                facts.iter().filter_map(|node| ends::in_subnet(node, *subnet)).map(|end| end.address),
            );
        }
        None => {}
    }
    addresses.sort_unstable();
    addresses.dedup();
    if facts.len() < 2 { Vec::new() } else { addresses }
}

/// Chooses the fabric. The facts have what [`to_ask`] asked for in their `peers`.
pub fn choose(facts: &[NodeFacts], wanted: Option<&Wanted>) -> Choice {
    let mut candidates: Vec<_> = ends::by_subnet(facts)
        .into_iter()
        .map(|(subnet, ends)| Candidate::new(subnet, &ends, facts))
        .collect();
    let mut choice = match wanted {
        Some(wanted) => named(wanted, &candidates, facts),
        None => match facts {
            [only] => alone(only),
            _ => found(&mut candidates, facts),
        },
    };
    if !facts.is_empty() && facts.iter().all(|node| node.routes.is_some() && node.default_routes().is_empty())
    {
        let who = if facts.len() == 1 { "the node has no" } else { "no node has a" };
        choice.warnings.push(format!("{who} default route: nothing can be downloaded there"));
    }
    choice
}

/// A subnet, with one end for each node that is in it.
#[derive(Debug, Clone)]
struct Candidate {
    subnet: Subnet,
    ends: Vec<End>,
    /// Ends of nodes that have several, beside the one that was picked.
    twins: Vec<(End, End)>,
    against: Vec<Against>,
}

impl Candidate {
    fn new(subnet: Subnet, all: &[End], facts: &[NodeFacts]) -> Self {
        let (mut ends, mut twins) = (Vec::new(), Vec::new());
        for node in facts {
            let mine: Vec<_> = all.iter().filter(|end| end.node == node.node).collect();
            let Some(picked) = picked(&mine, all, node) else { continue };
            let further = mine.iter().filter(|end| end.interface != picked.interface);
            twins.extend(further.map(|end| (picked.clone(), (*end).clone())));
            ends.push(picked.clone());
        }
        let against = against::all(&ends, facts);
        Self { subnet, ends, twins, against }
    }

    fn speed(&self) -> u32 {
        self.ends.iter().map(|end| end.speed.unwrap_or(0)).min().unwrap_or(0)
    }

    /// What sorts the usable ones, the best first: no twins, addresses that stay, the faster, the first port.
    fn order(&self) -> impl Ord + use<> {
        let mtu = self.ends.iter().map(|end| end.mtu).min().unwrap_or(0);
        let mut places: Vec<_> =
            self.ends.iter().map(|end| (end.pci.clone(), end.interface.clone())).collect();
        places.sort();
        (
            !self.twins.is_empty(),
            self.subnet.is_link_local(),
            std::cmp::Reverse((self.speed(), mtu)),
            places,
            self.subnet,
        )
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<_> = self.twins.iter().map(|(picked, other)| {
            let what = if picked.same_port(other) { "the halves of one port" } else { "two interfaces" };
            format!(
                "{}: {what}, {} ({}) and {} ({}), are both in {}: packets leave by one of them whatever is meant; \
                 give {} a subnet of its own",
                picked.node, picked.interface, picked.address, other.interface, other.address, self.subnet,
                other.interface,
            )
        }).collect();
        if self.subnet.is_link_local() {
            warnings.push(format!(
                "{} is link-local: these addresses may change at a reboot; give the interfaces fixed ones (netplan)",
                self.subnet
            ));
        }
        let mtus: Vec<_> = self.ends.iter().map(|end| (end, end.mtu)).collect();
        if mtus.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            let each: Vec<_> = mtus.iter().map(|(end, mtu)| format!("{} {mtu}", end.node)).collect();
            warnings.push(format!(
                "the fabric's MTU differs: {}; give every end the same (9000)",
                each.join(", ")
            ));
        }
        warnings
    }

    fn other(self) -> Other {
        Other { subnet: self.subnet, ends: self.ends, against: self.against }
    }
}

/// The end that stands for a node which has several in one subnet: the one that its packets to the others leave by.
fn picked<'a>(mine: &[&'a End], all: &[End], node: &NodeFacts) -> Option<&'a End> {
    let to_others = node
        .peers
        .iter()
        .filter(|peer| all.iter().any(|end| end.address == peer.address && end.node != node.node));
    let used: Vec<_> = to_others.filter_map(|peer| peer.interface.as_deref()).collect();
    mine.iter().copied().find(|end| used.contains(&end.interface.as_str())).or_else(|| mine.first().copied())
}

fn nodes(ends: &[End]) -> Vec<&NodeName> {
    let mut nodes: Vec<_> = ends.iter().map(|end| &end.node).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}

/// What the facts themselves say.
fn found(candidates: &mut Vec<Candidate>, facts: &[NodeFacts]) -> Choice {
    let best = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.against.is_empty())
        .min_by_key(|(_, candidate)| candidate.order())
        .map(|(index, _)| index);
    let Some(best) = best else {
        let refusal = Some(refusal::why(candidates, facts));
        let others = candidates.drain(..).map(Candidate::other).collect();
        return Choice { chosen: None, others, warnings: Vec::new(), refusal };
    };
    let best = candidates.remove(best);
    for candidate in candidates.iter_mut().filter(|candidate| candidate.against.is_empty()) {
        candidate.against.push(against::beside(
            &best.ends,
            &candidate.ends,
            candidate.speed() < best.speed(),
        ));
    }
    let warnings = best.warnings();
    let because = because(&best);
    let chosen = Some(Chosen { subnet: Some(best.subnet), ends: best.ends, because });
    let others = candidates.drain(..).map(Candidate::other).collect();
    Choice { chosen, others, warnings, refusal: None }
}

fn because(candidate: &Candidate) -> String {
    let mut words = vec!["every node has an active RDMA device there, and answers the others".to_owned()];
    if candidate.speed() > 0 {
        words.push(format!("{} Gb/s", candidate.speed() / 1000));
    }
    words.push(format!("MTU {}", candidate.ends.iter().map(|end| end.mtu).min().unwrap_or(0)));
    words.join("; ")
}

/// A single node needs no fabric: any address that stays will do. One of software is the last resort.
fn alone(node: &NodeFacts) -> Choice {
    let interfaces =
        node.interfaces.iter().filter(|interface| interface.up && interface.kind != InterfaceKind::Loopback);
    let addresses = interfaces.flat_map(|interface| interface.addresses.iter().map(move |a| (interface, *a)));
    let best = addresses
        .filter_map(|(interface, address)| {
            let end = ends::with_address(node, address.address)?;
            let is_bridge = interface.kind == InterfaceKind::Bridge;
            let order = (
                !could_be(interface),
                is_bridge,
                address.address.is_link_local(),
                end.wireless,
                !end.default_route,
            );
            Some((order, (interface.name.clone(), address.address), Subnet::of(address), end))
        })
        .min_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let (chosen, refusal) = match best {
        Some((.., subnet, end)) => {
            let because = "a single node needs no fabric: any address of its own will do".to_owned();
            (Some(Chosen { subnet: Some(subnet), ends: vec![end], because }), None)
        }
        None => (None, Some(refusal::no_address())),
    };
    Choice { chosen, others: Vec::new(), warnings: Vec::new(), refusal }
}

/// What a person named. What speaks against it is told, and does not keep it from being taken.
fn named(wanted: &Wanted, candidates: &[Candidate], facts: &[NodeFacts]) -> Choice {
    let ends: Result<Vec<End>, Refusal> = match wanted {
        Wanted::Addresses(addresses) if addresses.len() != facts.len() => {
            Err(refusal::number_of_addresses(addresses.len(), facts.len()))
        }
        Wanted::Addresses(addresses) => facts
            .iter()
            .zip(addresses)
            .map(|(node, address)| {
                ends::with_address(node, *address)
                    .ok_or_else(|| refusal::not_there(node, &address.to_string()))
            })
            .collect(),
        Wanted::Subnet(subnet) => {
            let candidate = candidates.iter().find(|candidate| candidate.subnet == *subnet);
            let picked = |node: &NodeFacts| {
                let known = candidate.and_then(|c| c.ends.iter().find(|end| end.node == node.node)).cloned();
                known.or_else(|| ends::in_subnet(node, *subnet))
            };
            facts
                .iter()
                .map(|node| picked(node).ok_or_else(|| refusal::not_there(node, &subnet.to_string())))
                .collect()
        }
    };
    let others = candidates.iter().cloned().map(Candidate::other);
    match ends {
        Err(refusal) => {
            Choice { chosen: None, others: others.collect(), warnings: Vec::new(), refusal: Some(refusal) }
        }
        Ok(ends) => {
            let against = if facts.len() > 1 { against::all(&ends, facts) } else { Vec::new() };
            let mut warnings: Vec<_> =
                against.iter().map(|why| format!("the fabric that was named: {why}")).collect();
            let subnet = match wanted {
                Wanted::Subnet(subnet) => Some(*subnet),
                Wanted::Addresses(_) => candidates
                    .iter()
                    .find(|candidate| ends.iter().all(|end| candidate.subnet.contains(end.address)))
                    .map(|candidate| candidate.subnet),
            };
            let whole = candidates.iter().find(|candidate| candidate.ends == ends);
            warnings.extend(whole.iter().flat_map(|candidate| candidate.warnings()));
            let others = others.filter(|other| Some(other.subnet) != subnet).collect();
            let because = "named by --fabric".to_owned();
            Choice { chosen: Some(Chosen { subnet, ends, because }), others, warnings, refusal: None }
        }
    }
}
