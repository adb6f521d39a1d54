//! Nodes for tests, written as a line each.

use std::net::Ipv4Addr;

use crate::cluster::facts::{
    Container, ContainerState, Depth, Docker, DockerFacts, FoundModel, Gpu, Image, ImageStore, Interface,
    InterfaceAddress, InterfaceKind, ModelContent, ModelForm, ModelScan, NoDocker, NodeFacts, Nvidia, Peer,
    RdmaDevice, RdmaPort, Route, ShardIndex, System, User,
};

/// `NAME: INTERFACE ADDRESS/LENGTH WORD... | INTERFACE ...`, a node a line; a line that begins with `|` goes on.
/// Words: `roce`, `roce=STATE`, `loopback`, `wifi`, `bridge`, `tunnel`, `virtual`, `bond`, `vlan`, `down`, `default`, `p0`, `200G`,
/// `mtu=`, `pci=`. `-` is no address. Whoever is up in one subnet answers, by the first interface there.
pub fn cluster(text: &str) -> Vec<NodeFacts> {
    let mut facts: Vec<NodeFacts> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let interfaces = if let Some(more) = line.strip_prefix('|') {
            more
        } else {
            let (name, interfaces) = line.split_once(':').unwrap();
            facts.push(bare(name));
            interfaces
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
                node.rdma_devices.push(RdmaDevice {
                    name: device.clone(),
                    pci: None,
                    firmware: None,
                    ports: vec![port],
                });
                interface.rdma.push(device);
            }
            "loopback" => interface.kind = InterfaceKind::Loopback,
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
        kept: crate::delivery::kept::KeptFacts::default(),
        journal: Vec::new(),
        holder: None,
    }
}

/// Two Sparks with one cable: the model complete on the first, a part of it on the second, one image, and a container of
/// somebody else's that serves the model.
pub fn pair() -> Vec<NodeFacts> {
    let mut facts = cluster(
        "spark1: enP7s7 10.1.230.180/24 default 10G | enp1s0f0np0 192.168.200.12/24 roce p0 200G mtu=9000 pci=0000:01:00.0
                 | enP2p1s0f0np0 192.168.201.12/24 roce p0 200G mtu=9000 pci=0002:01:00.0
         spark2: enP7s7 10.1.230.181/24 default 10G | enp1s0f0np0 192.168.200.13/24 roce p0 200G mtu=9000 pci=0000:01:00.0
                 | enP2p1s0f0np0 192.168.201.13/24 roce p0 200G mtu=9000 pci=0002:01:00.0",
    );
    for node in &mut facts {
        node.system = System {
            hostname: node.node.to_string(),
            boot_id: node.node.to_string(),
            os: "Ubuntu 24.04.3 LTS".to_owned(),
            architecture: "aarch64".to_owned(),
            kernel: "6.11.0-1016-nvidia".to_owned(),
            home: "/home/aurora".to_owned(),
            product: Some("NVIDIA_DGX_Spark".to_owned()),
            memory_total: 130_663_642_398,
            memory_available: 120_000_000_000,
            memory_free: Some(40_000_000_000),
            ..System::default()
        };
        let (name, driver) = ("NVIDIA GB10".to_owned(), "580.95.05".to_owned());
        node.gpus = vec![Gpu { name, driver, ..Gpu::default() }];
        node.docker = DockerFacts::Running(Box::new(docker()));
        node.models = Some(ModelScan::default());
    }
    facts[0].images.push(image("hellohal2064/vllm-qwen3.5-gb10:latest", "vllm"));
    add_model(&mut facts[0], found("/home/aurora/models/Qwen3.5-122B-A10B-FP8", 127_132_647_696));
    let part = FoundModel {
        complete: false,
        lacks: vec!["3 of 39 shards are missing".to_owned()],
        ..found("/home/aurora/models/Qwen3.5-122B-A10B-FP8", 117_000_000_000)
    };
    add_model(&mut facts[1], part);
    facts
}

fn docker() -> Docker {
    Docker {
        version: "28.3.3".to_owned(),
        store: ImageStore::Classic,
        root: "/var/lib/docker".to_owned(),
        disk: None,
        api: None,
        storage_driver: None,
        cgroup_driver: None,
        cgroup_version: None,
        runtimes: None,
        default_runtime: None,
        cdi_folders: None,
        cdi_devices: None,
        rootless: None,
        live_restore: None,
    }
}

/// An image of this name, which begins with this command.
pub fn image(reference: &str, command: &str) -> Image {
    Image {
        id: format!("sha256:{reference}"),
        references: vec![reference.to_owned()],
        content: crate::container::ImageContent(reference.to_owned()),
        architecture: "arm64".to_owned(),
        size: 18_400_000_000,
        layers: Vec::new(),
        entrypoint: vec![command.to_owned()],
        command: Vec::new(),
        env: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
        created: None,
        software: None,
    }
}

/// A complete model in a plain folder.
pub fn found(path: &str, bytes: u64) -> FoundModel {
    FoundModel {
        path: path.to_owned(),
        form: ModelForm::Plain,
        repo: None,
        revision: None,
        complete: true,
        lacks: Vec::new(),
        bytes,
        architecture: None,
        quantization: None,
        uid: 1000,
        readable: true,
        writable: true,
    }
}

/// Puts a model on a node.
pub fn add_model(node: &mut NodeFacts, model: FoundModel) {
    node.models.get_or_insert_default().models.push(model);
}

/// A container of somebody else's that runs and serves.
pub fn serving(name: &str, image: &str, argv: &[&str]) -> Container {
    Container {
        id: format!("id-of-{name}"),
        name: name.to_owned(),
        image: image.to_owned(),
        state: ContainerState { status: "running".to_owned(), running: true, ..ContainerState::default() },
        restart: "unless-stopped".to_owned(),
        gpus: true,
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        ..Container::default()
    }
}

/// The configuration of a model of the field, and the bytes of its weights.
pub fn content(model: &str, bytes: u64) -> ModelContent {
    let path = format!("{}/tests/data/models/{model}/config.json", env!("CARGO_MANIFEST_DIR"));
    ModelContent {
        config: Some(std::fs::read_to_string(path).unwrap()),
        index: Some(ShardIndex { total_size: Some(bytes), shards: Vec::new(), tensors: 0 }),
        ..ModelContent::default()
    }
}
