//! The cluster that the project began with: two Sparks, the weights and the image on the head only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jiff::SignedDuration;

use super::cluster::FakeCluster;
use super::machine::{Machine, content};
use crate::cluster::facts::{
    ContainerToolkit, Cpu, Disk, Docker, Gid, GidKind, Gpu, ImageStore, Interface, InterfaceAddress,
    InterfaceKind, Limit, Listener, ModelFile, ModelFolder, Nvidia, RdmaDevice, RdmaPort, Route, Smi,
    Software, Sshd, System, User,
};
use crate::container::ImageContent;

/// The image's name.
pub const SEED_IMAGE: &str = "hellohal2064/vllm-qwen3.5-gb10:latest";
/// The model's folder.
pub const SEED_MODEL: &str = "/home/aurora/models/Qwen3.5-122B-A10B-FP8";

/// The image's content.
pub fn seed_content() -> ImageContent {
    content("vllm-qwen3.5-gb10")
}

impl FakeCluster {
    /// The cluster of `profiles/qwen35-122b.yaml`, before its first deploy.
    pub fn seed() -> Self {
        let mut head = spark(1);
        head.folders.insert(SEED_MODEL.to_owned(), model());
        head.model_disk.free -= 119_000_000_000;
        head.put_image(&seed_content(), SEED_IMAGE, "arm64", 18_400_000_000);
        let node = |name: &str| name.parse().expect("a node's name");
        Self::new([(node("spark1"), head), (node("spark2"), spark(2))])
    }
}

/// What the image has in it.
fn software() -> Software {
    let packages = [("vllm", "0.20.2"), ("ray", "2.52.1"), ("torch", "2.11.0"), ("transformers", "5.4.0")];
    let packages = packages.map(|(name, version)| (name.to_owned(), version.to_owned()));
    Software { python: "3.12.3".to_owned(), packages: packages.into() }
}

/// The DGX Spark of this number; nothing lies on it.
fn spark(number: u8) -> Machine {
    let used = Disk { total: 3_936_000_000_000, free: 3_200_000_000_000 };
    let interfaces = interfaces(number);
    Machine {
        system: system(number),
        software: [(seed_content().0, software())].into(),
        clock_ahead: SignedDuration::ZERO,
        user: User {
            name: Some("aurora".to_owned()),
            uid: Some(1000),
            groups: Some(["aurora", "sudo", "docker"].map(str::to_owned).into()),
            sudo: Some(false),
            shell: Some("/bin/bash".to_owned()),
            greeting: None,
            lingering: Some(false),
            memlock: Some(Limit::Bytes(16_066_838_528)),
        },
        routes: Some(routes(number)),
        rdma_devices: interfaces.iter().filter_map(rdma_device).collect(),
        interfaces,
        gpus: vec![Gpu {
            name: "NVIDIA GB10".to_owned(),
            driver: "580.95.05".to_owned(),
            utilisation: Some(0),
            temperature: Some(41),
            power: Some(4.2),
            clock: Some(208),
            clock_max: Some(3003),
            throttled: Some(Vec::new()),
            persistence: Some(true),
            pci: Some("0000000F:01:00.0".to_owned()),
            vbios: Some("9A.0B.2A.00.05".to_owned()),
            ..Gpu::default()
        }],
        nvidia: Nvidia {
            smi: Smi::Working,
            module: Some("580.95.05".to_owned()),
            library: Some("580.95".to_owned()),
            cuda: Some("13.0".to_owned()),
            processes: Some(Vec::new()),
            ..Nvidia::default()
        },
        infiniband: true,
        listeners: vec![Listener { port: 22, address: "0.0.0.0".to_owned(), ..Listener::default() }],
        processes: Some(Vec::new()),
        folders: BTreeMap::new(),
        lost_peers: Vec::new(),
        model_disk: used,
        models: None,
        tools: [("rsync", "3.2.7"), ("python3", "3.12.3")]
            .map(|(tool, version)| (tool.to_owned(), version.to_owned()))
            .into(),
        docker: docker(used),
        no_docker: None,
        toolkit: Some(ContainerToolkit {
            version: Some("1.18.0".to_owned()),
            mode: Some("auto".to_owned()),
            cdi_files: Vec::new(),
        }),
        sshd: Some(Sshd::default()),
        images: Vec::new(),
        containers: BTreeMap::new(),
        releases: BTreeMap::new(),
        journals: BTreeMap::new(),
        kept: BTreeMap::new(),
        volumes: BTreeSet::new(),
    }
}

fn system(number: u8) -> System {
    System {
        hostname: format!("spark{number}"),
        os: "Ubuntu 24.04.3 LTS".to_owned(),
        architecture: "aarch64".to_owned(),
        kernel: "6.11.0-1016-nvidia".to_owned(),
        boot_id: format!("5f0c1a52-9d3e-4a7e-8a53-00000000000{number}"),
        home: "/home/aurora".to_owned(),
        memory_total: 128_524_288_000,
        memory_available: 121_000_001_536,
        memory_free: Some(118_000_001_024),
        memory_cached: Some(3_400_001_536),
        swap_total: Some(17_179_865_088),
        swap_free: Some(17_179_865_088),
        firmware: Some("5.36_0ACUM018".to_owned()),
        vendor: Some("NVIDIA".to_owned()),
        product: Some("NVIDIA_DGX_Spark".to_owned()),
        cpu: Some(Cpu { models: ["Cortex-X925", "Cortex-A725"].map(str::to_owned).into(), cores: 20 }),
        uptime_seconds: Some(86_400),
        systemd: Some(true),
        earlyoom: Some(false),
        timezone: Some("Etc/UTC".to_owned()),
        clock_synchronised: Some(true),
        reboot_required: Some(false),
        ..System::default()
    }
}

/// Both halves of the one cable are up, and only the first has an address; the other cage is empty.
fn interfaces(number: u8) -> Vec<Interface> {
    let interface = |name: &str, kind, address: Option<[u8; 4]>, mtu, speed: Option<u32>| Interface {
        name: name.to_owned(),
        addresses: address
            .map(|address| InterfaceAddress {
                address: Ipv4Addr::from(address),
                prefix: if address[0] == 127 { 8 } else { 24 },
            })
            .into_iter()
            .collect(),
        mtu,
        up: speed.is_some() || kind == InterfaceKind::Loopback,
        enabled: true,
        kind,
        speed,
        ..Interface::default()
    };
    let half = |name: &str, address, mtu, speed, card: &str, port: u8| Interface {
        rdma: vec![format!("roce{card}s0f{port}")],
        driver: Some("mlx5_core".to_owned()),
        phys_port_name: Some(format!("p{port}")),
        pci: Some(format!("000{}:01:00.{port}", if card == "p1" { 0 } else { 2 })),
        ..interface(name, InterfaceKind::Ethernet, address, mtu, speed)
    };
    let office =
        interface("enP7s7", InterfaceKind::Ethernet, Some([10, 1, 230, 179 + number]), 1500, Some(1000));
    vec![
        interface("lo", InterfaceKind::Loopback, Some([127, 0, 0, 1]), 65536, None),
        Interface { driver: Some("r8127".to_owned()), ..office },
        half("enp1s0f0np0", Some([192, 168, 200, 11 + number]), 9000, Some(200_000), "p1", 0),
        half("enp1s0f1np1", None, 1500, None, "p1", 1),
        half("enP2p1s0f0np0", None, 1500, Some(200_000), "P2p1", 0),
        half("enP2p1s0f1np1", None, 1500, None, "P2p1", 1),
    ]
}

/// The device of one half of a cable's end. The GID table begins with what the card makes of its own
/// address on the link, and goes on with the IPv4 address.
fn rdma_device(interface: &Interface) -> Option<RdmaDevice> {
    let own: std::net::Ipv6Addr = "fe80::3e6d:66ff:fe01:2".parse().ok()?;
    let addresses = interface.addresses.iter().map(|a| a.address.to_ipv6_mapped());
    let kinds = [GidKind::IbOrRoceV1, GidKind::RoceV2];
    let entries = std::iter::once(own).chain(addresses).flat_map(|gid| kinds.map(|kind| (gid, kind)));
    let gid =
        |(index, (gid, kind))| Gid { index, gid, kind: Some(kind), interface: Some(interface.name.clone()) };
    let word = |up: &str, down: &str| Some(if interface.up { up } else { down }.to_owned());
    Some(RdmaDevice {
        name: interface.rdma.first()?.clone(),
        pci: interface.pci.clone(),
        firmware: Some("28.45.4028".to_owned()),
        ports: vec![RdmaPort {
            port: 1,
            state: word("ACTIVE", "DOWN"),
            physical: word("LinkUp", "Disabled"),
            rate: Some(if interface.up { 200 } else { 40 }),
            link_layer: Some("Ethernet".to_owned()),
            gids: (0..).zip(entries).map(gid).collect(),
        }],
    })
}

fn routes(number: u8) -> Vec<Route> {
    let route = |destination: &str, interface: &str, gateway, source: [u8; 4], metric| Route {
        destination: destination.to_owned(),
        interface: interface.to_owned(),
        gateway,
        source: Some(source.into()),
        metric,
    };
    let office = [10, 1, 230, 179 + number];
    vec![
        route("default", "enP7s7", Some(Ipv4Addr::new(10, 1, 230, 1)), office, 100),
        route("10.1.230.0/24", "enP7s7", None, office, 100),
        route("192.168.200.0/24", "enp1s0f0np0", None, [192, 168, 200, 11 + number], 0),
    ]
}

fn docker(disk: Disk) -> Docker {
    Docker {
        version: "28.3.3".to_owned(),
        store: ImageStore::Classic,
        root: "/var/lib/docker".to_owned(),
        disk: Some(disk),
        api: Some("1.51".to_owned()),
        storage_driver: Some("overlay2".to_owned()),
        cgroup_driver: Some("systemd".to_owned()),
        cgroup_version: Some("2".to_owned()),
        runtimes: Some(vec!["nvidia".to_owned(), "runc".to_owned()]),
        default_runtime: Some("runc".to_owned()),
        cdi_folders: Some(vec!["/etc/cdi".to_owned(), "/var/run/cdi".to_owned()]),
        cdi_devices: Some(Vec::new()),
        rootless: Some(false),
        live_restore: Some(false),
    }
}

/// 119 GB in 39 files.
fn model() -> ModelFolder {
    let file = |path: String, size| ModelFile { path, size, mtime: 1_771_000_000, sha256: None };
    let mut files: Vec<_> =
        (1..=32).map(|shard| file(format!("model-{shard:05}-of-00032.safetensors"), 3_718_000_000)).collect();
    let small = [
        ("config.json", 3_100),
        ("generation_config.json", 243),
        ("chat_template.jinja", 7_756),
        ("merges.txt", 3_350_000),
        ("model.safetensors.index.json", 7_600_000),
        ("tokenizer.json", 12_800_000),
        ("tokenizer_config.json", 17_000),
    ];
    files.extend(small.map(|(name, size)| file(name.to_owned(), size)));
    files.sort();
    ModelFolder { files, ..ModelFolder::default() }
}
