//! Why no fabric is taken, and what to do: cabling and addresses as they are found in the field.

use serde::Serialize;

use super::{Against, Candidate, could_be};
use crate::cluster::facts::{Interface, NodeFacts};

/// Why nothing was taken. The message is what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub message: String,
    pub hints: Vec<String>,
}

impl Refusal {
    fn new(message: impl Into<String>, hints: &[&str]) -> Self {
        Self { message: message.into(), hints: hints.iter().map(|&hint| hint.to_owned()).collect() }
    }
}

const ADDRESSES: &str = "give the RoCE interfaces addresses of one subnet, e.g. by netplan: 192.168.200.11/24, \
                         192.168.200.12/24, ..., and MTU 9000";

pub(super) fn no_address() -> Refusal {
    Refusal::new("the node has no address that is up", &["name one by --fabric ADDRESS"])
}

pub(super) fn number_of_addresses(named: usize, nodes: usize) -> Refusal {
    Refusal::new(
        format!("--fabric names {named} addresses, and there are {nodes} nodes"),
        &["write one for each node in their order, with commas between, or the subnet"],
    )
}

pub(super) fn not_there(node: &NodeFacts, wanted: &str) -> Refusal {
    let have: Vec<_> = node
        .interfaces
        .iter()
        .flat_map(|interface| {
            interface.addresses.iter().map(move |a| format!("{} on {}", a.address, interface.name))
        })
        .collect();
    Refusal::new(format!("{} has no address {wanted}; it has {}", node.node, have.join(", ")), &[])
}

/// Why none of the candidates is taken.
pub(super) fn why(candidates: &[Candidate], facts: &[NodeFacts]) -> Refusal {
    let shared: Vec<_> = candidates.iter().filter(|candidate| candidate.ends.len() == facts.len()).collect();
    let rdma = |candidate: &&Candidate| candidate.ends.iter().all(|end| !end.rdma.is_empty());
    if let Some(broken) = shared.iter().copied().find(rdma) {
        return broken_fabric(broken);
    }
    if facts.len() > 2
        && let Some(ring) = ring(candidates, facts)
    {
        return ring;
    }
    let mut hints = without_addresses(facts);
    if let Some(lengths) = lengths(candidates) {
        hints.push(lengths);
    }
    if let Some(only) = shared.first() {
        let names: Vec<_> = shared.iter().map(|candidate| candidate.subnet.to_string()).collect();
        if hints.is_empty() {
            hints.push(ADDRESSES.to_owned());
        }
        hints.push(format!("to take it all the same, say so: --fabric {}", only.subnet));
        let wireless = only.ends.iter().any(|end| end.wireless);
        let lan = only.ends.iter().any(|end| end.default_route);
        let what = match (wireless, lan) {
            (true, _) => "Wi-Fi, which is far too slow for a model's traffic",
            (false, true) => "the LAN, with no RDMA device on every end",
            (false, false) => "a network with no RDMA device on every end",
        };
        return Refusal { message: format!("all nodes are only in {}: {what}", names.join(" and ")), hints };
    }
    if hints.is_empty() {
        hints.push(ADDRESSES.to_owned());
    }
    Refusal { message: "there is no subnet that all nodes are in".to_owned(), hints }
}

/// By its devices it is the fabric, and it does not work.
fn broken_fabric(candidate: &Candidate) -> Refusal {
    let whys: Vec<_> = candidate.against.iter().map(ToString::to_string).collect();
    let hint = match candidate.against.first() {
        Some(Against::SameAddress { .. }) => "give each node an address of its own",
        Some(Against::OtherWay { .. }) => {
            "another interface or route takes these packets: leave each subnet to one interface (`ip route`)"
        }
        _ => "check the cable, `ip link` at both ends, and that no firewall stands between the nodes",
    };
    let anyway = format!("to take it all the same, say so: --fabric {}", candidate.subnet);
    Refusal::new(
        format!("{} would be the fabric, but {}", candidate.subnet, whys.join(", and ")),
        &[hint, &anyway],
    )
}

/// Three or more nodes, each cabled to its neighbours only.
fn ring(candidates: &[Candidate], facts: &[NodeFacts]) -> Option<Refusal> {
    let links: Vec<_> = candidates
        .iter()
        .filter(|candidate| candidate.ends.len() > 1 && candidate.ends.iter().all(|end| !end.rdma.is_empty()))
        .collect();
    let tied = |node: &NodeFacts| links.iter().any(|link| link.ends.iter().any(|end| end.node == node.node));
    if links.len() < 2 || !facts.iter().all(tied) {
        return None;
    }
    let each: Vec<_> = links
        .iter()
        .map(|link| {
            let nodes: Vec<_> = link.ends.iter().map(|end| end.node.as_str()).collect();
            format!("{} ({})", nodes.join("-"), link.subnet)
        })
        .collect();
    let (first, second) = (&links[0].ends[0].node, &links[0].ends[1].node);
    Some(Refusal::new(
        format!("the nodes are tied by separate links, and no subnet has all of them: {}", each.join(", ")),
        &[
            "a node's `fabric` is one address that every other node reaches: tie them by a switch with one subnet",
            &format!("or take two that are cabled to each other: sparkctl init {first} {second}"),
        ],
    ))
}

/// Nodes whose RDMA interfaces are there and have no address, or no cable.
fn without_addresses(facts: &[NodeFacts]) -> Vec<String> {
    let mut hints = Vec::new();
    for node in facts {
        let rdma: Vec<_> = node.interfaces.iter().filter(|i| could_be(i) && !i.rdma.is_empty()).collect();
        let bare = |interface: &&&Interface| interface.up && interface.addresses.is_empty();
        let named = |interfaces: &[&&Interface]| {
            interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let up: Vec<_> = rdma.iter().filter(bare).collect();
        if !up.is_empty() {
            hints.push(format!("{} has a cable and no address on {}: {ADDRESSES}", node.node, named(&up)));
        } else if !rdma.is_empty() && rdma.iter().all(|interface| !interface.up) {
            let all: Vec<_> = rdma.iter().collect();
            hints.push(format!("no RoCE port of {} has a cable or is up: {}", node.node, named(&all)));
        }
    }
    hints
}

/// One network that nodes write with different lengths.
fn lengths(candidates: &[Candidate]) -> Option<String> {
    let rdma: Vec<_> = candidates.iter().filter(|c| c.ends.iter().any(|end| !end.rdma.is_empty())).collect();
    rdma.iter().enumerate().find_map(|(index, one)| {
        let other = rdma[..index].iter().find(|other| {
            one.ends.iter().all(|end| other.subnet.contains(end.address))
                && other.ends.iter().all(|end| one.subnet.contains(end.address))
        })?;
        let who = |candidate: &Candidate| format!("{} {}", candidate.ends[0].node, candidate.subnet);
        Some(format!(
            "one network is written with two lengths: {}, {}; make them equal",
            who(other),
            who(one)
        ))
    })
}
