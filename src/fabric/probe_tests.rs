use super::*;
use crate::fabric::Measured;
use crate::fabric::links::{MtuBy, Rate};
use crate::host::fake::{Fault, Moment};
use crate::host::{FakeCluster, LocalHost};

fn measuring(measure: bool) -> Option<Tell<'static>> {
    if measure { Some(&|_: &Measured| {}) } else { None }
}

/// Two nodes on this machine, which needs Python and iproute2 for it: its loopback has many addresses.
async fn local(addresses: [&[[u8; 4]]; 2], measure: bool) -> Links {
    let hosts = ["one", "two"].map(|name| LocalHost::new(name.parse().unwrap()));
    let members: Vec<_> = hosts
        .iter()
        .zip(addresses)
        .map(|(host, addresses)| Member {
            host,
            addresses: addresses.iter().map(|address| Ipv4Addr::from(*address)).collect(),
        })
        .collect();
    probe(&members, measuring(measure)).await
}

#[tokio::test]
async fn links_that_work_are_told_as_such() {
    let links = local([&[[127, 0, 0, 2], [127, 0, 1, 2]], &[[127, 0, 0, 3], [127, 0, 1, 3]]], false).await;
    assert_eq!(links.links.len(), 4, "{links:#?}");
    for link in &links.links {
        assert_eq!(link.reach, Reach::Connected, "{link:#?}");
        assert_eq!(link.arrives, Some(true));
        assert_eq!(link.route.as_ref().unwrap().interface, "lo");
        // The loopback's MTU is 65536, an IPv4 packet has at most 65535 bytes.
        assert_eq!(link.mtu, Some(PathMtu { expected: 65535, passed: 65535, by: MtuBy::Datagrams }));
        assert_eq!((link.rate, link.before), (None, None));
    }
    let ends: Vec<_> = links.links.iter().map(|link| (link.from.as_str(), link.rail)).collect();
    assert_eq!(ends, [("one", 0), ("one", 1), ("two", 0), ("two", 1)]);
}

#[tokio::test]
async fn an_address_that_a_node_lacks() {
    // 192.0.2.0/24 is for documentation: no machine has it.
    let links = local([&[[127, 0, 0, 2]], &[[192, 0, 2, 7]]], false).await;
    let [there, back] = &links.links[..] else { panic!("{links:#?}") };
    let Reach::Unknown(why) = &there.reach else { panic!("{there:#?}") };
    assert!(why.contains("two cannot listen on 192.0.2.7"), "{why}");
    assert_eq!(back.reach, Reach::NoAddress);
}

#[tokio::test]
async fn a_node_alone_has_no_links() {
    let host = LocalHost::new("one".parse().unwrap());
    let members = [Member { host: &host, addresses: vec![Ipv4Addr::LOCALHOST] }];
    assert_eq!(probe(&members, measuring(true)).await, Links::default());
}

/// The two Sparks in memory, on their one rail.
async fn fake(cluster: &FakeCluster, measure: bool) -> Links {
    let hosts: Vec<_> = cluster.nodes().iter().map(|node| cluster.host(node)).collect();
    let addresses = [Ipv4Addr::from(SPARK1), Ipv4Addr::from(SPARK2)];
    let members = hosts.iter().zip(addresses);
    let members: Vec<_> = members.map(|(host, address)| Member { host, addresses: vec![address] }).collect();
    probe(&members, measuring(measure)).await
}

const SPARK1: [u8; 4] = [192, 168, 200, 12];
const SPARK2: [u8; 4] = [192, 168, 200, 13];

#[tokio::test]
async fn machines_in_memory_have_links_with_scripted_faults() {
    let cluster = FakeCluster::seed();
    let links = fake(&cluster, false).await;
    assert!(
        links.links.iter().all(|link| link.reach == Reach::Connected && link.rate.is_none()),
        "{links:#?}"
    );
    assert_eq!(links.links[0].mtu, Some(PathMtu { expected: 9000, passed: 9000, by: MtuBy::Datagrams }));

    cluster.link(SPARK1, SPARK2, |link| (link.reach, link.arrives) = (Reach::TimedOut, false));
    cluster.link(SPARK2, SPARK1, |link| {
        link.mtu = Some(1500);
        link.interface = Some("enP7s7".to_owned());
    });
    let links = fake(&cluster, false).await;
    let [there, back] = &links.links[..] else { panic!("{links:#?}") };
    assert_eq!((&there.reach, there.arrives, there.mtu), (&Reach::TimedOut, Some(false), None));
    assert_eq!((&back.reach, back.arrives), (&Reach::Connected, Some(true)));
    assert_eq!(back.mtu, Some(PathMtu { expected: 9000, passed: 1500, by: MtuBy::Datagrams }));
    assert_eq!(back.route.as_ref().unwrap().interface, "enP7s7");

    // Packets that arrive are seen where they arrive, also when no connection comes about.
    cluster.link(SPARK1, SPARK2, |link| link.arrives = true);
    assert_eq!(fake(&cluster, false).await.links[0].arrives, Some(true));
}

#[tokio::test]
async fn what_is_measured_is_remembered_on_the_node_that_gives() {
    let cluster = FakeCluster::seed();
    assert!(fake(&cluster, false).await.links.iter().all(|link| link.before.is_none()));
    assert_eq!(cluster.machine("spark1", |machine| machine.kept.get("fabric.json").cloned()), None);
    for (now, last, best) in [(12, None, None), (3, Some(12), Some(12)), (6, Some(3), Some(12))] {
        cluster.link(SPARK1, SPARK2, |link| link.bytes_per_second = now * 1_000_000_000);
        let links = fake(&cluster, true).await;
        let link = links.link(SPARK1.into(), SPARK2.into()).unwrap();
        let billions = |rate: Rate| rate.bytes_per_second / 1_000_000_000;
        assert_eq!(link.rate.map(billions), Some(now));
        assert_eq!(link.before.map(|before| billions(before.last)), last);
        assert_eq!(link.before.map(|before| billions(before.best)), best);
        assert_eq!(links.links[1].rate.map(billions), Some(12));
    }
    // Without measuring, what is remembered is told and left as it is.
    assert_eq!(fake(&cluster, false).await.links[0].before.unwrap().last.bytes_per_second, 6_000_000_000);
}

#[tokio::test]
async fn figures_of_a_newer_sparkctl_are_left_alone() {
    let cluster = FakeCluster::seed();
    let newer = br#"{"format": 2, "rails": []}"#.to_vec();
    cluster.machine("spark1", |machine| machine.kept.insert("fabric.json".to_owned(), newer.clone()));
    let links = fake(&cluster, true).await;
    assert_eq!(cluster.machine("spark1", |machine| machine.kept.get("fabric.json").cloned()), Some(newer));
    assert!(cluster.machine("spark2", |machine| machine.kept.contains_key("fabric.json")));
    assert_eq!(links.troubles.len(), 1);
    assert!(links.troubles[0].what.contains("a newer sparkctl wrote it"), "{links:#?}");
    assert!(links.links[0].rate.is_some());
}

#[tokio::test]
async fn a_node_that_is_lost_leaves_links_that_are_not_known() {
    for (number, fault) in (1..=8).flat_map(|number| [(number, Fault::Fail), (number, Fault::Disconnect)]) {
        let cluster = FakeCluster::seed();
        cluster.fault_at(number, fault, Moment::Before);
        let links = fake(&cluster, true).await;
        let clean = links.links.iter().all(|link| link.rate.is_some()) && links.troubles.is_empty();
        assert!(!clean, "{number} {fault:?}: a fault that nobody was told of: {links:#?}");
        assert_eq!(links.links.len(), 2);
    }
}
