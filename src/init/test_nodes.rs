//! Nodes for tests, written as a line each.

use std::net::Ipv4Addr;

use crate::cluster::facts::{
    Depth, DockerFacts, Interface, InterfaceAddress, InterfaceKind, NoDocker, NodeFacts, Nvidia, Peer,
    RdmaDevice, RdmaPort, Route, System, User,
};

/// `NAME: INTERFACE ADDRESS/LENGTH WORD... | INTERFACE ...`, a node a line; a line that begins with `|` goes on.
/// Words: `roce`, `roce=STATE`, `wifi`, `bridge`, `tunnel`, `virtual`, `bond`, `vlan`, `down`, `default`, `p0`, `200G`,
/// `mtu=`, `pci=`. `-` is no address. Whoever is up in one subnet answers, by the first interface there.
pub fn cluster(text: &str) -> Vec<NodeFacts> {
    let mut facts: Vec<NodeFacts> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let interfaces = match line.strip_prefix('|') {
            Some(more) => more,
            None => {
                let (name, interfaces) = line.split_once(':').unwrap();
                facts.push(bare(name));
                interfaces
            }
        };
        for written in interfaces.split('|') {
            add(facts.last_mut().unwrap(), written);
        }
    }
    let all = facts.clone();
    for node in &mut facts {
        node.peers = all.iter().flat_map(|other| peers(node, other)).collect();
    }
    facts
}

/// An address does not answer from a node.
pub fn silent(facts: &mut [NodeFacts], node: &str, address: &str) {
    let address: Ipv4Addr = address.parse().unwrap();
    let node = facts.iter_mut().find(|facts| facts.node.as_str() == node).unwrap();
    node.peers.iter_mut().find(|peer| peer.address == address).unwrap().answers = false;
}

fn peers(from: &NodeFacts, to: &NodeFacts) -> Vec<Peer> {
    let near = |address: &InterfaceAddress| {
        from.interfaces.iter().find(|i| {
            i.addresses.iter().any(|own| own.contains(address.address) && own.prefix == address.prefix)
        })
    };
    let peer = |interface: &Interface, address: &InterfaceAddress| {
        let near = near(address);
        Peer {
            address: address.address,
            answers: interface.up && near.is_some_and(|near| near.up),
            interface: near.map(|near| near.name.clone()),
            source: None,
            gateway: None,
            round_trip_us: None,
            whole_packets: None,
        }
    };
    to.interfaces.iter().flat_map(|i| i.addresses.iter().map(move |a| peer(i, a))).collect()
}

fn add(node: &mut NodeFacts, written: &str) {
    let mut words = written.split_whitespace();
    let mut interface = Interface {
        name: words.next().unwrap().to_owned(),
        up: true,
        enabled: true,
        mtu: 1500,
        kind: InterfaceKind::Ethernet,
        ..Interface::default()
    };
    if let Some((address, prefix)) = words.next().and_then(|address| address.split_once('/')) {
        let (address, prefix) = (address.parse().unwrap(), prefix.parse().unwrap());
        interface.addresses.push(InterfaceAddress { address, prefix });
    }
    for word in words {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "roce" => {
                let device = format!("rdma-{}", interface.name);
                let state = Some(if value.is_empty() { "ACTIVE" } else { value }.to_owned());
                let port = RdmaPort {
                    port: 1,
                    state,
                    physical: None,
                    rate: None,
                    link_layer: None,
                    gids: Vec::new(),
                };
                node.rdma_devices.push(RdmaDevice { name: device.clone(), pci: None, ports: vec![port] });
                interface.rdma.push(device);
            }
            "wifi" => interface.kind = InterfaceKind::Wireless,
            "bridge" => interface.kind = InterfaceKind::Bridge,
            "tunnel" => interface.kind = InterfaceKind::Tunnel,
            "virtual" => interface.kind = InterfaceKind::Virtual,
            "bond" => interface.kind = InterfaceKind::Bond,
            "vlan" => interface.kind = InterfaceKind::Vlan,
            "down" => interface.up = false,
            "mtu" => interface.mtu = value.parse().unwrap(),
            "pci" => interface.pci = Some(value.to_owned()),
            "default" => node.routes.as_mut().unwrap().push(Route {
                destination: "default".to_owned(),
                interface: interface.name.clone(),
                gateway: None,
                source: None,
                metric: 100,
            }),
            word => match word.strip_suffix('G') {
                Some(speed) => interface.speed = Some(speed.parse::<u32>().unwrap() * 1000),
                None => interface.phys_port_name = Some(word.to_owned()),
            },
        }
    }
    node.interfaces.push(interface);
}

/// A node of which only the name is known.
pub fn bare(name: &str) -> NodeFacts {
    NodeFacts {
        node: name.parse().unwrap(),
        depth: Depth::Check,
        took_ms: 0,
        gaps: Vec::new(),
        system: System { hostname: name.to_owned(), boot_id: name.to_owned(), ..System::default() },
        clock: None,
        user: User::default(),
        interfaces: Vec::new(),
        routes: Some(Vec::new()),
        peers: Vec::new(),
        rdma_devices: Vec::new(),
        gpus: Vec::new(),
        nvidia: Nvidia::default(),
        infiniband: true,
        listeners: Vec::new(),
        processes: None,
        model: None,
        model_disk: None,
        models: None,
        tools: std::collections::BTreeMap::new(),
        docker: DockerFacts::Unusable(NoDocker::Absent),
        toolkit: None,
        images: Vec::new(),
        containers: Vec::new(),
        sshd: None,
        releases: Vec::new(),
        unreadable_releases: Vec::new(),
        highest_release: None,
    }
}
