//! Events: the one vocabulary of a run. Whatever a person, a log or a record is told of a deploy, a
//! stop or a rollback, it is told by these. Life-cycle events are never dropped; progress may be.
//!
//! The last event of a run is [`Event::Finished`], exactly once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;

use crate::check::Finding;
use crate::cluster::facts::{ContainerState, NodeFacts};
use crate::diagnose::{Diagnosis, Stuck};
use crate::engine::milestones::StartStage;
use crate::plan::{Plan, StageKind};
use crate::profile::{DeploymentName, NodeName};
use crate::release::{RecordedImage, ReleaseNumber};

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Another operation holds the nodes; this one waits for its end.
    Waiting { holder: String },
    /// What is going to be done; no stages mean that nothing differs.
    Planned { plan: Box<Plan> },
    /// A stage began.
    StageStarted { stage: StageKind },
    /// A step of a stage did what it should; `changed` is false where the node was so already.
    StepDone { stage: StageKind, node: NodeName, what: String, changed: bool },
    /// How far a step is.
    Progress { stage: StageKind, node: NodeName, progress: Progress },
    /// A rung of the ladder to a proven endpoint was reached.
    Reached { stage: StageKind, rung: Rung, detail: Option<String> },
    /// Something that a stage has to say for itself.
    Told { stage: StageKind, node: NodeName, text: String },
    /// A stage is done on all nodes.
    StageDone {
        stage: StageKind,
        detail: Option<String>,
        #[serde(rename = "seconds", serialize_with = "seconds")]
        took: Duration,
    },
    /// Something that does not stop the run, but that a person should know.
    Warning { finding: Finding },
    /// What was seen of a rank when nothing had moved for too long; where its processes were goes to a file.
    Stuck { node: NodeName, rank: usize, stuck: Stuck },
    /// How far a rank had come when the start failed, and its last lines as they were followed: also where its node
    /// cannot be asked any more.
    LastLines { node: NodeName, rank: usize, reached: Option<StartStage>, lines: Vec<String> },
    /// A rank's log and state at a failure, before anything is removed; the log goes to a file.
    Evidence {
        node: NodeName,
        rank: u32,
        release: ReleaseNumber,
        state: Option<ContainerState>,
        #[serde(skip)]
        log: String,
    },
    /// What was seen on all nodes at a failure; goes to a file.
    Facts {
        #[serde(skip)]
        facts: Vec<NodeFacts>,
    },
    /// A stage failed; what follows is the restore, if there is one.
    Failed { failure: Box<Failure> },
    /// The release before is being brought back.
    Restoring { release: ReleaseNumber },
    /// The end, once.
    Finished { deployment: DeploymentName, outcome: RunOutcome },
}

/// How far a group is on the way to a proven endpoint; each takes the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// Every rank's container runs.
    Up,
    /// The ranks found each other.
    Joined,
    /// The endpoint speaks HTTP.
    Http,
    /// It lists the model.
    Listed,
    /// It completed a request.
    Token,
    /// It answered rightly.
    Chat,
    /// Its reasoning is in a field of its own.
    Reasoning,
    /// It called a tool with the right arguments.
    ToolCall,
    /// It streamed an answer, with the number of its tokens.
    Stream,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "containers run",
            Self::Joined => "ranks joined",
            Self::Http => "HTTP answers",
            Self::Listed => "model listed",
            Self::Token => "first token",
            Self::Chat => "chat",
            Self::Reasoning => "reasoning",
            Self::ToolCall => "tool call",
            Self::Stream => "stream",
        })
    }
}

/// How far a step is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Bytes moved, of how many.
    Bytes { done: u64, total: u64 },
    /// What the engine says of its start: a stage in words, with a figure, and the fraction where known.
    Engine { stage: String, figure: Option<String>, fraction: Option<f32> },
}

/// What failed, where, and what is known of the cause.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    pub stage: StageKind,
    /// The node, where it was one.
    pub node: Option<NodeName>,
    /// What failed: the chain of errors, outermost first.
    pub chain: Vec<String>,
    /// Cause and telling lines of the ranks' logs.
    pub diagnosis: Option<Diagnosis>,
    /// What to do.
    pub hints: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum RunOutcome {
    /// The plan was empty.
    NothingToDo { release: Option<ReleaseNumber>, endpoint: Option<String> },
    /// Everything is in place, but it does not serve.
    NotServing { release: Option<ReleaseNumber>, why: String },
    /// The release serves, verified.
    Deployed { release: ReleaseNumber, endpoint: String, outage_seconds: Option<f64> },
    /// No container of the deployment is left running.
    Stopped { release: Option<ReleaseNumber> },
    /// A model of a Hub is on a node, verified. `received`: the bytes of it that had to come.
    Fetched {
        node: NodeName,
        source: String,
        commit: String,
        path: String,
        files: u64,
        bytes: u64,
        received: u64,
    },
    /// A model did not come; where it had begun to, what came is kept, and the next fetch goes on.
    NotFetched { begun: bool },
    /// The model is on all nodes, every file's hash seen; `moved` are the bytes that had to come, `compared` says whether
    /// anything had to be hashed. `extra` are files beside the model's, by node, and `removed` whether they are gone.
    Synced {
        files: usize,
        bytes: u64,
        moved: u64,
        compared: bool,
        nodes: Vec<NodeName>,
        extra: BTreeMap<NodeName, Vec<String>>,
        removed: bool,
    },
    /// The model is not on all nodes; what came is kept, and the next sync goes on.
    NotSynced,
    /// The image is on all nodes; so many bytes had to be moved.
    Pushed { image: RecordedImage, nodes: Vec<NodeName>, bytes: u64 },
    /// The image is not on all nodes; `state` says what was left.
    NotPushed { state: String },
    /// A check refused; nothing was changed.
    Refused { findings: Vec<Finding> },
    /// Another operation holds the lock; nothing was changed.
    Locked { holder: String },
    /// A node cannot be reached or does not let us in.
    Unreachable { errors: Vec<String>, hints: Vec<String>, state: String },
    /// The run failed before it touched what serves.
    Unchanged { serving: Option<ReleaseNumber> },
    /// The run failed and the release before serves again, verified.
    Restored { failed: ReleaseNumber, release: ReleaseNumber },
    /// Nothing of ours runs, and other people's containers that had been stopped for it run again: after a run that failed,
    /// or by wish.
    Returned { failed: Option<ReleaseNumber>, containers: Vec<String> },
    /// The run failed, and no release was brought back; `why` says what state was left.
    Down { failed: Option<ReleaseNumber>, why: String },
    /// A signal ended the run; `state` says what was left.
    Interrupted { state: String },
}

/// Where a run tells what happens.
#[derive(Debug, Clone)]
pub struct Events {
    sender: mpsc::Sender<Event>,
    /// The stage that began last.
    stage: Arc<Mutex<Option<StageKind>>>,
}

impl Events {
    /// A channel: the sender for the run, the receiver for the report.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(256);
        (Self { sender, stage: Arc::default() }, receiver)
    }

    /// Tells of something that must arrive; waits while the report is behind.
    pub async fn tell(&self, event: Event) {
        if let Event::StageStarted { stage } = event {
            *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage);
        }
        // Nobody listens any more only while the program is ending.
        let _ = self.sender.send(event).await;
    }

    /// The stage that began last, if one did.
    pub fn stage(&self) -> Option<StageKind> {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of progress, unless the report is behind.
    pub fn progress(&self, stage: StageKind, node: &NodeName, progress: Progress) {
        let _ = self.sender.try_send(Event::Progress { stage, node: node.clone(), progress });
    }
}

fn seconds<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value.as_secs_f64() * 1000.0).round() / 1000.0)
}
