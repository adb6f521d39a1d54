//! Containers as sparkctl wants them: the specification of a rank's container, its digest, and the
//! names and labels by which sparkctl knows its own again. Pure.
//!
//! The digest covers everything that makes the process what it is, and nothing that only says whose
//! it is: two releases with equal specifications are served by the same container.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::profile::{DeploymentName, NodeName};
use crate::release::ReleaseNumber;

/// Label whose presence says that a container is sparkctl's; its value is the format of the labels.
pub const LABEL_FORMAT: &str = "sparkctl.format";
/// Label: the deployment's name.
pub const LABEL_DEPLOYMENT: &str = "sparkctl.deployment";
/// Label: the number of the release that the container was started for.
pub const LABEL_RELEASE: &str = "sparkctl.release";
/// Label: the rank.
pub const LABEL_RANK: &str = "sparkctl.rank";
/// Label: the digest of the specification.
pub const LABEL_SPEC: &str = "sparkctl.spec";

/// Content of an image, the same in every image store: SHA-256 over what makes it run (platform,
/// layers' diff IDs, configuration), in hexadecimal. An image ID will not do: it differs between
/// the classic and the containerd store, and even between two containerd hosts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ImageContent(pub String);

impl ImageContent {
    /// The first twelve digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }

    /// The name under which sparkctl keeps this content on a node, so that a moved public tag
    /// takes nothing away from a release.
    pub fn kept_as(&self) -> String {
        format!("sparkctl/kept:{}", self.0.get(..32).unwrap_or(&self.0))
    }
}

impl fmt::Display for ImageContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// A folder of the node, or a named volume, inside a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Absolute path on the node, or the name of a volume.
    pub source: String,
    /// Absolute path in the container.
    pub target: String,
    /// Whether the container may only read it.
    pub read_only: bool,
}

/// What a rank's container is: its image, process and access to the node. Host network and host
/// IPC always; never privileged, never removed by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// What the container is made of.
    pub image: ImageContent,
    /// The whole command line; the image's entrypoint is always overridden.
    pub argv: Vec<String>,
    /// Environment variables beside the image's own.
    pub env: BTreeMap<String, String>,
    /// Folders and volumes.
    pub mounts: Vec<Mount>,
    /// Device files or folders of the node, e.g. `/dev/infiniband`.
    pub devices: Vec<String>,
    /// Whether all GPUs of the node are given to the container.
    pub gpus: bool,
    /// Capabilities beside Docker's default set.
    pub capabilities: Vec<String>,
    /// Soft and hard limits by name; -1 is no limit.
    pub ulimits: BTreeMap<String, i64>,
}

impl ContainerSpec {
    /// SHA-256 of the specification's JSON, in hexadecimal.
    pub fn digest(&self) -> String {
        let json = serde_json::to_vec(self).expect("a specification is always JSON");
        hex(&Sha256::digest(json))
    }
}

/// A rank of the group: a specification with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rank {
    /// Number of the node in the profile; 0 is the head.
    pub rank: u32,
    /// The node it runs on.
    pub node: NodeName,
    /// What runs there.
    pub spec: ContainerSpec,
}

impl Rank {
    /// `head` or `worker`.
    pub fn role(&self) -> &'static str {
        if self.rank == 0 { "head" } else { "worker" }
    }
}

/// The name of a rank's container.
pub fn container_name(deployment: &DeploymentName, rank: u32) -> String {
    format!("sparkctl-{deployment}-{rank}")
}

/// The labels of a rank's container.
pub fn labels(deployment: &DeploymentName, release: ReleaseNumber, rank: &Rank) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_FORMAT.to_owned(), "1".to_owned()),
        (LABEL_DEPLOYMENT.to_owned(), deployment.to_string()),
        (LABEL_RELEASE.to_owned(), release.to_string()),
        (LABEL_RANK.to_owned(), rank.rank.to_string()),
        (LABEL_SPEC.to_owned(), rank.spec.digest()),
    ])
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
