//! Engines: what vLLM or SGLang needs on each rank. Pure.
//!
//! All that is known of an engine stands in its own file; the container variables of every engine
//! stand in [`env`], each with who needs it and why. Left out on purpose: where the image comes
//! from, and how a container is started.

pub mod env;
pub mod figures;
mod launch;
pub mod milestones;
pub mod prelude;
pub mod rules;
mod sglang;
#[cfg(test)]
mod tests;
mod vllm;

use std::net::Ipv4Addr;

use crate::container::{ImageContent, Mount, Rank};
use crate::profile::{Engine as Settings, EngineKind, Launch, Listen, Lora, NodeName, Profile};

pub use launch::{GATHER_PORT, RANKS_FILE};
pub use milestones::Milestone;

/// The port of the Ray cluster's control store (GCS) on the head.
pub const RAY_PORT: u16 = 6379;

/// The port on the head where the ranks of a native launch meet.
pub const MASTER_PORT: u16 = 29_501;

/// The port on the head where the engines of a model's copies meet, by a native launch of vLLM.
const DATA_PARALLEL_PORT: u16 = 29_550;

/// Where the model's folder is in the container, but for one in a Hub's cache.
pub const MODEL_TARGET: &str = "/model";
/// Where the folder is in the container that a Hub's cache has of the model.
const HUB_TARGET: &str = "/hub";

/// Hints that several engines' flags share.
const HEAD_ADDRESS: &str = "leave it out: it is the first node's `fabric`";
const KEY: &str = "set `serve.api_key`";
/// Where compiled kernels and graphs are in the container.
const CACHE_TARGET: &str = "/root/.cache";

/// All that sparkctl mounts for itself.
pub const OWN_TARGETS: &[&str] = &[MODEL_TARGET, HUB_TARGET, CACHE_TARGET, prelude::SECRETS_TARGET];

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
    /// The engine's own command line on a rank.
    fn command(&self, profile: &Profile, members: &[Member], rank: usize) -> Vec<String>;
    /// What a line of a rank's log says about the start, if anything.
    fn milestone(&self, line: &str) -> Option<Milestone>;
    /// The flags that sparkctl sets.
    fn reserved(&self) -> &'static [Reserved];
    /// Whether the engine takes the beginning of a flag for the flag.
    fn takes_beginnings(&self) -> bool {
        false
    }
    /// What the profile asks for and the engine does not have.
    fn unfit(&self, profile: &Profile) -> Vec<Unfit>;
}

/// The variable that a rank's process has the endpoint's key in: vLLM's own, or one that [`KEYED`] takes away.
pub fn key_variable(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Vllm => "VLLM_API_KEY",
        EngineKind::Sglang => "SPARKCTL_API_KEY",
    }
}

/// The address that a rank's server listens on.
fn listen(profile: &Profile, members: &[Member], rank: usize) -> Ipv4Addr {
    match profile.serve.listen {
        Listen::Lan => Ipv4Addr::UNSPECIFIED,
        Listen::Fabric => members[rank].address,
        Listen::Loopback => Ipv4Addr::LOCALHOST,
    }
}

/// The model's limits of what comes in beside text, as both engines want them.
fn multimodal(settings: &Settings) -> Option<String> {
    (!settings.multimodal.is_empty())
        .then(|| serde_json::to_string(&settings.multimodal).expect("counts are always JSON"))
}

/// Each adapter as both engines want it.
fn adapters(lora: &Lora) -> impl Iterator<Item = String> {
    lora.adapters.iter().map(|adapter| format!("{}={}", adapter.name, adapter.path))
}

/// Where the engine finds the model in its container.
fn model_target(profile: &Profile) -> String {
    profile
        .model
        .hub_cache()
        .map_or_else(|| MODEL_TARGET.to_owned(), |(_, snapshot)| format!("{HUB_TARGET}/{snapshot}"))
}

fn model_mount(profile: &Profile) -> Mount {
    let (source, target) = profile
        .model
        .hub_cache()
        .map_or((profile.model.path.as_str(), MODEL_TARGET), |(folder, _)| (folder, HUB_TARGET));
    Mount { source: source.to_owned(), target: target.to_owned(), read_only: true }
}

/// The engine of a kind.
pub fn engine(kind: EngineKind) -> &'static dyn Engine {
    match kind {
        EngineKind::Vllm => &vllm::Vllm,
        EngineKind::Sglang => &sglang::Sglang,
    }
}

/// A flag that sparkctl sets, and that a profile's `engine.args` may therefore not repeat.
#[derive(Debug, Clone, Copy)]
pub struct Reserved {
    /// Every way to write it.
    pub names: &'static [&'static str],
    /// What to do instead, as a hint.
    pub instead: &'static str,
    /// Whether these settings make sparkctl set it. Where not, an argument only adds.
    pub is_set: fn(&Settings) -> bool,
}

impl Reserved {
    const fn always(names: &'static [&'static str], instead: &'static str) -> Self {
        Self { names, instead, is_set: |_| true }
    }

    const fn where_set(
        names: &'static [&'static str],
        instead: &'static str,
        is_set: fn(&Settings) -> bool,
    ) -> Self {
        Self { names, instead, is_set }
    }
}

/// The flag that sparkctl sets for these settings and that `flag` repeats, in whatever spelling.
pub fn reserved_arg(settings: &Settings, flag: &str) -> Option<&'static Reserved> {
    let engine = engine(settings.kind);
    // Engines take `_` for `-` in long flags, and `--config.key` for a key of a flag that takes JSON.
    let flag = if flag.starts_with("--") { flag.replace('_', "-") } else { flag.to_owned() };
    let flag = flag.split('.').next().unwrap_or_default();
    let repeats = |name: &&str| {
        // Shorter ones, such as `--m`, fit several flags, and no engine takes them.
        **name == *flag || (engine.takes_beginnings() && flag.len() > 3 && name.starts_with(flag))
    };
    engine
        .reserved()
        .iter()
        .find(|reserved| reserved.names.iter().any(repeats) && (reserved.is_set)(settings))
}

/// What a profile asks for and its engine does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The field below `engine`.
    pub field: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Unfit {
    fn new(field: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field, message: message.into(), hint: hint.into() }
    }
}

/// A TCP port that a rank will listen on, known before the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownPort {
    pub number: u16,
    /// What it is for, in words.
    pub what: &'static str,
    /// What to do where something else listens there.
    pub hint: &'static str,
}

/// The ports that a rank of the profile's group will listen on, as far as they are known.
pub fn ports(profile: &Profile, rank: usize) -> Vec<KnownPort> {
    let serve = KnownPort {
        number: profile.serve.port.get(),
        what: "serve.port",
        hint: "choose another `serve.port`, or end what listens there",
    };
    let head = |number, what, hint| KnownPort { number, what, hint };
    let meeting = "end what listens there: the ranks meet at this port of the head";
    match (rank, profile.engine.kind, profile.engine.launch()) {
        (0, ..) if profile.cluster.nodes.len() == 1 => vec![serve],
        (0, _, Launch::Ray) => {
            vec![serve, head(RAY_PORT, "Ray", "end what listens there: Ray needs this port on the head")]
        }
        (0, _, Launch::Native) => {
            let copies = (profile.engine.data_parallel > 1).then_some(DATA_PARALLEL_PORT);
            let numbers = [GATHER_PORT, MASTER_PORT].into_iter().chain(copies);
            let meetings = numbers.map(|number| head(number, "native launch", meeting));
            [serve].into_iter().chain(meetings).collect()
        }
        // Its workers have a server there, which serves nothing.
        (_, EngineKind::Sglang, _) => vec![serve],
        (_, EngineKind::Vllm, _) => Vec::new(),
    }
}

/// A flag with its value, as two words.
fn flag(argv: &mut Vec<String>, name: &str, value: &dyn ToString) {
    argv.extend([name.to_owned(), value.to_string()]);
}

/// The whole command line of a rank.
fn argv(profile: &Profile, members: &[Member], rank: usize) -> Vec<String> {
    let command = engine(profile.engine.kind).command(profile, members, rank);
    match profile.engine.launch() {
        _ if members.len() == 1 => command,
        Launch::Ray => launch::ray(command, members, rank, &env::of_one_rank(profile)),
        Launch::Native => launch::native(command, members, rank),
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
        argv: prelude::wrap(profile, argv(profile, members, rank as usize)),
        env: env::variables(profile, members, rank as usize),
        mounts: vec![
            model_mount(profile),
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
