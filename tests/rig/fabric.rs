//! The fabric as it is probed: healthy, with one direction dead, narrow, slow, with a rail too few.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use sparkctl::cluster::facts::NodeFacts;
use sparkctl::cluster::gather::{Request, gather};
use sparkctl::fabric::{Links, Member, MtuBy, PathMtu, Rate, Reach, Tell, judge, probe, rails};
use sparkctl::host::{SshHost, SshOptions};

use crate::harness::{Rig, ssh_config};

const SPARK1: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 11);
const SPARK2: Ipv4Addr = Ipv4Addr::new(192, 168, 200, 12);

/// Connections to both nodes.
struct Nodes {
    runtime: tokio::runtime::Runtime,
    hosts: Vec<SshHost>,
}

impl Nodes {
    fn connect() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let options = SshOptions { config_file: Some(ssh_config()) };
        let hosts = ["spark1", "spark2"].map(|name| {
            let node = name.parse().expect("a node's name");
            runtime.block_on(SshHost::connect(node, name, None, &options)).expect("the node is reached")
        });
        Self { runtime, hosts: hosts.into() }
    }

    /// The links, and how long it took to see them.
    fn probe(&self, addresses: [&[Ipv4Addr]; 2], measure: bool) -> (Links, Duration) {
        let began = Instant::now();
        let members: Vec<_> = self
            .hosts
            .iter()
            .zip(addresses)
            .map(|(host, addresses)| Member { host, addresses: addresses.to_vec() })
            .collect();
        let tell: Option<Tell<'_>> = if measure { Some(&|_| {}) } else { None };
        (self.runtime.block_on(probe(&members, tell)), began.elapsed())
    }

    fn facts(&self) -> Vec<NodeFacts> {
        let look = |host| self.runtime.block_on(gather(host, &Request::machine()));
        self.hosts.iter().map(|host| look(host).expect("facts of the node")).collect()
    }

    /// What is told of these links.
    fn told(&self, links: &Links) -> Vec<String> {
        judge(links, &self.facts()).iter().map(ToString::to_string).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let _entered = self.runtime.enter();
        self.hosts.clear();
    }
}

const BOTH: [&[Ipv4Addr]; 2] = [&[SPARK1], &[SPARK2]];

/// No program of the probes runs any more, and nothing of ours lies about.
fn nothing_stays(rig: &Rig) {
    for node in ["spark1", "spark2"] {
        crate::harness::eventually("the probe's programs have ended", Duration::from_secs(5), || {
            rig.on(node, "pgrep -f '[s]parkctl-fabric|[p]ython3 /dev/fd/3' || :").is_empty()
        });
        assert_eq!(rig.on(node, "ls -d /tmp/sparkctl* 2>/dev/null || :"), "");
    }
}

/// A peer that does not answer costs what its connection waits for: 2 s, more than a healthy one.
#[track_caller]
fn costs_little(nodes: &Nodes, took: Duration) {
    let healthy = nodes.probe(BOTH, false).1;
    assert!(took < healthy + Duration::from_secs(3), "{took:?}, and {healthy:?} where all is well");
}

/// A shell command on a node for as long as `act` takes, and one that undoes it.
fn with<T>(rig: &Rig, node: &str, done: &str, undone: &str, act: impl FnOnce() -> T) -> T {
    rig.on(node, done);
    let result = act();
    rig.on(node, undone);
    result
}

#[test]
fn a_healthy_fabric() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    let (links, mut took) = nodes.probe(BOTH, false);
    let ends = [(SPARK1, SPARK2, "enp1s0f0np0"), (SPARK2, SPARK1, "enP2p1s0f1np1")];
    assert_eq!(links.links.len(), 2, "{links:#?}");
    for (from, to, interface) in ends {
        let link = links.link(from, to).expect("it was probed");
        assert_eq!(link.reach, Reach::Connected, "{link:#?}");
        assert_eq!(link.mtu, Some(PathMtu { expected: 9000, passed: 9000, by: MtuBy::Datagrams }));
        let way = link.route.as_ref().expect("it was asked");
        assert_eq!((way.interface.as_str(), way.source, way.gateway), (interface, Some(from), None));
        assert_eq!((link.rate, link.before), (None, None));
    }
    // The best of three: the machine may have other things to do.
    for _ in 0..2 {
        took = took.min(nodes.probe(BOTH, false).1);
    }
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(nodes.told(&links), [""; 0]);
    assert_eq!(rails(&[SPARK1, SPARK2], &nodes.facts()), [[SPARK1], [SPARK2]]);
    nothing_stays(&rig);
    assert_eq!(rig.on("spark1", "ls -A /home/spark/.local/state 2>/dev/null || :"), "");
}

#[test]
fn no_default_route_at_all() {
    let rig = Rig::clean();
    // The operator's machine is on the management network itself.
    let nodes = Nodes::connect();
    let (links, _) =
        with(&rig, "spark1", "ip route del default", "ip route add default via 10.77.0.1", || {
            nodes.probe(BOTH, false)
        });
    assert_eq!(nodes.told(&links), [""; 0]);
}

#[test]
fn a_direction_that_is_dead() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    rig.run(&["deaf-fabric", "spark2"]);
    let (links, took) = nodes.probe(BOTH, false);
    rig.run(&["heal", "spark2"]);
    let (there, back) =
        (links.link(SPARK1, SPARK2).expect("probed"), links.link(SPARK2, SPARK1).expect("probed"));
    assert_eq!((&there.reach, there.arrives), (&Reach::TimedOut, Some(false)), "{links:#?}");
    assert_eq!((&back.reach, back.arrives), (&Reach::TimedOut, Some(true)), "{links:#?}");
    costs_little(&nodes, took);
    let told = nodes.told(&links);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].starts_with("spark1: does not reach spark2 (192.168.200.12): a connection is not answered"),
        "{told:#?}"
    );
    assert!(told[0].contains("packets from spark2 do arrive here"), "{told:#?}");

    // A firewall that lets answers in, as most do.
    let rule = "INPUT -p tcp --syn -i enP2p1s0f1np1 -j";
    for (verdict, reach) in [("DROP", Reach::TimedOut), ("REJECT", Reach::Refused)] {
        let (links, _) = with(
            &rig,
            "spark2",
            &format!("iptables -I {rule} {verdict}"),
            &format!("iptables -D {rule} {verdict}"),
            || nodes.probe(BOTH, false),
        );
        assert_eq!(links.link(SPARK1, SPARK2).expect("probed").reach, reach);
        assert_eq!(links.link(SPARK2, SPARK1).expect("probed").reach, Reach::Connected);
        let told = nodes.told(&links);
        assert!(told[0].contains("although it is reached from there"), "{told:#?}");
    }
    nothing_stays(&rig);
}

#[test]
fn a_cable_that_is_pulled() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    rig.run(&["cut-fabric", "spark2"]);
    // What the nodes knew of each other's Ethernet address is forgotten within a minute.
    for node in ["spark1", "spark2"] {
        rig.on(node, "ip neigh flush to 192.168.200.0/24");
    }
    let (links, took) = nodes.probe(BOTH, false);
    rig.run(&["heal", "spark2"]);
    assert!(links.links.iter().all(|link| link.reach == Reach::Unreachable), "{links:#?}");
    assert!(links.links.iter().all(|link| link.arrives == Some(false)), "{links:#?}");
    costs_little(&nodes, took);
    assert_eq!(
        nodes.told(&links),
        [
            "spark1: does not reach spark2 (192.168.200.12): no machine answers for 192.168.200.12 (fabric-unreachable)"
        ]
    );
    nothing_stays(&rig);
}

#[test]
fn large_packets_that_vanish_on_the_way() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    for mtu in [1500, 4200, 5555] {
        rig.run(&["narrow-fabric", "spark2", &mtu.to_string()]);
        let (links, took) = nodes.probe(BOTH, false);
        for link in &links.links {
            let path = link.mtu.expect("it was reached");
            assert_eq!((path.expected, path.by), (9000, MtuBy::Datagrams));
            assert!(path.passed <= mtu && path.passed + 4 >= mtu, "{mtu}: {path:?}");
        }
        assert!(took < Duration::from_secs(8), "{took:?}");
        let told = nodes.told(&links);
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].contains("do not arrive at spark2 (192.168.200.12) in both directions"), "{told:#?}");
    }
    rig.run(&["heal", "spark2"]);
    // Where no datagram passes at all, the connection's segments have to do.
    let (links, _) = with(
        &rig,
        "spark2",
        "iptables -t raw -I PREROUTING -p udp -j DROP",
        "iptables -t raw -D PREROUTING -p udp -j DROP",
        || nodes.probe(BOTH, false),
    );
    for link in &links.links {
        assert_eq!(link.mtu, Some(PathMtu { expected: 9000, passed: 9000, by: MtuBy::Segments }));
    }
}

#[test]
fn packets_that_leave_by_the_wrong_interface() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    let (links, _) =
        with(&rig, "spark1", "ip route add 192.168.200.12 dev enP7s7", "ip route del 192.168.200.12", || {
            nodes.probe(BOTH, false)
        });
    let told = nodes.told(&links);
    let wrong = "packets to 192.168.200.12 leave by enP7s7, not by enp1s0f0np0, which has 192.168.200.11";
    assert!(told.iter().any(|line| line.contains(wrong)), "{told:#?}");
}

#[test]
fn a_speed_is_measured_and_remembered() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    let fast = nodes.probe(BOTH, true).0;
    assert_eq!(nodes.told(&fast), [""; 0]);
    for megabits in [200, 1000] {
        rig.run(&["slow-fabric", "spark2", &format!("{megabits}mbit")]);
        let (links, took) = nodes.probe(BOTH, true);
        for link in &links.links {
            let rate: Rate = link.rate.unwrap_or_else(|| panic!("it was measured: {link:#?}"));
            // Four hundredths of the wire are headers.
            let share = rate.bytes_per_second * 100 / (megabits * 125_000);
            assert!((75..=105).contains(&share), "{share} % of {megabits} Mb/s: {rate:?}");
            let before = fast.link(link.from_address, link.to_address).and_then(|link| link.rate);
            assert_eq!(link.before.map(|before| before.best), before);
        }
        assert!(took < Duration::from_secs(2 * 3 + 3), "{took:?}");
        let told = nodes.told(&links);
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].contains("(fabric-slower)"), "{told:#?}");
    }
    rig.run(&["heal", "spark2"]);
    let file = rig.on("spark1", "cat /home/spark/.local/state/sparkctl/fabric.json");
    assert!(file.contains("192.168.200.12"), "{file}");
    assert_eq!(rig.on("spark1", "ls -A /home/spark/.local/state/sparkctl"), "fabric.json");
    nothing_stays(&rig);
}

#[test]
fn two_rails_of_which_one_is_dead() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    // In the same network, as the rig's bridge lets no other pass.
    let second = [21, 22].map(|last| Ipv4Addr::new(192, 168, 200, last));
    for (node, interface, address) in
        [("spark1", "enp1s0f0np0", second[0]), ("spark2", "enP2p1s0f1np1", second[1])]
    {
        rig.on(node, &format!("ip addr add {address}/24 dev {interface}"));
    }
    let both: [&[Ipv4Addr]; 2] = [&[SPARK1, second[0]], &[SPARK2, second[1]]];
    let (whole, _) = nodes.probe(both, false);
    let rule = "INPUT -i enP2p1s0f1np1 -d 192.168.200.22 -j DROP";
    let (half, _) =
        with(&rig, "spark2", &format!("iptables -I {rule}"), &format!("iptables -D {rule}"), || {
            nodes.probe(both, false)
        });
    let told = nodes.told(&half);
    for (node, interface, address) in
        [("spark1", "enp1s0f0np0", second[0]), ("spark2", "enP2p1s0f1np1", second[1])]
    {
        rig.on(node, &format!("ip addr del {address}/24 dev {interface}"));
    }
    assert!(
        whole.links.len() == 4 && whole.links.iter().all(|link| link.reach == Reach::Connected),
        "{whole:#?}"
    );
    let reached: Vec<_> = half.links.iter().map(|link| (link.rail, link.reach == Reach::Connected)).collect();
    assert_eq!(reached, [(0, true), (1, false), (0, true), (1, false)]);
    assert!(told[0].contains("on rail 2") && told[0].ends_with("(rails)"), "{told:#?}");
}

#[test]
fn a_node_without_python() {
    let rig = Rig::clean();
    let nodes = Nodes::connect();
    let (links, _) = with(
        &rig,
        "spark2",
        "mv /usr/bin/python3 /usr/bin/python3.away",
        "mv /usr/bin/python3.away /usr/bin/python3",
        || nodes.probe(BOTH, true),
    );
    for link in &links.links {
        assert_eq!(link.reach, Reach::Unknown("spark2: python3 is not installed".to_owned()), "{links:#?}");
    }
    assert_eq!(nodes.told(&links).len(), 1);
}
