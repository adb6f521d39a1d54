use super::example::{HALVES, RAILS, facts, links, rate};
use super::*;
use crate::cluster::facts::{GidKind, InterfaceKind, RdmaPort};
use crate::fabric::links::{Before, MtuBy, PathMtu, Reach, Trouble, Way};

/// Where a fault is put.
type Fault<'a> = &'a dyn Fn(&mut Links, &mut Vec<NodeFacts>);

/// Places of `links()`.
const THERE: usize = 0;
const THERE_2: usize = 1;
const BACK: usize = 2;
const BACK_2: usize = 3;

fn told(fault: Fault) -> Vec<String> {
    let (mut links, mut facts) = (links(), facts());
    fault(&mut links, &mut facts);
    let line = |finding: Finding| {
        let hint = finding.hint.clone().expect("there is always something to do");
        format!("{:?} {finding}\n  {hint}", finding.severity)
    };
    judge(&links, &facts).into_iter().map(line).collect()
}

/// Each wanted finding is a list of texts that are in it; there are no others.
#[track_caller]
fn check(fault: Fault, wanted: &[&[&str]]) {
    let told = told(fault);
    assert_eq!(told.len(), wanted.len(), "{told:#?}");
    for (line, texts) in told.iter().zip(wanted) {
        for text in *texts {
            assert!(line.contains(text), "{text:?} is not in\n{line}");
        }
    }
}

fn dead(links: &mut Links, place: usize, reach: Reach, arrives: bool) {
    let link = &mut links.links[place];
    (link.reach, link.arrives, link.mtu, link.rate) = (reach, Some(arrives), None, None);
}

/// The RoCE port of a node's rail.
fn port(facts: &mut [NodeFacts], node: usize, rail: usize) -> &mut RdmaPort {
    let device = ["rocep1s0f0", "roceP2p1s0f0"][rail];
    &mut facts[node].rdma_devices.iter_mut().find(|found| found.name == device).expect("it is there").ports[0]
}

/// The first half of the port of a node.
fn half(facts: &mut [NodeFacts], node: usize) -> &mut Interface {
    facts[node].interfaces.iter_mut().find(|interface| interface.name == HALVES[0]).expect("it is there")
}

#[test]
fn a_healthy_fabric_has_nothing_to_tell() {
    check(&|_, _| {}, &[]);
    // Nothing measured, and nothing known of the nodes.
    check(
        &|links, facts| {
            links.links.iter_mut().for_each(|link| link.rate = None);
            facts.clear();
        },
        &[],
    );
    // The lower end of what is seen on Sparks, and no more than a cable's share of noise.
    check(
        &|links, _| {
            for link in &mut links.links {
                link.rate = Some(rate(78.0));
                link.before = Some(Before { last: rate(96.0), best: rate(105.0) });
            }
        },
        &[],
    );
}

#[test]
fn nodes_that_do_not_reach_each_other() {
    check(
        &|links, _| [THERE, BACK].iter().for_each(|&place| dead(links, place, Reach::Unreachable, false)),
        &[&[
            "Error spark1: does not reach spark2 (192.168.200.13): no machine answers for 192.168.200.13",
            "(fabric-unreachable)",
            "check cable",
        ]],
    );
    check(
        &|links, _| {
            dead(links, THERE, Reach::TimedOut, true);
            dead(links, BACK, Reach::TimedOut, false);
        },
        &[&[
            "Error spark2: does not reach spark1",
            "packets from spark1 do arrive here, packets from here do not arrive there",
            "drops packets on spark2 and spark1",
        ]],
    );
    check(
        &|links, _| dead(links, BACK, Reach::Refused, true),
        &[&[
            "Error spark2: does not reach spark1 (192.168.200.12), although it is reached from there",
            "rejects",
            "another machine has 192.168.200.12",
        ]],
    );
    check(
        &|links, _| dead(links, THERE, Reach::Stranger, false),
        &[&["what answers at 192.168.200.13 is not spark2", "ip neigh show 192.168.200.13"]],
    );
    check(&|links, _| dead(links, THERE, Reach::NoRoute, false), &[&["no route leads there", "prefixes"]]);
    // The second rail only makes it slower.
    check(
        &|links, _| [THERE_2, BACK_2].iter().for_each(|&place| dead(links, place, Reach::Unreachable, false)),
        &[&["Warning spark1: does not reach spark2 (192.168.201.13) on rail 2", "(rails)"]],
    );
}

#[test]
fn of_three_nodes_one_that_is_cut_off_is_told_once() {
    let mut all = Links::default();
    for (from, to) in [(1_u8, 2_u8), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)] {
        let address = |node: u8| Ipv4Addr::new(192, 168, 200, 11 + node);
        let mut link = links().links.swap_remove(THERE);
        (link.from, link.to) =
            (format!("spark{from}").parse().unwrap(), format!("spark{to}").parse().unwrap());
        (link.from_address, link.to_address) = (address(from), address(to));
        if from == 3 || to == 3 {
            (link.reach, link.mtu, link.rate) = (Reach::Unreachable, None, None);
        }
        all.links.push(link);
    }
    check(
        &|links, facts| {
            links.clone_from(&all);
            facts.clear();
        },
        &[&[
            "Error spark3: no other node reaches it over the fabric (192.168.200.14), nor it any other",
            "port of the switch",
        ]],
    );
}

#[test]
fn what_could_not_be_probed() {
    let why = "spark2: python3 is not installed";
    check(
        &|links, _| links.links.iter_mut().for_each(|link| link.reach = Reach::Unknown(why.to_owned())),
        &[&[
            "Warning spark1: the way to spark2 (192.168.200.13) could not be probed: spark2: python3 is not installed",
            "(fabric-unprobed)",
        ]],
    );
    // That the address is absent is told by the facts.
    check(
        &|links, facts| {
            half(facts, 1).addresses.clear();
            dead(links, THERE, Reach::Unknown("spark2 cannot listen on 192.168.200.13".to_owned()), false);
            dead(links, BACK, Reach::Unknown("spark2 cannot listen on 192.168.200.13".to_owned()), false);
        },
        &[],
    );
}

#[test]
fn packets_that_leave_by_another_interface() {
    let way = |interface: &str, gateway: Option<Ipv4Addr>| {
        Some(Way { interface: interface.to_owned(), source: None, gateway })
    };
    check(
        &|links, _| links.links[THERE].route = way("enP7s7", None),
        &[&[
            "Error spark1: packets to 192.168.200.13 leave by enP7s7, not by enp1s0f0np0, which has 192.168.200.12",
            "(fabric-route)",
            "ip route get 192.168.200.13",
        ]],
    );
    // Twins on one network: the kernel takes the first for both.
    check(
        &|links, facts| {
            for facts in facts {
                facts.interfaces.iter_mut().flat_map(|i| &mut i.addresses).for_each(|a| a.prefix = 16);
            }
            links.links[THERE_2].route = way(HALVES[0], None);
            links.links[BACK_2].route = way(HALVES[0], None);
        },
        &[
            &[
                "Warning spark1: packets to 192.168.201.13 leave by enp1s0f0np0, not by enP2p1s0f0np0",
                "192.168.200.12/16 in the same network",
            ],
            &["Warning spark2: packets to 192.168.201.12"],
        ],
    );
    check(
        &|links, _| links.links[BACK].route = way(HALVES[0], Some(Ipv4Addr::new(192, 168, 200, 1))),
        &[&["Warning spark2: packets to 192.168.200.12 pass the router 192.168.200.1"]],
    );
}

#[test]
fn packets_that_do_not_arrive_whole() {
    let path = |passed, by| Some(PathMtu { expected: 9000, passed, by });
    check(
        &|links, _| {
            (links.links[THERE].mtu, links.links[BACK].mtu) =
                (path(1504, MtuBy::Datagrams), path(1500, MtuBy::Datagrams));
        },
        &[&[
            "Error spark1: packets of more than 1500 bytes do not arrive at spark2 (192.168.200.13) in both directions, but the interface sends 9000",
            "(fabric-mtu-path)",
            "MTU of 9000",
        ]],
    );
    check(
        &|links, _| links.links[BACK].mtu = path(4096, MtuBy::Datagrams),
        &[&["Error spark2: packets of more than 4096 bytes do not arrive at spark1"]],
    );
    check(
        &|links, _| links.links[BACK_2].mtu = path(1500, MtuBy::Datagrams),
        &[&["Warning spark2: packets of more than 1500", "on rail 2"]],
    );
    check(
        &|links, _| links.links[THERE].mtu = path(1500, MtuBy::Segments),
        &[&[
            "Warning spark1: connections to spark2 (192.168.200.13) use packets of 1500 bytes",
            "no datagram arrives",
        ]],
    );
    // The other end's interface takes no more: TCP agrees on that, and the facts tell of it.
    check(
        &|links, facts| {
            half(facts, 1).mtu = 1500;
            links.links[THERE].mtu = path(1500, MtuBy::Datagrams);
        },
        &[],
    );
}

#[test]
fn links_that_are_slow() {
    let both = |links: &mut Links, there: f64, back: f64| {
        links.links[THERE].rate = Some(rate(there));
        links.links[BACK].rate = Some(rate(back));
    };
    check(
        &|links, _| both(links, 13.0, 12.6),
        &[&[
            "Error spark1: 13 Gb/s there and 12.6 Gb/s back to spark2 (192.168.200.13); the link has 200 Gb/s (fabric-slow)",
            "27 W",
            "unplug",
            "ethtool enp1s0f0np0",
            "lspci -vvs 0000:01:00.0",
        ]],
    );
    check(
        &|links, facts| {
            both(links, 96.0, 45.0);
            facts[0].interfaces.iter_mut().for_each(|i| i.mtu = 1500);
        },
        &[&["Warning spark2: 45 Gb/s to spark1", "(fabric-slow)", "the MTU is 1500"]],
    );
    check(
        &|links, facts| {
            both(links, 20.0, 20.0);
            facts[1].interfaces.iter_mut().for_each(|i| i.speed = Some(100_000));
        },
        &[&["Error", "the link has 100 Gb/s", "the two ends run at 200 and 100 Gb/s"]],
    );
    // 1 Gb/s is what a 1 Gb/s link is for.
    let ends_at = |facts: &mut Vec<NodeFacts>, speed| {
        facts.iter_mut().flat_map(|f| &mut f.interfaces).for_each(|i| i.speed = Some(speed));
    };
    check(
        &|links, facts| {
            ends_at(facts, 1000);
            links.links.iter_mut().for_each(|l| l.rate = Some(rate(0.93)));
        },
        &[],
    );
    check(
        &|links, facts| {
            ends_at(facts, 1000);
            links.links.iter_mut().for_each(|l| l.rate = Some(rate(0.93)));
            both(links, 0.095, 0.095);
        },
        &[&["Error spark1: 0.095 Gb/s there and 0.095 Gb/s back", "the link has 1 Gb/s"]],
    );
    // The speed that a pair of virtual interfaces claims says nothing.
    check(
        &|links, facts| {
            facts.iter_mut().flat_map(|f| &mut f.interfaces).for_each(|i| i.kind = InterfaceKind::Virtual);
            both(links, 1.0, 1.0);
        },
        &[],
    );
    // The second rail.
    check(
        &|links, _| links.links[BACK_2].rate = Some(rate(13.0)),
        &[&["Warning spark2: 13 Gb/s to spark1 (192.168.201.12) on rail 2"]],
    );
}

#[test]
fn links_that_have_become_slower() {
    let before = |best| Some(Before { last: rate(61.0), best: rate(best) });
    check(
        &|links, _| (links.links[THERE].rate, links.links[THERE].before) = (Some(rate(62.0)), before(105.0)),
        &[&[
            "Warning spark1: 62 Gb/s to spark2 (192.168.200.13); it was 105 Gb/s on 2026-03-01 (fabric-slower)",
            "remove ~/.local/state/sparkctl/fabric.json on spark1",
        ]],
    );
    // What is slow anyhow is told as that alone; without a measurement there is nothing to compare.
    check(
        &|links, _| (links.links[THERE].rate, links.links[THERE].before) = (Some(rate(13.0)), before(105.0)),
        &[&["(fabric-slow)"]],
    );
    check(&|links, _| (links.links[THERE].rate, links.links[THERE].before) = (None, before(105.0)), &[]);
}

#[test]
fn a_transfer_that_stands_still() {
    let stuck = |links: &mut Links| {
        links.links[THERE].rate = None;
        links.links[THERE].rate_failed = Some("the connection stood still".to_owned());
    };
    check(
        &|links, _| stuck(links),
        &[&[
            "Error spark1: the speed to spark2 (192.168.200.13) could not be measured: the connection stood still",
        ]],
    );
    // Large packets that get lost are the cause, and told already.
    check(
        &|links, _| {
            stuck(links);
            links.links[THERE].mtu = Some(PathMtu { expected: 9000, passed: 1500, by: MtuBy::Datagrams });
        },
        &[&["(fabric-mtu-path)"]],
    );
}

#[test]
fn roce_devices_and_their_addresses() {
    check(
        &|_, facts| {
            let port = port(facts, 1, 0);
            (port.state, port.physical) = (Some("DOWN".to_owned()), Some("Disabled".to_owned()));
        },
        &[&[
            "Error spark2: RoCE device rocep1s0f0 of enp1s0f0np0 is DOWN, Disabled, not ACTIVE",
            "(rdma-inactive)",
            "check the cable",
        ]],
    );
    check(
        &|_, facts| port(facts, 0, 1).gids.retain(|gid| gid.kind != Some(GidKind::RoceV2)),
        &[&[
            "Warning spark1: RoCE device roceP2p1s0f0 of enP2p1s0f0np0 has no RoCE v2 GID of 192.168.201.12: none of its 2 GIDs is",
            "(gid-absent)",
        ]],
    );
    check(
        &|_, facts| port(facts, 0, 0).gids.clear(),
        &[&["Error spark1", "its GID table is empty", "ip link set enp1s0f0np0 down"]],
    );
    check(
        &|_, facts| half(facts, 0).rdma.clear(),
        &[&["Error spark1: enp1s0f0np0 (192.168.200.12) has no RoCE device, spark2 has rocep1s0f0"]],
    );
    // InfiniBand has GIDs of another sort, and a node that was not asked told nothing.
    check(
        &|_, facts| {
            let port = port(facts, 0, 0);
            port.link_layer = Some("InfiniBand".to_owned());
            port.gids.clear();
            facts[1].rdma_devices.clear();
        },
        &[],
    );
}

#[test]
fn a_half_of_the_port_that_is_not_used() {
    let one_rail = |links: &mut Links| links.links.retain(|link| link.rail == 0);
    check(
        &|links, facts| {
            one_rail(links);
            facts[0].interfaces.iter_mut().filter(|i| i.name == HALVES[1]).for_each(|i| i.addresses.clear());
        },
        &[
            &[
                "Note spark1: enP2p1s0f0np0, the other half of the port of enp1s0f0np0, is up but has no address",
                "(rails)",
            ],
            &["Note spark2: enP2p1s0f0np0", "is in no network that all nodes have"],
        ],
    );
    // The other port of the card, and a half that is down, are none.
    check(
        &|links, facts| {
            one_rail(links);
            for half in facts.iter_mut().flat_map(|f| &mut f.interfaces).filter(|i| i.name == HALVES[1]) {
                half.phys_port_name = Some("p1".to_owned());
            }
        },
        &[],
    );
    check(
        &|links, facts| {
            one_rail(links);
            facts
                .iter_mut()
                .flat_map(|f| &mut f.interfaces)
                .filter(|i| i.name == HALVES[1])
                .for_each(|i| i.up = false);
        },
        &[],
    );
}

#[test]
fn figures_that_cannot_be_kept() {
    let trouble = Trouble { node: "spark2".parse().unwrap(), what: "a newer sparkctl wrote it".to_owned() };
    check(
        &|links, _| links.troubles.push(trouble.clone()),
        &[&["Warning spark2: a newer sparkctl wrote it (fabric-figures)"]],
    );
}

#[test]
fn the_default_route_never_matters() {
    let default = |facts: &mut NodeFacts, interface: &str| {
        facts.routes = Some(vec![crate::cluster::facts::Route {
            destination: "default".to_owned(),
            interface: interface.to_owned(),
            gateway: None,
            source: None,
            metric: 0,
        }]);
    };
    for interface in ["enP7s7", "wlP9s9", HALVES[0], "nowhere"] {
        check(&|_, facts| facts.iter_mut().for_each(|facts| default(facts, interface)), &[]);
    }
    check(&|_, facts| facts.iter_mut().for_each(|facts| facts.routes = Some(Vec::new())), &[]);
    assert_eq!(links().links[THERE].from_address, RAILS[0][0]);
}
