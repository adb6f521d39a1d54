//! Engines: what vLLM or SGLang needs on each rank. Pure.
//!
//! All that is known of an engine stands in its own file; the container variables of every engine
//! stand in [`env`], each with who needs it and why. Left out on purpose: where the image comes
//! from, and how a container is started.

pub mod env;
pub mod milestones;
pub mod prelude;
#[cfg(test)]
mod tests;
mod vllm;

use std::net::Ipv4Addr;

use crate::container::{ImageContent, Mount, Rank};
use crate::profile::{EngineKind, NodeName, Profile};

pub use milestones::Milestone;

/// The port of the Ray cluster's control store (GCS) on the head.
pub const RAY_PORT: u16 = 6379;

/// Where the model's folder is in the container.
pub const MODEL_TARGET: &str = "/model";

/// Where compiled kernels and graphs are in the container.
const CACHE_TARGET: &str = "/root/.cache";

/// All that sparkctl mounts for itself.
pub const OWN_TARGETS: &[&str] = &[MODEL_TARGET, CACHE_TARGET, prelude::SECRETS_TARGET];

/// A node as the engine has to know it: the part of the facts that its launch depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub node: NodeName,
    /// Its address on the fabric.
    pub address: Ipv4Addr,
    /// The interface that has this address.
    pub interface: String,
    /// RoCE devices of that interface.
    pub rdma: Vec<String>,
    /// Whether the node has `/dev/infiniband`.
    pub infiniband: bool,
    /// Whether the node has a GPU.
    pub gpus: bool,
}

/// What an engine has to answer.
pub trait Engine: Sync {
    /// The whole command line of a rank.
    fn argv(&self, profile: &Profile, members: &[Member], rank: usize) -> Vec<String>;
    /// What a line of a rank's log says about the start, if anything.
    fn milestone(&self, line: &str) -> Option<Milestone>;
}

/// The engine of a kind.
pub fn engine(kind: EngineKind) -> &'static dyn Engine {
    match kind {
        // SGLang is refused by `profile::validate` until its own file is here.
        EngineKind::Vllm | EngineKind::Sglang => &vllm::Vllm,
    }
}

/// A flag that sparkctl sets, and that a profile's `engine.args` may therefore not repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// Every way to write it.
    pub names: &'static [&'static str],
    /// What to do instead, as a hint.
    pub instead: &'static str,
}

/// The flags of an engine that sparkctl sets.
pub fn reserved_args(kind: EngineKind) -> &'static [Reserved] {
    match kind {
        EngineKind::Vllm | EngineKind::Sglang => vllm::RESERVED,
    }
}

/// The whole group: a specification for each member, head first.
pub fn ranks(profile: &Profile, image: &ImageContent, members: &[Member]) -> Vec<Rank> {
    (0..)
        .zip(members)
        .map(|(rank, member)| Rank {
            rank,
            node: member.node.clone(),
            spec: spec(profile, image, members, rank),
        })
        .collect()
}

fn spec(
    profile: &Profile,
    image: &ImageContent,
    members: &[Member],
    rank: u32,
) -> crate::container::ContainerSpec {
    let member = &members[rank as usize];
    crate::container::ContainerSpec {
        image: image.clone(),
        argv: prelude::wrap(profile, engine(profile.engine.kind).argv(profile, members, rank as usize)),
        env: env::variables(profile, members, rank as usize),
        mounts: vec![
            Mount { source: profile.model.path.clone(), target: MODEL_TARGET.to_owned(), read_only: true },
            // Compiled kernels and graphs: the first start of a new topology may take half an hour
            // to make them, so they outlive the container.
            Mount {
                source: format!("sparkctl-{}-cache", profile.name),
                target: CACHE_TARGET.to_owned(),
                read_only: false,
            },
        ],
        devices: if member.infiniband { vec!["/dev/infiniband".to_owned()] } else { Vec::new() },
        gpus: member.gpus,
        // RDMA pins memory: without the capability and the limit, NCCL fails to register buffers.
        capabilities: vec!["IPC_LOCK".to_owned()],
        ulimits: [("memlock".to_owned(), -1), ("stack".to_owned(), 67_108_864)].into(),
    }
}
