//! Facts: what was seen on a node at one moment. Plain data, always possibly stale, never intent.
//! Pure: `gather` fills it, `parse` reads command output into it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::container::ImageContent;
use crate::delivery::kept::KeptFacts;
use crate::profile::{DeploymentName, NodeName};
use crate::release::{Release, ReleaseNumber};

/// All that was seen on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// The node, as the profile calls it.
    pub node: NodeName,
    /// Operating system, processor, kernel, memory.
    pub system: System,
    /// Network interfaces with IPv4 addresses.
    pub interfaces: Vec<Interface>,
    /// NVIDIA GPUs; empty where there are none or `nvidia-smi` is absent.
    pub gpus: Vec<Gpu>,
    /// Whether `/dev/infiniband` exists.
    pub infiniband: bool,
    /// TCP ports in state LISTEN.
    pub listeners: Vec<Listener>,
    /// Addresses of the fabric that do not answer from this node.
    pub lost_peers: Vec<Ipv4Addr>,
    /// The model's folder; `None` where it does not exist.
    pub model: Option<ModelFolder>,
    /// Free and total bytes of the file system that holds the model's folder, or would.
    pub model_disk: Option<Disk>,
    /// Tools that sparkctl runs on nodes and their versions: `rsync`, `python3`; absent ones are missing.
    pub tools: BTreeMap<String, String>,
    /// The Docker Engine.
    pub docker: Docker,
    /// All images of the engine.
    pub images: Vec<Image>,
    /// All containers of the engine, running or not.
    pub containers: Vec<Container>,
    /// Records of this deployment's releases that lie on the node, oldest first.
    pub releases: Vec<Release>,
    /// Records that could not be read (file name and why): told, never rewritten.
    pub unreadable_releases: Vec<String>,
    /// The highest release number seen on the node, readable or not.
    pub highest_release: Option<ReleaseNumber>,
    /// Placed files and secrets of this deployment that lie on the node.
    #[serde(default)]
    pub kept: KeptFacts,
}

impl NodeFacts {
    /// The interface that has `address`.
    pub fn interface_of(&self, address: Ipv4Addr) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.addresses.iter().any(|a| a.address == address))
    }

    /// The containers that sparkctl made for `deployment`.
    pub fn ours<'a>(
        &'a self,
        deployment: &'a DeploymentName,
    ) -> impl Iterator<Item = (&'a Container, &'a Ours)> {
        self.containers.iter().filter_map(move |container| {
            container
                .ours
                .as_ref()
                .filter(|ours| &ours.deployment == deployment)
                .map(|ours| (container, ours))
        })
    }

    /// An image by its content.
    pub fn image(&self, content: &ImageContent) -> Option<&Image> {
        self.images.iter().find(|image| &image.content == content)
    }

    /// An image by name and tag, as written or with `docker.io/` in front.
    pub fn image_named(&self, reference: &str) -> Option<&Image> {
        let same = |name: &String| {
            let plain = |text: &str| {
                let text = text.strip_prefix("docker.io/").unwrap_or(text);
                text.strip_prefix("library/").unwrap_or(text).to_owned()
            };
            plain(name) == plain(reference)
        };
        self.images.iter().find(|image| image.references.iter().any(same))
    }
}

/// Operating system, processor, kernel, memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// Host name.
    pub hostname: String,
    /// `PRETTY_NAME` of os-release.
    pub os: String,
    /// As `uname -m` says: `x86_64`, `aarch64`.
    pub architecture: String,
    /// As `uname -r` says.
    pub kernel: String,
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// Home folder of the user that sparkctl logs in as.
    pub home: String,
    /// Bytes of memory: `MemTotal`.
    pub memory_total: u64,
    /// Bytes of memory: `MemAvailable`.
    pub memory_available: u64,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The kernel's name, e.g. `enp1s0f0np0`.
    pub name: String,
    /// Its IPv4 addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Bytes.
    pub mtu: u32,
    /// Whether it is up and has a carrier.
    pub up: bool,
    /// RoCE or InfiniBand devices on it, e.g. `rocep1s0f0`.
    pub rdma: Vec<String>,
}

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    pub address: Ipv4Addr,
    pub prefix: u8,
}

/// A GPU as `nvidia-smi` reports it. On unified memory (GB10) the memory figures are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    pub name: String,
    /// Driver version.
    pub driver: String,
    /// Bytes.
    pub memory_total: Option<u64>,
    /// Bytes.
    pub memory_used: Option<u64>,
    /// Percent.
    pub utilisation: Option<u8>,
    /// Degrees Celsius.
    pub temperature: Option<u8>,
}

/// A TCP port that something listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    pub port: u16,
    /// The local address as `ss` prints it: `0.0.0.0`, `[::]`, `192.168.200.11`.
    pub address: String,
    /// The process, where the kernel lets this user see it.
    pub process: Option<String>,
}

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    pub total: u64,
    /// What an ordinary user can still write.
    pub free: u64,
}

/// The model's folder: every regular file below it that is not hidden, links followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFolder {
    pub files: Vec<ModelFile>,
    /// Links that lead nowhere, by their path in the folder.
    pub dangling: Vec<String>,
    /// Links that lead to files outside the folder, by their whole path.
    pub outside: Vec<String>,
    /// Bytes that a cut transfer left in the folder, and that the next one goes on with.
    pub partial: u64,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModelFile {
    /// Path below the model's folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970, as the file system keeps it.
    pub mtime: i64,
}

/// The Docker Engine of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Docker {
    /// Engine version, e.g. `26.1.5`.
    pub version: String,
    /// How it keeps images.
    pub store: ImageStore,
    /// Its data root.
    pub root: String,
    /// Free and total bytes there, where the user may ask.
    pub disk: Option<Disk>,
}

/// How an engine keeps images; identities differ between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageStore {
    Classic,
    Containerd,
}

/// An image of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The engine's own ID: comparable on one node only.
    pub id: String,
    /// Names with tags.
    pub references: Vec<String>,
    /// Comparable everywhere.
    pub content: ImageContent,
    /// As Docker calls it: `amd64`, `arm64`.
    pub architecture: String,
    /// Bytes, as the engine reports them: not comparable between stores.
    pub size: u64,
}

/// A container of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Container {
    pub id: String,
    pub name: String,
    /// The image as it was named at creation.
    pub image: String,
    /// What it is doing.
    pub state: ContainerState,
    /// `no`, `always`, `unless-stopped` or `on-failure`.
    pub restart: String,
    /// How often Docker restarted it.
    pub restarts: u32,
    /// Whether it asked for GPUs (device request, or the nvidia runtime).
    pub gpus: bool,
    /// TCP ports published on the node.
    pub published: Vec<u16>,
    /// Set where sparkctl made it.
    pub ours: Option<Ours>,
}

/// What a container is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerState {
    /// Docker's word: `created`, `running`, `paused`, `restarting`, `exited`, `dead`.
    pub status: String,
    pub running: bool,
    /// Of the last end; meaningless while it runs.
    pub exit_code: i64,
    pub oom_killed: bool,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    /// Docker's own message about a failed start.
    pub error: String,
}

/// What the labels of one of our containers say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    pub deployment: DeploymentName,
    pub release: ReleaseNumber,
    pub rank: u32,
    /// Digest of the specification it was made from.
    pub spec: String,
}
