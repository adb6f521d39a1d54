//! Two Sparks with a healthy fabric, for tests.

use std::net::Ipv4Addr;

use crate::cluster::facts::{Gid, GidKind, InterfaceAddress, NodeFacts};
use crate::cluster::gather::{Request, gather};
use crate::fabric::links::{Link, Links, MtuBy, PathMtu, Rate, Reach, Way};
use crate::host::FakeCluster;

/// Addresses on the first and on the second rail.
pub(in crate::fabric) const RAILS: [[Ipv4Addr; 2]; 2] = [
    [Ipv4Addr::new(192, 168, 200, 12), Ipv4Addr::new(192, 168, 200, 13)],
    [Ipv4Addr::new(192, 168, 201, 12), Ipv4Addr::new(192, 168, 201, 13)],
];
/// The halves of the port that has the cable.
pub(in crate::fabric) const HALVES: [&str; 2] = ["enp1s0f0np0", "enP2p1s0f0np0"];

/// What is known of them: those in memory, and the second half of the port has an address as well.
pub(in crate::fabric) fn facts() -> Vec<NodeFacts> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let cluster = FakeCluster::seed();
    for (node, address) in cluster.nodes().iter().zip(RAILS[1]) {
        cluster.machine(node.as_str(), |machine| {
            let half = machine.interfaces.iter_mut().find(|interface| interface.name == HALVES[1]).unwrap();
            half.addresses = vec![InterfaceAddress { address, prefix: 24 }];
            half.mtu = 9000;
            let device = machine.rdma_devices.iter_mut().find(|device| device.name == half.rdma[0]).unwrap();
            let gid =
                |index, kind| Gid { index, gid: address.to_ipv6_mapped(), kind: Some(kind), interface: None };
            device.ports[0].gids.extend([gid(2, GidKind::IbOrRoceV1), gid(3, GidKind::RoceV2)]);
        });
    }
    let look = |node| runtime.block_on(gather(&cluster.host(&node), &Request::machine())).unwrap();
    cluster.nodes().into_iter().map(look).collect()
}

/// What was probed of them, in the order of `probe`: there on both rails, then back.
pub(in crate::fabric) fn links() -> Links {
    let link = |from: usize, rail: usize| Link {
        from: format!("spark{}", from + 1).parse().unwrap(),
        to: format!("spark{}", 2 - from).parse().unwrap(),
        rail,
        from_address: RAILS[rail][from],
        to_address: RAILS[rail][1 - from],
        route: Some(Way {
            interface: HALVES[rail].to_owned(),
            source: Some(RAILS[rail][from]),
            gateway: None,
        }),
        reach: Reach::Connected,
        arrives: Some(true),
        mtu: Some(PathMtu { expected: 9000, passed: 9000, by: MtuBy::Datagrams }),
        rate: Some(rate(96.0)),
        rate_failed: None,
        before: None,
    };
    Links { links: vec![link(0, 0), link(0, 1), link(1, 0), link(1, 1)], troubles: Vec::new() }
}

/// A transfer of so many Gb/s.
pub(in crate::fabric) fn rate(gigabits: f64) -> Rate {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
    let bytes_per_second = (gigabits * 125e6) as u64;
    Rate { bytes_per_second, seconds: 1.7, streams: 4, at: "2026-03-01T09:00:00Z".parse().unwrap() }
}
