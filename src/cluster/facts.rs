//! Facts: what was seen on a node at one moment. Plain data, always possibly stale, never intent.
//! Pure: `gather` fills it, `parse` reads command output into it.
//!
//! What could not be had is `None` (or [`Docker::Unusable`], [`Smi::Absent`], ...), and [`NodeFacts::gaps`]
//! says why; an empty list means that there is none. What was not asked is absent, too:
//! [`NodeFacts::depth`] says how much was asked.

mod docker;
mod gpu;
mod machine;
mod model;
mod network;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::container::ImageContent;
use crate::delivery::kept::KeptFacts;
use crate::profile::{DeploymentName, NodeName};
use crate::release::journal::{Entry, Holder};
use crate::release::{Release, ReleaseNumber};

pub use docker::{
    Container, ContainerState, ContainerToolkit, DOCKER_SOCKET, Docker, DockerFacts, Image, ImageStore,
    Layer, NoDocker, Ours, Software,
};
pub use gpu::{Gpu, GpuProcess, Nvidia, Smi};
pub use machine::{Clock, Cpu, Limit, Process, Sshd, System, User};
pub use model::{
    Disk, ForeignFile, FoundModel, ModelContent, ModelFile, ModelFolder, ModelForm, ModelOrigin, ModelScan,
    Safetensors, ShardIndex,
};
pub use network::{
    Gid, GidKind, Interface, InterfaceAddress, InterfaceKind, Listener, Peer, RdmaDevice, RdmaPort, Route,
};

/// How much is asked of a node; each asks all that the one before it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// What changes by the minute: memory, addresses, GPUs, containers, releases. Asked often.
    Status,
    /// And what a plan needs: images, the model's folder and its contents, disks, ports, tools.
    Plan,
    /// And what else can be wrong with a machine: user, clock, routes, RDMA ports, driver, sshd.
    Check,
}

/// All that was seen on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFacts {
    /// The node, as the profile calls it.
    pub node: NodeName,
    /// How much was asked.
    pub depth: Depth,
    /// Milliseconds that gathering took, from the question to the last answer.
    pub took_ms: u64,
    /// What was asked and could not be had, and why.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// Operating system, processor, kernel, memory.
    pub system: System,
    /// The node's clock against this machine's; `None` where the node's `date` knows no fractions.
    pub clock: Option<Clock>,
    /// The user that sparkctl logs in as.
    #[serde(default)]
    pub user: User,
    /// Network interfaces, also those without addresses.
    pub interfaces: Vec<Interface>,
    /// IPv4 routes of the main table.
    pub routes: Option<Vec<Route>>,
    /// The addresses of the fabric that were asked for, as reached from this node.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// RoCE and InfiniBand devices; [`Interface::rdma`] has their names by interface.
    #[serde(default)]
    pub rdma_devices: Vec<RdmaDevice>,
    /// NVIDIA GPUs; empty where there are none or `nvidia-smi` did not tell ([`NodeFacts::nvidia`]).
    pub gpus: Vec<Gpu>,
    /// NVIDIA's driver and tool.
    #[serde(default)]
    pub nvidia: Nvidia,
    /// Whether `/dev/infiniband` exists.
    pub infiniband: bool,
    /// TCP ports in state LISTEN.
    pub listeners: Vec<Listener>,
    /// Processes that look like an engine (vLLM, SGLang, Ray, Ollama, llama.cpp, TensorRT-LLM), in containers or not.
    pub processes: Option<Vec<Process>>,
    /// The model's folder; `None` where it does not exist.
    pub model: Option<ModelFolder>,
    /// Free and total bytes of the file system that holds the model's folder, or would.
    pub model_disk: Option<Disk>,
    /// Models in the usual places; `None` where no scan was asked for.
    pub models: Option<ModelScan>,
    /// Tools that sparkctl runs on nodes and their versions: `rsync`, `python3`; absent ones are missing.
    pub tools: BTreeMap<String, String>,
    /// The Docker Engine, or why it cannot be used.
    pub docker: DockerFacts,
    /// NVIDIA's container toolkit; `None` where `nvidia-ctk` is absent.
    pub toolkit: Option<ContainerToolkit>,
    /// All images of the engine; empty where it cannot be used, and at depth `status`.
    pub images: Vec<Image>,
    /// All containers of the engine, running or not; empty where it cannot be used.
    pub containers: Vec<Container>,
    /// What sshd is configured for.
    pub sshd: Option<Sshd>,
    /// Records of this deployment's releases that lie on the node, oldest first.
    pub releases: Vec<Release>,
    /// Records that could not be read (file name and why): told, never rewritten.
    pub unreadable_releases: Vec<String>,
    /// The highest release number seen on the node, readable or not.
    pub highest_release: Option<ReleaseNumber>,
    /// Placed files and secrets of this deployment that lie on the node.
    #[serde(default)]
    pub kept: KeptFacts,
    /// The last lines of this deployment's journal on the node, oldest first.
    #[serde(default)]
    pub journal: Vec<Entry>,
    /// Who holds the node's lock.
    #[serde(default)]
    pub holder: Option<Holder>,
}

/// Something that was asked and could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// What was asked: `nvidia-smi`, `docker-disk`, `routes`.
    pub what: String,
    pub why: Missing,
}

/// Why something could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The command that tells it is not installed.
    NoCommand,
    /// It gave no answer within these seconds, and was ended.
    TimedOut(u64),
    /// What it said instead.
    Failed(String),
}

impl NodeFacts {
    /// The interface that has `address`.
    pub fn interface_of(&self, address: Ipv4Addr) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.addresses.iter().any(|a| a.address == address))
    }

    /// An interface by its name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// A RoCE or InfiniBand device by its name.
    pub fn rdma_device(&self, name: &str) -> Option<&RdmaDevice> {
        self.rdma_devices.iter().find(|device| device.name == name)
    }

    /// Addresses of the fabric that do not answer from this node.
    pub fn lost_peers(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.peers.iter().filter(|peer| !peer.answers).map(|peer| peer.address)
    }

    /// Default routes, the preferred one first; none where there is no way out, or routes are not known.
    pub fn default_routes(&self) -> Vec<&Route> {
        let mut routes: Vec<_> = self.routes.iter().flatten().filter(|route| route.is_default()).collect();
        routes.sort_by_key(|route| route.metric);
        routes
    }

    /// The Docker Engine, where it can be used.
    pub fn engine(&self) -> Option<&Docker> {
        match &self.docker {
            DockerFacts::Running(docker) => Some(docker),
            DockerFacts::Unusable(_) => None,
        }
    }

    /// Why something could not be had; `None` where it was had, or not asked.
    pub fn gap(&self, what: &str) -> Option<&Missing> {
        self.gaps.iter().find(|gap| gap.what == what).map(|gap| &gap.why)
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

#[cfg(test)]
mod tests;
