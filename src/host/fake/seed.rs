//! The cluster that the project began with: two Sparks, the weights and the image on the head only.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::cluster::FakeCluster;
use super::machine::{Machine, content};
use crate::cluster::facts::{
    Disk, Docker, Gpu, ImageStore, Interface, InterfaceAddress, Listener, ModelFile, ModelFolder, System,
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

/// The DGX Spark of this number; nothing lies on it.
fn spark(number: u8) -> Machine {
    let interface = |name: &str, address: Option<[u8; 4]>, mtu, up, rdma: &[&str]| Interface {
        name: name.to_owned(),
        addresses: address
            .map(|address| InterfaceAddress { address: Ipv4Addr::from(address), prefix: 24 })
            .into_iter()
            .collect(),
        mtu,
        up,
        rdma: rdma.iter().map(|device| (*device).to_owned()).collect(),
        ..Interface::default()
    };
    let hostname = format!("spark{number}");
    let used = Disk { total: 3_936_000_000_000, free: 3_200_000_000_000 };
    Machine {
        system: System {
            os: "Ubuntu 24.04.3 LTS".to_owned(),
            architecture: "aarch64".to_owned(),
            kernel: "6.11.0-1016-nvidia".to_owned(),
            boot_id: format!("5f0c1a52-9d3e-4a7e-8a53-00000000000{number}"),
            home: "/home/aurora".to_owned(),
            memory_total: 128_524_288_000,
            memory_available: 121_000_001_536,
            hostname,
            ..System::default()
        },
        interfaces: vec![
            interface("lo", Some([127, 0, 0, 1]), 65536, true, &[]),
            interface("enP7s7", Some([10, 1, 230, 179 + number]), 1500, true, &[]),
            // The one cable carries both halves of the port; only the first has an address.
            interface("enp1s0f0np0", Some([192, 168, 200, 11 + number]), 9000, true, &["rocep1s0f0"]),
            interface("enp1s0f1np1", None, 1500, false, &["rocep1s0f1"]),
            interface("enP2p1s0f0np0", None, 1500, true, &["roceP2p1s0f0"]),
            interface("enP2p1s0f1np1", None, 1500, false, &["roceP2p1s0f1"]),
        ],
        gpus: vec![Gpu {
            name: "NVIDIA GB10".to_owned(),
            driver: "580.95.05".to_owned(),
            memory_total: None,
            memory_used: None,
            utilisation: Some(0),
            temperature: Some(41),
            ..Gpu::default()
        }],
        infiniband: true,
        listeners: vec![Listener { port: 22, address: "0.0.0.0".to_owned(), ..Listener::default() }],
        folders: BTreeMap::new(),
        lost_peers: Vec::new(),
        model_disk: used,
        tools: [("rsync", "3.2.7"), ("python3", "3.12.3")]
            .map(|(tool, version)| (tool.to_owned(), version.to_owned()))
            .into(),
        docker: Docker {
            version: "28.3.3".to_owned(),
            store: ImageStore::Classic,
            root: "/var/lib/docker".to_owned(),
            disk: Some(used),
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
        },
        images: Vec::new(),
        containers: BTreeMap::new(),
        releases: BTreeMap::new(),
        kept: BTreeMap::new(),
    }
}

/// 119 GB in 39 files.
fn model() -> ModelFolder {
    let file = |path: String, size| ModelFile { path, size, mtime: 1_771_000_000 };
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
