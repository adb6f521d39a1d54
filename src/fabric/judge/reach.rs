//! Whether the nodes reach each other.

use std::collections::BTreeSet;

use super::{Finding, Link, NodeName, Seen, Severity, finding, on_rail, target};
use crate::fabric::links::Reach;

pub(super) fn judge(seen: &Seen, findings: &mut Vec<Finding>) {
    let alone = alone(seen);
    for node in &alone {
        let own = seen.links.links.iter().find(|link| &&link.from == node && link.rail == 0);
        let address = own.map_or(String::new(), |link| format!(" ({})", link.from_address));
        findings.push(finding(
            Severity::Error,
            "fabric-unreachable",
            node,
            format!("no other node reaches it over the fabric{address}, nor it any other"),
            "check its cable, `ip link`, its address, its port of the switch and its firewall",
        ));
    }
    for (link, back) in seen.couples() {
        if alone.contains(&link.from) || alone.contains(&link.to) {
            continue;
        }
        match (is_dead(&link.reach), is_dead(&back.reach)) {
            (false, false) => {}
            (true, true) => findings.push(both(link, back)),
            (true, false) => findings.push(one(link)),
            (false, true) => findings.push(one(back)),
        }
    }
    unknown(seen, findings);
}

/// Whether it was tried, and in vain.
fn is_dead(reach: &Reach) -> bool {
    !matches!(reach, Reach::Connected | Reach::Unknown(_))
}

/// Of three nodes or more, those that neither reach nor are reached: told once, not once a pair.
fn alone<'a>(seen: &Seen<'a>) -> BTreeSet<&'a NodeName> {
    let links = || seen.links.links.iter().filter(|link| link.rail == 0);
    let nodes: BTreeSet<_> = links().map(|link| &link.from).collect();
    let lives = links().filter(|link| !is_dead(&link.reach)).flat_map(|link| [&link.from, &link.to]);
    let lives: BTreeSet<_> = lives.collect();
    if nodes.len() < 3 || lives.is_empty() { BTreeSet::new() } else { &nodes - &lives }
}

/// Neither direction works.
fn both(link: &Link, back: &Link) -> Finding {
    // The direction in which packets get lost is the one to look at.
    let (link, back) =
        if link.arrives == Some(true) && back.arrives == Some(false) { (back, link) } else { (link, back) };
    let (why, hint) = words(link);
    let direction = match (link.arrives, back.arrives) {
        (Some(false), Some(true)) => {
            format!("; packets from {} do arrive here, packets from here do not arrive there", link.to)
        }
        _ => String::new(),
    };
    told(link, format!("does not reach {}{}: {why}{direction}", target(link), on_rail(link)), &hint)
}

/// Only this direction does not work.
fn one(link: &Link) -> Finding {
    let (why, hint) = words(link);
    told(
        link,
        format!("does not reach {}{}, although it is reached from there: {why}", target(link), on_rail(link)),
        &hint,
    )
}

fn told(link: &Link, message: String, hint: &str) -> Finding {
    if link.rail == 0 {
        finding(Severity::Error, "fabric-unreachable", &link.from, message, hint)
    } else {
        finding(Severity::Warning, "rails", &link.from, message, hint)
    }
}

/// Why, and what to do about it.
fn words(link: &Link) -> (String, String) {
    let (to, address) = (&link.to, link.to_address);
    let firewall = |how: &str| {
        format!(
            "look for a firewall that {how} on {} and {to}: sudo nft list ruleset, sudo ufw status",
            link.from
        )
    };
    match &link.reach {
        Reach::Refused => (
            "a connection to a port that is open there is refused".to_owned(),
            format!("{}; or another machine has {address}", firewall("rejects")),
        ),
        // A cable that was pulled a moment ago looks like this as well.
        Reach::TimedOut => (
            "a connection is not answered within 2 s".to_owned(),
            format!("check cable and `ip link` at both ends; then {}", firewall("drops packets")),
        ),
        Reach::Unreachable => (
            format!("no machine answers for {address}"),
            "check cable, `ip link` and addresses at both ends".to_owned(),
        ),
        Reach::NoRoute => (
            "no route leads there".to_owned(),
            format!(
                "both addresses need the same network: compare their prefixes with `ip addr` on {} and {to}",
                link.from
            ),
        ),
        Reach::NoAddress => (
            format!("it has no address {}", link.from_address),
            "give the interface its address (netplan), or correct `fabric` of this node in the profile"
                .to_owned(),
        ),
        Reach::Stranger => (
            format!("what answers at {address} is not {to}"),
            format!(
                "another machine has the address of {to}: find it by `ip neigh show {address}` and give it another"
            ),
        ),
        Reach::Connected | Reach::Unknown(_) => (String::new(), String::new()),
    }
}

/// What could not be tried, once for each reason. An address that a node lacks is told by its facts.
fn unknown(seen: &Seen, findings: &mut Vec<Finding>) {
    let mut told = BTreeSet::new();
    for link in &seen.links.links {
        let Reach::Unknown(why) = &link.reach else { continue };
        let lacks = |node, address| seen.node(node).is_some() && seen.interface(node, address).is_none();
        if lacks(&link.from, link.from_address) || lacks(&link.to, link.to_address) || !told.insert(why) {
            continue;
        }
        findings.push(finding(
            Severity::Warning,
            "fabric-unprobed",
            &link.from,
            format!("the way to {} could not be probed: {why}", target(link)),
            "the probe needs python3 and iproute2 on every node",
        ));
    }
}
