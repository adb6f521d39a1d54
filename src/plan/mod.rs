//! The plan: what will be done, as data. It leaves no choices; whoever executes it decides nothing.
//!
//! A plan is made by [`planner`] from a profile (or a recorded release) and fresh facts, so planning
//! again after a run gives the empty plan. Steps of a stage run at once; stages follow one another.

mod bytes;
mod difference;
mod group;
mod kept;
pub mod planner;
pub mod render;

pub use bytes::weights_digest;

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Serialize;

use crate::cluster::facts::ModelFile;
use crate::container::{ImageContent, Rank};
use crate::delivery::Content;
use crate::delivery::kept::Kept;
use crate::bench::gate::Gate;
use crate::bench::summary::Summary;
use crate::profile::{Bench, DeploymentName, EngineKind, Launch, NodeName, Profile, Verify};
use crate::release::{Release, ReleaseNumber};

/// What will be done to a deployment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub deployment: DeploymentName,
    /// The release that will serve, or serves already; `None` where the plan only stops.
    pub release: Option<ReleaseNumber>,
    /// The release whose containers run now, whole or in part.
    pub running: Option<ReleaseNumber>,
    /// The nodes, head first.
    pub nodes: Vec<NodeName>,
    /// Stages in order; none where nothing differs.
    pub stages: Vec<Stage>,
    /// What differs between the group that runs and the one that will, in words.
    pub differences: Vec<String>,
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
        self.stages.iter().any(|stage| stage.kind == StageKind::Stop)
    }
}

/// Steps that run at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    pub kind: StageKind,
    pub steps: Vec<Step>,
}

/// What a stage is for; in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageKind {
    /// Weights to the nodes that lack them. The running release still serves.
    Weights,
    /// The image likewise, and sparkctl's own name for it.
    Image,
    /// Placed files and secrets to the nodes that lack them.
    Files,
    /// The record of what is about to be done, on every node.
    Begin,
    /// The running group ends; its logs are kept.
    Stop,
    /// The containers of the new group start.
    Start,
    /// The first completion came back.
    Ready,
    /// The answers are right.
    Verify,
    /// A benchmark whose figures have to keep limits: before anything counts as deployed.
    Gate,
    /// Containers come back after a reboot from now on; the record says `deployed`.
    Record,
    /// A benchmark that is only told: of a release that is deployed already, whatever becomes of it.
    Bench,
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Weights => "weights",
            Self::Image => "image",
            Self::Files => "files",
            Self::Begin => "begin",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Ready => "ready",
            Self::Verify => "verify",
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
        from_address: Ipv4Addr,
        to_address: Ipv4Addr,
        path: String,
        files: Vec<ModelFile>,
        bytes: u64,
    },
    /// The image comes from another node, over the fabric.
    CopyImage {
        from: NodeName,
        from_address: Ipv4Addr,
        to_address: Ipv4Addr,
        /// Its ID on the node it comes from.
        image: String,
        content: ImageContent,
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
    /// A rank's container is made and started.
    Start { deployment: DeploymentName, release: ReleaseNumber, rank: Box<Rank> },
    /// All ranks run and the endpoint completes a request.
    AwaitReady { ready: ReadySpec },
    /// The endpoint is asked questions with known answers.
    Verify { endpoint: Endpoint, verify: Verify },
    /// The endpoint is put under load, and what it bears is kept with the release.
    Bench { bench: Box<BenchSpec> },
    /// The container comes back when it ends, or the node boots.
    KeepRunning { container: String },
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
    #[serde(skip)]
    pub timeout: Duration,
    #[serde(skip)]
    pub stall: Duration,
}

/// Where the head answers, and for which model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    pub port: u16,
    pub model: String,
}

impl Endpoint {
    /// Where the group of a profile answers.
    pub fn of(profile: &Profile) -> Self {
        Self { port: profile.serve.port.get(), model: profile.served_name().to_owned() }
    }
}
