//! The plan: what will be done, as data. It leaves no choices; whoever executes it decides nothing.
//!
//! A plan is made by [`planner`] from a profile (or a recorded release) and fresh facts, so planning
//! again after a run gives the empty plan. Steps of a stage run at once; stages follow one another.

pub mod built;
mod bytes;
mod difference;
pub(crate) mod ended;
pub mod fanout;
pub(crate) mod foreign;
mod group;
mod kept;
mod layers;
pub mod planner;
pub mod render;

pub use bytes::{is_of, weights_content, weights_digest};
pub use layers::shared as layers_shared;

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Serialize;

use crate::bench::gate::Gate;
use crate::bench::summary::Summary;
use crate::cluster::facts::ModelFile;
use crate::container::{ImageContent, Rank};
use crate::delivery::Content;
use crate::delivery::kept::{Kept, KeptKind};
use crate::engine::{self, prelude::SECRETS_TARGET};
use crate::profile::{Bench, DeploymentName, EngineKind, Hook, Launch, NodeName, Profile, Transfer, Verify};
use crate::release::{Ended, Foreign, Release, ReleaseNumber};

/// What will be done to a deployment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub deployment: DeploymentName,
    /// The release that will serve, or serves already; `None` where the plan only stops.
    pub release: Option<ReleaseNumber>,
    /// The release whose containers run now, whole or in part.
    pub running: Option<ReleaseNumber>,
    /// The engine in the image, with its version, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The nodes, head first.
    pub nodes: Vec<NodeName>,
    /// Stages in order; none where nothing differs.
    pub stages: Vec<Stage>,
    /// What differs between the group that runs and the one that will, in words.
    pub differences: Vec<String>,
    /// The release that the differences are to where nothing runs: the last that served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<ReleaseNumber>,
    /// Seconds that the start of the running release took: what an outage is likely to be.
    pub last_start_seconds: Option<f64>,
    /// Where the endpoint will be.
    pub endpoint: Option<String>,
}

impl Plan {
    /// Nothing differs.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Whether a group that runs will be stopped.
    pub fn interrupts(&self) -> bool {
        let mut steps = self.stages.iter().flat_map(|stage| &stage.steps);
        steps.any(|step| matches!(step.action, Action::Retire { .. }))
    }
}

/// Steps that run at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    pub kind: StageKind,
    pub steps: Vec<Step>,
}

impl Stage {
    /// For each step the earlier ones that have to be done before it begins. Copies of weights follow one another: a node
    /// gives one at a time and takes one at a time, in the order of the steps, and gives on only what has come. All other
    /// steps wait for nothing.
    pub fn waits(&self) -> Vec<Vec<usize>> {
        let copy = |step: &Step| match &step.action {
            Action::CopyWeights { from, files, .. } => Some((from.clone(), step.node.clone(), files.clone())),
            _ => None,
        };
        let copies: Vec<_> = self.steps.iter().map(copy).collect();
        let before = |at: usize| {
            let Some((from, to, files)) = &copies[at] else { return Vec::new() };
            let needed = |earlier: &usize| {
                copies[*earlier].as_ref().is_some_and(|(giver, taker, some)| {
                    giver == from
                        || taker == to
                        || (taker == from && some.iter().any(|file| files.contains(file)))
                })
            };
            (0..at).filter(needed).collect()
        };
        (0..self.steps.len()).map(before).collect()
    }

    /// Bytes of weights that come to a step's node, or are compared there, in steps before it, and in all steps; `None` where it brings none.
    pub fn share(&self, at: usize) -> Option<(u64, u64)> {
        let bytes = |step: &Step| match &step.action {
            Action::CopyWeights { bytes, compare, .. } if step.node == self.steps[at].node => bytes + compare,
            _ => 0,
        };
        let all = self.steps.iter().map(bytes).sum();
        (bytes(&self.steps[at]) > 0).then(|| (self.steps[..at].iter().map(bytes).sum(), all))
    }
}

/// What a stage is for; in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageKind {
    /// The model from a Hub to the head: a command of its own, never part of a deploy.
    Fetch,
    /// The image is built on the head. The running release still serves.
    Build,
    /// Weights to the nodes that lack them, likewise.
    Weights,
    /// The image likewise, and sparkctl's own name for it.
    Image,
    /// Placed files and secrets to the nodes that lack them.
    Files,
    /// The record of what is about to be done, on every node.
    Begin,
    /// The running group ends; its logs are kept. So do other people's containers that are in the way.
    Stop,
    /// What was to end on nodes that were away has ended.
    Forget,
    /// Other people's containers come back. Nothing of ours is started in the same plan.
    Return,
    /// What the nodes' memory need not hold is dropped from it: no engine of ours runs now.
    Memory,
    /// The containers of the new group start.
    Start,
    /// The first completion came back.
    Ready,
    /// The answers are right.
    Verify,
    /// A benchmark whose figures have to keep limits: before anything counts as deployed.
    Gate,
    /// A command of the operator's machine says whether all is well.
    Hook,
    /// Containers come back after a reboot from now on; the record says `deployed`.
    Record,
    /// A benchmark that is only told: of a release that is deployed already, whatever becomes of it.
    Bench,
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Build => "build",
            Self::Fetch => "fetch",
            Self::Weights => "weights",
            Self::Image => "image",
            Self::Files => "files",
            Self::Begin => "begin",
            Self::Stop => "stop",
            Self::Forget => "forget",
            Self::Return => "return",
            Self::Memory => "memory",
            Self::Start => "start",
            Self::Ready => "ready",
            Self::Verify => "verify",
            Self::Hook => "hook",
            Self::Record => "record",
            Self::Gate | Self::Bench => "bench",
        })
    }
}

/// One act on one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub node: NodeName,
    pub action: Action,
}

/// What can be done to a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Files of the model come from another node, over the fabric.
    CopyWeights {
        from: NodeName,
        /// The two nodes' addresses on each rail.
        rails: Vec<Rail>,
        transfer: Transfer,
        path: String,
        /// Files that are not known to be there: each is copied unless its content turns out to be the same.
        files: Vec<ModelFile>,
        /// Bytes of those that have to be copied.
        bytes: u64,
        /// Bytes of those of which only the hash is to be compared, as far as can be told.
        compare: u64,
        /// Whether what was seen before counts for nothing, on both nodes.
        verify: bool,
        /// All files of the model.
        #[serde(skip)]
        model: Vec<ModelFile>,
    },
    /// Files that are not the model's go.
    RemoveFiles { path: String, files: Vec<String> },
    /// The image goes to nodes that lack the same of it, over the fabric, read once for all of them.
    CopyImage {
        from_address: Ipv4Addr,
        to: Vec<Taker>,
        /// Its ID on this node.
        image: String,
        content: ImageContent,
        /// How many layers it has, and how many of them the others have.
        layers: usize,
        left_out: usize,
        /// What archives call those.
        names: Vec<String>,
        /// About what goes to each.
        bytes: u64,
    },
    /// The image gets sparkctl's own name, so that it stays what it is.
    KeepImage {
        /// Its ID on the node.
        image: String,
        content: ImageContent,
    },
    /// A file of the operator's machine is put into sparkctl's folder.
    PutFile {
        kept: Kept,
        /// Where containers have it.
        target: String,
        bytes: u64,
        #[serde(skip)]
        content: Content,
    },
    /// The values of the profile's secrets likewise. How long they are is nobody's business either.
    PutSecrets {
        kept: Kept,
        names: Vec<String>,
        #[serde(skip)]
        content: Content,
    },
    /// A placed file, or a release's secrets, come from another node, through the operator's machine.
    CopyKept { from: NodeName, kept: Kept, target: String },
    /// The record of the release is written.
    WriteRelease { release: Box<Release> },
    /// A container of ours ends for good: restart policy off, stopped, log kept, removed.
    Retire { container: String, release: ReleaseNumber, rank: u32 },
    /// What must not run any more on nodes that are away is remembered here, or not any more.
    WriteEnded { deployment: DeploymentName, ended: Vec<Ended> },
    /// A container of other people's is stopped, and does not come back with the node. The newest record remembers it.
    StopForeign { foreign: Foreign },
    /// It runs again, with its own restart policy.
    ReturnForeign { foreign: Foreign },
    /// The model's files leave the page cache, which CUDA counts as used on unified memory. That it could not be done
    /// fails nothing.
    DropCache {
        path: String,
        /// Whether `sudo` asks for no password there, so that all of the cache is dropped.
        whole: bool,
    },
    /// A rank's container is made and started.
    Start { deployment: DeploymentName, release: ReleaseNumber, rank: Box<Rank> },
    /// All ranks run and the endpoint completes a request.
    AwaitReady { ready: ReadySpec },
    /// The endpoint is asked questions with known answers.
    Verify { endpoint: Endpoint, verify: Verify },
    /// The endpoint is put under load, and what it bears is kept with the release.
    Bench { bench: Box<BenchSpec> },
    /// The profile's `post_ready` runs on the operator's machine.
    RunHook {
        hook: Hook,
        deployment: DeploymentName,
        release: ReleaseNumber,
        endpoint: String,
        #[serde(skip)]
        token: String,
    },
    /// The container comes back when it ends, or the node boots.
    KeepRunning { container: String },
}

/// A node that takes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Taker {
    pub node: NodeName,
    pub address: Ipv4Addr,
}

/// How a release is measured, and against what.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchSpec {
    pub endpoint: Endpoint,
    /// Where the operator's machine may reach the endpoint, up to and with `/v1`.
    pub url: String,
    pub how: Bench,
    /// Limits that have to be kept; none: it is only told.
    pub gate: Gate,
    /// The release before that was measured, and how it did.
    pub before: Option<(ReleaseNumber, Summary)>,
    /// What is measured; its record has the outcome `deployed`.
    pub release: Release,
}

/// Addresses of two nodes that reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rail {
    pub from: Ipv4Addr,
    pub to: Ipv4Addr,
}

/// What has to become ready, and how long it may take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadySpec {
    /// Whose milestones the logs show.
    pub engine: EngineKind,
    /// How several ranks come together.
    pub launch: Launch,
    pub endpoint: Endpoint,
    /// Every rank's node and container, head first.
    pub containers: Vec<(NodeName, String)>,
    /// Every rank's address on the fabric.
    #[serde(skip)]
    pub fabric: Vec<Ipv4Addr>,
    #[serde(skip)]
    pub deployment: DeploymentName,
    #[serde(skip)]
    pub timeout: Duration,
    #[serde(skip)]
    pub stall: Duration,
}

/// Where the head answers, and for which model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    /// By which address it is asked from the head itself.
    pub address: Ipv4Addr,
    pub port: u16,
    pub model: String,
    /// What its key lies in on the head, and under which name, where it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<(Kept, String)>,
}

impl Endpoint {
    /// Where the group of a profile answers; its key is not known, which is a release's.
    pub fn of(profile: &Profile) -> Self {
        Self {
            address: profile.door(),
            port: profile.serve.port.get(),
            model: profile.served_name().to_owned(),
            key: None,
        }
    }

    /// Where the group of a release answers, with what lies on the head of its key.
    pub fn of_release(release: &Release) -> Self {
        let profile = &release.profile;
        let mounts = || release.ranks.first().into_iter().flat_map(|rank| &rank.spec.mounts);
        let secrets = mounts().find(|mount| mount.target == SECRETS_TARGET);
        let key = profile.serve.api_key.as_ref().and(secrets).map(|mount| {
            let id = mount.source.rsplit('/').next().unwrap_or_default().to_owned();
            let kept = Kept { deployment: release.deployment.clone(), kind: KeptKind::Secrets, id };
            (kept, engine::key_variable(profile.engine.kind).to_owned())
        });
        Self { key, ..Self::of(profile) }
    }
}
