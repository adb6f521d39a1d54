use super::*;
use crate::cluster::samples::sample;

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// A clock that is asked at 40 s of the operator's, and whose answer is there at 41 s; by its own clock it took
/// from `begun` to `ended`.
fn clock(begun: &str, ended: &str) -> Clock {
    let at = |seconds: &str| format!("2026-01-01T00:01:{seconds}Z").parse().unwrap();
    Clock { asked: at("40"), begun: at(begun), ended: at(ended), answered: at("41") }
}

#[test]
fn clocks_are_compared_with_the_round_trip_in_mind() {
    let check = |one: Clock, wanted: (i128, i128)| {
        let (least, most) = one.ahead();
        assert_eq!((least.as_millis(), most.as_millis()), wanted);
    };
    // It may be right, or off by what the way there and back took.
    check(clock("40.1", "40.8"), (-200, 100));
    check(clock("45.1", "45.8"), (4800, 5100));
    check(clock("35.1", "35.8"), (-5200, -4900));
    // Taken together, two answers are as far apart as both ways allow.
    let (least, most) = clock("45.1", "45.8").ahead_of(&clock("40.1", "40.8"));
    assert_eq!((least.as_millis(), most.as_millis()), (4700, 5300));
}

#[test]
fn default_routes_come_in_the_order_of_preference() {
    let mut facts = sample("spark-pair").remove(0);
    assert_eq!(facts.default_routes().len(), 1);
    let wifi = Route {
        destination: "default".to_owned(),
        interface: "wlP9s9".to_owned(),
        gateway: None,
        source: None,
        metric: 20,
    };
    facts.routes.as_mut().unwrap().push(wifi);
    let names: Vec<_> = facts.default_routes().iter().map(|route| route.interface.as_str()).collect();
    assert_eq!(names, ["wlP9s9", "enP7s7"]);
    facts.routes = None;
    assert_eq!(facts.default_routes().len(), 0);
}

#[test]
fn addresses_of_one_network() {
    let check = |address: &str, prefix, other: &str, wanted| {
        let own = InterfaceAddress { address: ip(address), prefix };
        assert_eq!(own.contains(ip(other)), wanted, "{address}/{prefix}");
    };
    check("192.168.200.12", 24, "192.168.200.13", true);
    check("192.168.200.12", 24, "192.168.201.13", false);
    check("10.0.0.1", 30, "10.0.0.2", true);
    check("10.0.0.1", 30, "10.0.0.4", false);
    check("10.0.0.1", 32, "10.0.0.2", false);
    check("10.0.0.1", 0, "192.168.0.1", true);
    check("10.0.0.1", 77, "10.0.0.1", true);
}

#[test]
fn the_recorded_clusters_are_what_they_are_called() {
    let pair = sample("spark-pair");
    assert_eq!(pair.iter().flat_map(NodeFacts::lost_peers).count(), 0);
    for (facts, address) in pair.iter().zip(["192.168.200.12", "192.168.200.13"]) {
        let interface = facts.interface_of(ip(address)).unwrap();
        let device = facts.rdma_device(&interface.rdma[0]).unwrap();
        assert!(device.ports[0].is_active());
        assert_eq!(device.ports[0].roce_v2_index(ip(address)), Some(3));
        assert_eq!(facts.engine().unwrap().default_runtime.as_deref(), Some("runc"));
        assert_eq!(facts.gaps, []);
    }
    let content = pair[0].model.as_ref().unwrap().content.as_ref().unwrap();
    assert!(content.safetensors.iter().all(Safetensors::is_whole) && content.missing_shards().is_empty());
    let total = content.index.as_ref().unwrap().total_size.unwrap();
    assert_eq!(content.bytes_by_type().values().sum::<u64>(), total);
    assert_eq!(content.bytes_by_part().values().sum::<u64>(), total);
    // In a ring, each node has cables to two others, and two of these four addresses are at ends that it does not see.
    for facts in sample("spark-ring") {
        assert_eq!(facts.lost_peers().count(), 2);
        assert_eq!(facts.rdma_devices.iter().filter(|device| device.ports[0].is_active()).count(), 4);
    }
    assert_eq!(sample("spark-switch").iter().flat_map(NodeFacts::lost_peers).count(), 0);
    assert_eq!(sample("x86-discrete")[0].gpus[1].memory_total, Some(49_140 << 20));
}
