//! The Docker Engine of a node, its images and containers.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Disk;
use crate::container::ImageContent;
use crate::profile::DeploymentName;
use crate::release::ReleaseNumber;

/// The Docker Engine, or why it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DockerFacts {
    Running(Box<Docker>),
    Unusable(NoDocker),
}

/// Why a Docker Engine cannot be used. Displays as words for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoDocker {
    /// Neither the engine nor its client is installed.
    Absent,
    /// It is installed, and nothing listens on its socket.
    Stopped,
    /// This user may not use its socket.
    Forbidden { user: String },
    /// It, or the way to it, did not do as it should.
    Failing { why: String },
}

/// Where the engine listens.
pub const DOCKER_SOCKET: &str = "/var/run/docker.sock";

impl fmt::Display for NoDocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("it is not installed"),
            Self::Stopped => f.write_str("it is installed and does not run"),
            Self::Forbidden { user } => write!(f, "user `{user}` may not use {DOCKER_SOCKET}"),
            Self::Failing { why } => f.write_str(why),
        }
    }
}

impl NoDocker {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Absent => Some("install Docker Engine".to_owned()),
            Self::Stopped => Some("start it by `sudo systemctl enable --now docker`".to_owned()),
            Self::Forbidden { user } => {
                Some(format!("let the user in by `sudo usermod -aG docker {user}`, then log in again"))
            }
            Self::Failing { .. } => None,
        }
    }
}

/// The Docker Engine of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Docker {
    /// Engine version, e.g. `26.1.5`.
    pub version: String,
    /// How it keeps images.
    pub store: ImageStore,
    /// Its data root.
    pub root: String,
    /// Free and total bytes there, where the user may ask.
    pub disk: Option<Disk>,
    /// The newest version of its API: `1.45`.
    pub api: Option<String>,
    /// `overlay2`; `overlayfs` in the containerd store.
    pub storage_driver: Option<String>,
    /// `systemd` or `cgroupfs`.
    pub cgroup_driver: Option<String>,
    /// `2`, or `1`.
    pub cgroup_version: Option<String>,
    /// Runtimes by name: `runc`, `nvidia`.
    pub runtimes: Option<Vec<String>>,
    /// The runtime of containers that name none.
    pub default_runtime: Option<String>,
    /// Folders where it looks for CDI devices; `None` where it knows no CDI or does not say.
    pub cdi_folders: Option<Vec<String>>,
    /// CDI devices that it found, as engines from 28.2 on say: `nvidia.com/gpu=all`.
    pub cdi_devices: Option<Vec<String>>,
    /// Whether it runs without root.
    pub rootless: Option<bool>,
    /// Whether containers outlive a restart of the engine.
    pub live_restore: Option<bool>,
}

/// How an engine keeps images; identities differ between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageStore {
    Classic,
    Containerd,
}

/// NVIDIA's container toolkit, as files of the node and `nvidia-ctk` tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContainerToolkit {
    /// `1.18.0`.
    pub version: Option<String>,
    /// `mode` of its runtime: `auto`, `legacy` or `cdi`. In mode `cdi` an engine before 28.3 refuses `--gpus`.
    pub mode: Option<String>,
    /// CDI specifications of NVIDIA's, in `/etc/cdi` and `/run/cdi`.
    pub cdi_files: Vec<String>,
}

/// An image of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Its layers, the lowest first; none where they were not told.
    #[serde(default)]
    pub layers: Vec<Layer>,
    #[serde(default)]
    pub entrypoint: Vec<String>,
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables that the image itself sets. `NCCL_`, `GLOO_` and `VLLM_` among them hold where sparkctl sets none.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub created: Option<Timestamp>,
    /// What it has in it; `None` where that was not asked, or could not be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
}

/// What an image has in it, as its Python's own packages say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Version of Python.
    pub python: String,
    /// Versions by package, of the few that matter here: `vllm`, `sglang`, `ray`, `torch`.
    pub packages: BTreeMap<String, String>,
}

/// A layer of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Digest of what it changes, the same on every node.
    pub diff_id: String,
    /// Bytes unpacked; which of several neighbours is empty is not told, so the highest count as full.
    pub size: u64,
}

/// A container of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    pub id: String,
    pub name: String,
    /// The image as it was named at creation.
    pub image: String,
    /// What it is doing.
    pub state: ContainerState,
    /// As Docker's command line spells it: `no`, `always`, `unless-stopped`, `on-failure` or `on-failure:3`.
    pub restart: String,
    /// How often Docker restarted it.
    pub restarts: u32,
    /// Whether it asked for GPUs (device request, or the nvidia runtime).
    pub gpus: bool,
    /// TCP ports published on the node.
    pub published: Vec<u16>,
    /// Set where sparkctl made it.
    pub ours: Option<Ours>,
    /// What it runs: entrypoint, then command. Secrets among the arguments are blotted out.
    #[serde(default)]
    pub argv: Vec<String>,
    /// The model that it serves, as far as its command line says: a name of the Hub, or a path in the container.
    pub model: Option<String>,
    /// Names of its variables; values may be secret.
    #[serde(default)]
    pub env_names: Vec<String>,
    /// Whether it shares the node's network.
    #[serde(default)]
    pub host_network: bool,
    /// Folders of the node that it has, by their path in the container.
    #[serde(default)]
    pub mounts: BTreeMap<String, String>,
    /// Whether Docker removes it as soon as it ends (`--rm`).
    #[serde(default)]
    pub auto_remove: bool,
}

impl Container {
    /// The model that it serves; where that is a path in the container, the path on the node.
    pub fn serves(&self) -> Option<String> {
        let model = self.model.as_ref()?;
        let mounted = self.mounts.iter().filter_map(|(target, source)| {
            let below = model.strip_prefix(target.trim_end_matches('/'))?;
            (below.is_empty() || below.starts_with('/')).then(|| (target.len(), format!("{source}{below}")))
        });
        Some(mounted.max().map_or_else(|| model.clone(), |(_, path)| path))
    }
}

/// What a container is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Docker's word on its health check: `starting`, `healthy`, `unhealthy`; `None` without a check.
    pub health: Option<String>,
}

impl ContainerState {
    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match (self.oom_killed, self.exit_code, self.error.as_str()) {
            (true, ..) => "out of memory: the kernel killed it".to_owned(),
            (false, 137, _) => "exit status 137: killed".to_owned(),
            (false, code, "") => format!("exit status {code}"),
            (false, _, error) => error.to_owned(),
        }
    }
}

/// What the labels of one of our containers say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ours {
    pub deployment: DeploymentName,
    pub release: ReleaseNumber,
    pub rank: u32,
    /// Digest of the specification it was made from.
    pub spec: String,
}
