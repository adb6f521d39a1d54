use proptest::prelude::*;

use super::*;
use crate::cluster::facts::{InterfaceKind, Peer};
use crate::init::test_nodes::{cluster, silent};

/// What is taken, in short: subnet and addresses; else the refusal.
fn outcome(choice: &Choice) -> String {
    match (&choice.chosen, &choice.refusal) {
        (Some(chosen), None) => {
            let subnet = chosen.subnet.map_or_else(|| "-".to_owned(), |subnet| subnet.to_string());
            let ends: Vec<_> =
                chosen.ends.iter().map(|end| format!("{} {}", end.node, end.address)).collect();
            format!("{subnet}: {}", ends.join(", "))
        }
        (None, Some(refusal)) => format!("refused: {}", refusal.message),
        both => panic!("both or neither: {both:?}"),
    }
}

/// All that is told beside the choice itself.
fn told(choice: &Choice) -> String {
    let mut lines = choice.warnings.clone();
    for other in &choice.others {
        let against: Vec<_> = other.against.iter().map(ToString::to_string).collect();
        lines.push(format!("{}: {}", other.subnet, against.join("; ")));
    }
    lines.extend(choice.refusal.iter().flat_map(|refusal| refusal.hints.clone()));
    lines.join("\n")
}

/// A topology, what is asked for, the outcome, and words that have to be told.
#[track_caller]
fn check(topology: &str, wanted: Option<&str>, expected: &str, words: &[&str]) {
    let facts = cluster(topology);
    let wanted = wanted.map(|wanted| wanted.parse::<Wanted>().unwrap());
    let choice = choose(&facts, wanted.as_ref());
    assert_eq!(outcome(&choice), expected, "{}", told(&choice));
    for word in words {
        assert!(told(&choice).contains(word), "{word:?} is not told:\n{}", told(&choice));
    }
}

/// One cable between the first ports, each half with a subnet of its own, the LAN beside it.
const PAIR: &str = "
    spark1: enP7s7 10.1.230.180/24 default 10G | enp1s0f0np0 192.168.200.12/24 roce p0 200G mtu=9000 pci=0000:01:00.0
            | enP2p1s0f0np0 192.168.201.12/24 roce p0 200G mtu=9000 pci=0002:01:00.0 | docker0 172.17.0.1/16 bridge
    spark2: enP7s7 10.1.230.181/24 default 10G | enp1s0f0np0 192.168.200.13/24 roce p0 200G mtu=9000 pci=0000:01:00.0
            | enP2p1s0f0np0 192.168.201.13/24 roce p0 200G mtu=9000 pci=0002:01:00.0 | docker0 172.17.0.1/16 bridge";

const TAKEN: &str = "192.168.200.0/24: spark1 192.168.200.12, spark2 192.168.200.13";

#[test]
fn the_fabric_of_a_pair() {
    check(
        PAIR,
        None,
        TAKEN,
        &[
            "192.168.201.0/24: it would do: the other half of the same port (p0)",
            "10.1.230.0/24: no RDMA device is on enP7s7 of spark1, and it is the way to the LAN",
        ],
    );
    // No way out: the fabric is found all the same.
    check(&PAIR.replace(" default", ""), None, TAKEN, &["no node has a default route"]);
    // Two cables: two ports.
    check(
        &PAIR
            .replace("enP2p1s0f0np0", "enp1s0f1np1")
            .replace("p0 200G mtu=9000 pci=0002", "p1 200G mtu=9000 pci=0000"),
        None,
        TAKEN,
        &["192.168.201.0/24: it would do: another port"],
    );
    // The second is the faster one.
    check(
        &PAIR.replace(
            "enp1s0f0np0 192.168.200.12/24 roce p0 200G",
            "enp1s0f1np1 192.168.200.12/24 roce p1 100G",
        ),
        None,
        "192.168.201.0/24: spark1 192.168.201.12, spark2 192.168.201.13",
        &["192.168.200.0/24: it would do: another port, and a slower one"],
    );
    // Cabled crosswise: the interfaces have other names on each node.
    check(
        &PAIR.replace("enp1s0f0np0 192.168.200.13/24 roce p0", "enp1s0f1np1 192.168.200.13/24 roce p1"),
        None,
        TAKEN,
        &["192.168.201.0/24"],
    );
    // Point-to-point subnets of four addresses.
    check(
        "spark1: a 10.0.0.1/30 roce p0 | b 10.0.0.5/30 roce p0
         spark2: a 10.0.0.2/30 roce p0 | b 10.0.0.6/30 roce p0",
        None,
        "10.0.0.0/30: spark1 10.0.0.1, spark2 10.0.0.2",
        &["10.0.0.4/30: it would do: the other half of the same port (p0)"],
    );
    // A bond of two ports, and a VLAN, with an RDMA device on them.
    check(
        "spark1: bond0 10.0.0.1/24 bond roce 200G
         spark2: vlan7 10.0.0.2/24 vlan roce 200G",
        None,
        "10.0.0.0/24: spark1 10.0.0.1, spark2 10.0.0.2",
        &[],
    );
}

#[test]
fn a_switch_ties_four() {
    let node = |n: u32| {
        format!(
            "spark{n}: lan 10.1.0.{n}/24 default | enp1s0f0np0 192.168.200.1{n}/24 roce p0 200G mtu=9000\n"
        )
    };
    let four: String = (1..=4).map(node).collect();
    check(
        &four,
        None,
        "192.168.200.0/24: spark1 192.168.200.11, spark2 192.168.200.12, spark3 192.168.200.13, spark4 192.168.200.14",
        &[],
    );
}

#[test]
fn rings_and_chains_are_told() {
    let ring = "
        a: r 10.0.1.1/30 roce p0 | s 10.0.3.2/30 roce p1 | lan 10.9.0.1/24 default
        b: r 10.0.1.2/30 roce p0 | s 10.0.2.1/30 roce p1 | lan 10.9.0.2/24 default
        c: r 10.0.2.2/30 roce p0 | s 10.0.3.1/30 roce p1 | lan 10.9.0.3/24 default";
    let refused = "refused: the nodes are tied by separate links, and no subnet has all of them: \
                   a-b (10.0.1.0/30), b-c (10.0.2.0/30), a-c (10.0.3.0/30)";
    check(
        ring,
        None,
        refused,
        &["a switch with one subnet", "sparkctl init a b", "10.0.1.0/30: only a and b are in it"],
    );
    // The LAN of a ring, named.
    check(
        ring,
        Some("10.9.0.0/24"),
        "10.9.0.0/24: a 10.9.0.1, b 10.9.0.2, c 10.9.0.3",
        &["no RDMA device is on lan of a"],
    );
}

#[test]
fn twins_in_one_subnet_are_told() {
    let twins = PAIR.replace("192.168.201.", "192.168.200.1");
    let telling = [
        "spark1: the halves of one port, enp1s0f0np0 (192.168.200.12) and enP2p1s0f0np0 (192.168.200.112), are both in \
         192.168.200.0/24",
        "give enP2p1s0f0np0 a subnet of its own",
    ];
    check(&twins, None, TAKEN, &telling);
    // The kernel sends by the other half on one node: that one is taken there.
    let mut facts = cluster(&twins);
    for peer in &mut facts[1].peers {
        peer.interface = Some("enP2p1s0f0np0".to_owned());
    }
    assert_eq!(
        outcome(&choose(&facts, None)),
        "192.168.200.0/24: spark1 192.168.200.12, spark2 192.168.200.113"
    );
    // A subnet without twins is taken first, though its speed be less.
    let beside = twins.replace("| docker0", "| enp1s0f1np1 10.5.5.NUMBER/24 roce p1 100G | docker0");
    let beside = beside.replacen("NUMBER", "1", 1).replacen("NUMBER", "2", 1);
    check(&beside, None, "10.5.5.0/24: spark1 10.5.5.1, spark2 10.5.5.2", &["192.168.200.0/24: it would do"]);
    // Addresses that the machines took themselves are all in one subnet.
    let link_local = twins.replace("192.168.200.", "169.254.20.").replace("/24 roce", "/16 roce");
    check(
        &link_local,
        None,
        "169.254.0.0/16: spark1 169.254.20.12, spark2 169.254.20.13",
        &["may change at a reboot"],
    );
}

#[test]
fn a_third_device_with_a_subnet_of_its_own_is_told() {
    let third = PAIR.replacen("| docker0", "| enp1s0f1np1 10.9.9.1/24 roce p1 100G | docker0", 1);
    check(&third, None, TAKEN, &["10.9.9.0/24: only spark1 is in it"]);
}

#[test]
fn the_lan_and_wifi_are_never_taken_silently() {
    let lan = "
        spark1: enP7s7 10.1.230.180/24 default | enp1s0f0np0 - roce p0 | enp1s0f1np1 - roce p1 down
        spark2: enP7s7 10.1.230.181/24 default | enp1s0f0np0 - roce p0 down | enp1s0f1np1 - roce p1 down";
    check(
        lan,
        None,
        "refused: all nodes are only in 10.1.230.0/24: the LAN, with no RDMA device on every end",
        &[
            "spark1 has a cable and no address on enp1s0f0np0",
            "no RoCE port of spark2 has a cable or is up: enp1s0f0np0, enp1s0f1np1",
            "say so: --fabric 10.1.230.0/24",
        ],
    );
    check(
        lan,
        Some("10.1.230.0/24"),
        "10.1.230.0/24: spark1 10.1.230.180, spark2 10.1.230.181",
        &["the fabric that was named: no RDMA device is on enP7s7 of spark1"],
    );
    check(
        "spark1: wlP9s9 192.168.1.5/24 wifi default
         spark2: wlP9s9 192.168.1.6/24 wifi default",
        None,
        "refused: all nodes are only in 192.168.1.0/24: Wi-Fi, which is far too slow for a model's traffic",
        &["wlP9s9 of spark1 is Wi-Fi"],
    );
    // On one end the LAN is on the RoCE card itself.
    check(
        "spark1: enp1s0f0np0 10.1.0.1/24 roce p0 default
         spark2: eth0 10.1.0.2/24 default",
        None,
        "refused: all nodes are only in 10.1.0.0/24: the LAN, with no RDMA device on every end",
        &["no RDMA device is on eth0 of spark2"],
    );
    check(
        "spark1: tailscale0 100.64.0.1/10 tunnel | docker0 172.17.0.1/16 bridge | veth1 10.3.0.1/24 virtual
         spark2: tailscale0 100.64.0.2/10 tunnel | docker0 172.17.0.1/16 bridge | veth1 10.3.0.2/24 virtual",
        None,
        "refused: there is no subnet that all nodes are in",
        &["give the RoCE interfaces addresses"],
    );
}

#[test]
fn a_fabric_that_does_not_work_is_told() {
    let refused = "refused: 192.168.200.0/24 would be the fabric, but ";
    let pair = PAIR.replace("192.168.201.12/24", "-").replace("192.168.201.13/24", "-");
    let with = |from: &str, to: &str| pair.replacen(from, to, 1);
    check(
        &with("192.168.200.13/24 roce", "192.168.200.13/24 roce down"),
        None,
        &format!("{refused}enp1s0f0np0 of spark2 is down or has no cable"),
        &["check the cable"],
    );
    check(
        &with("192.168.200.13/24 roce", "192.168.200.13/24 roce=DOWN"),
        None,
        &format!("{refused}rdma-enp1s0f0np0 of spark2 is in state DOWN"),
        &["check the cable"],
    );
    check(
        &with("192.168.200.13", "192.168.200.12"),
        None,
        &format!("{refused}spark1 and spark2 both have 192.168.200.12"),
        &["an address of its own"],
    );
    // One direction is enough to refuse.
    let mut facts = cluster(&pair);
    silent(&mut facts, "spark2", "192.168.200.12");
    assert_eq!(
        outcome(&choose(&facts, None)),
        format!("{refused}spark1 (192.168.200.12) does not answer spark2")
    );
    // Named, it is taken, and told.
    let choice = choose(&facts, Some(&"192.168.200.0/24".parse().unwrap()));
    assert_eq!(outcome(&choice), TAKEN);
    assert!(told(&choice).contains("spark1 (192.168.200.12) does not answer spark2"), "{}", told(&choice));
    // The packets take another way.
    for (interface, gateway, way) in [
        ("enP7s7", None, "leave by enP7s7"),
        ("enp1s0f0np0", Some("10.1.230.1"), "leave by the router 10.1.230.1"),
    ] {
        let mut facts = cluster(&pair);
        for peer in &mut facts[0].peers {
            peer.interface = Some(interface.to_owned());
            peer.gateway = gateway.map(|gateway| gateway.parse().unwrap());
        }
        let outcome = outcome(&choose(&facts, None));
        assert!(outcome.contains(way), "{outcome}");
    }
    // Nobody asked.
    let mut facts = cluster(&pair);
    facts[0].peers.clear();
    assert!(outcome(&choose(&facts, None)).contains("whether spark2 answers spark1 is not known"));
    // One network, two lengths.
    check(
        &with("192.168.200.13/24", "192.168.200.13/16").replace("10.1.230.181/24", "10.1.231.181/24"),
        None,
        "refused: there is no subnet that all nodes are in",
        &["one network is written with two lengths: spark2 192.168.0.0/16, spark1 192.168.200.0/24"],
    );
}

#[test]
fn unequal_mtus_are_told() {
    let pair = PAIR.replacen("200G mtu=9000", "200G mtu=1500", 1);
    check(&pair, Some("192.168.200.0/24"), TAKEN, &["the fabric's MTU differs: spark1 1500, spark2 9000"]);
}

#[test]
fn a_single_node_takes_any_address_that_stays() {
    let one = "spark1: enp1s0f0np0 192.168.200.12/24 roce p0 down | enP7s7 10.1.230.180/24 default | wlP9s9 192.168.1.5/24 wifi";
    check(one, None, "10.1.230.0/24: spark1 10.1.230.180", &[]);
    check(
        &one.replace("| enP7s7 10.1.230.180/24 default", ""),
        None,
        "192.168.1.0/24: spark1 192.168.1.5",
        &["the node has no default route"],
    );
    // Where there is nothing else, what is made of software will do: in a container all is.
    check("a:  eth0 172.17.0.2/16 virtual default", None, "172.17.0.0/16: a 172.17.0.2", &[]);
    check(
        "a: docker0 172.17.0.1/16 bridge | veth1 10.0.0.1/24 virtual",
        None,
        "10.0.0.0/24: a 10.0.0.1",
        &[],
    );
    check(
        "a: eth0 10.0.0.1/24 down | lo 127.0.0.1/8 loopback",
        None,
        "refused: the node has no address that is up",
        &["--fabric ADDRESS"],
    );
    check("a: docker0 172.17.0.1/16 bridge", Some("172.17.0.1"), "-: a 172.17.0.1", &[]);
}

#[test]
fn what_a_person_names_has_to_be_there() {
    check(
        PAIR,
        Some("192.168.201.12,192.168.201.13"),
        "192.168.201.0/24: spark1 192.168.201.12, spark2 192.168.201.13",
        &[],
    );
    check(PAIR, Some("192.168.201.12"), "refused: --fabric names 1 addresses, and there are 2 nodes", &[]);
    check(
        PAIR,
        Some("192.168.201.13,192.168.201.12"),
        "refused: spark1 has no address 192.168.201.13; it has 10.1.230.180 on enP7s7, 192.168.200.12 on enp1s0f0np0, \
         192.168.201.12 on enP2p1s0f0np0, 172.17.0.1 on docker0",
        &[],
    );
    check(
        PAIR,
        Some("10.7.0.0/16"),
        "refused: spark1 has no address 10.7.0.0/16; it has 10.1.230.180 on enP7s7, \
        192.168.200.12 on enp1s0f0np0, 192.168.201.12 on enP2p1s0f0np0, 172.17.0.1 on docker0",
        &[],
    );
    for (text, why) in [
        ("10.1.0.0/33", "is not a subnet"),
        ("spark1", "is not an IPv4 address"),
        ("10.1.0.0/0", "is not a subnet"),
    ] {
        assert!(text.parse::<Wanted>().unwrap_err().contains(why), "{text}");
    }
}

/// Interfaces of all sorts in few subnets, and answers at random.
fn any_cluster() -> impl Strategy<Value = Vec<NodeFacts>> {
    let interface =
        (0..3u8, 0..4u8, any::<bool>(), 0..4u8, prop::sample::select(vec!["", " down", " roce=DOWN"]));
    let node = prop::collection::vec(interface, 1..4);
    (prop::collection::vec(node, 2..4), prop::collection::vec(0..10u8, 64)).prop_map(|(nodes, chances)| {
        let mut text = String::new();
        for (n, interfaces) in nodes.iter().enumerate() {
            let each = interfaces.iter().enumerate().map(|(i, (subnet, kind, roce, port, more))| {
                let kind = ["", " wifi", " virtual", " bridge"][usize::from(*kind)];
                let roce = if *roce { " roce" } else { "" };
                format!("if{i} 10.{subnet}.{i}.{}/16{kind}{roce}{more} p{port}", n + 1)
            });
            text.extend([format!("node{n}: "), each.collect::<Vec<_>>().join(" | "), "\n".to_owned()]);
        }
        let mut facts = cluster(&text);
        let peers = facts.iter_mut().flat_map(|node| &mut node.peers);
        for (peer, chance) in peers.zip(chances) {
            peer.answers = chance > 0;
        }
        facts
    })
}

proptest! {
    /// Whatever is taken is up, wired, has an RDMA device, and answers in both directions.
    #[test]
    fn what_is_taken_is_a_fabric(facts in any_cluster()) {
        if let Some(chosen) = choose(&facts, None).chosen {
            prop_assert_eq!(chosen.ends.len(), facts.len());
            for (node, end) in facts.iter().zip(&chosen.ends) {
                let interface = node.interface_of(end.address).unwrap();
                prop_assert!(interface.up && !interface.rdma.is_empty());
                prop_assert!(!matches!(interface.kind, InterfaceKind::Wireless | InterfaceKind::Bridge));
                let answers = |other: &End| node.peers.iter().any(|p: &Peer| p.address == other.address && p.answers);
                prop_assert!(chosen.ends.iter().filter(|other| other.node != end.node).all(answers));
            }
        }
    }

    /// The order in which nodes and interfaces are told changes nothing.
    #[test]
    fn the_order_changes_nothing((facts, shuffled) in any_cluster().prop_flat_map(|facts| {
        let interfaces = facts.iter().map(|node| Just(node.interfaces.clone()).prop_shuffle()).collect::<Vec<_>>();
        let mixed = (Just(facts.clone()), interfaces).prop_map(|(mut facts, interfaces)| {
            for (node, interfaces) in facts.iter_mut().zip(interfaces) {
                node.interfaces = interfaces;
            }
            facts
        });
        (Just(facts), mixed.prop_flat_map(|facts| Just(facts).prop_shuffle()))
    })) {
        let taken = |facts: &[NodeFacts]| {
            let chosen = choose(facts, None).chosen?;
            let mut ends: Vec<_> = chosen.ends.iter().map(|end| (end.node.clone(), end.address)).collect();
            ends.sort();
            Some((chosen.subnet, ends))
        };
        prop_assert_eq!(taken(&facts), taken(&shuffled));
    }
}
