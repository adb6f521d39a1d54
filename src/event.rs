//! Events: the one vocabulary of a run. Whatever a person, a log or a record is told of a deploy, a
//! stop or a rollback, it is told by these. Life-cycle events are never dropped; progress may be.
//!
//! The last event of a run is [`Event::Finished`], exactly once.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;

use crate::check::Finding;
use crate::cluster::facts::{ContainerState, NodeFacts};
use crate::diagnose::Diagnosis;
use crate::plan::{Plan, StageKind};
use crate::profile::{DeploymentName, NodeName};
use crate::release::{RecordedImage, ReleaseNumber};

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// What is going to be done; no stages mean that nothing differs.
    Planned { plan: Box<Plan> },
    /// A stage began.
    StageStarted { stage: StageKind },
    /// A step of a stage did what it should; `changed` is false where the node was so already.
    StepDone { stage: StageKind, node: NodeName, what: String, changed: bool },
    /// How far a step is.
    Progress { stage: StageKind, node: NodeName, progress: Progress },
    /// A stage is done on all nodes.
    StageDone {
        stage: StageKind,
        detail: Option<String>,
        #[serde(rename = "seconds", serialize_with = "seconds")]
        took: Duration,
    },
    /// Something that does not stop the run, but that a person should know.
    Warning { finding: Finding },
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
    /// The run failed, and no release was brought back; `why` says what state was left.
    Down { failed: Option<ReleaseNumber>, why: String },
    /// A signal ended the run; `state` says what was left.
    Interrupted { state: String },
}

/// Where a run tells what happens.
#[derive(Debug, Clone)]
pub struct Events(mpsc::Sender<Event>);

impl Events {
    /// A channel: the sender for the run, the receiver for the report.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(256);
        (Self(sender), receiver)
    }

    /// Tells of something that must arrive; waits while the report is behind.
    pub async fn tell(&self, event: Event) {
        // Nobody listens any more only while the program is ending.
        let _ = self.0.send(event).await;
    }

    /// Tells of progress, unless the report is behind.
    pub fn progress(&self, stage: StageKind, node: &NodeName, progress: Progress) {
        let _ = self.0.try_send(Event::Progress { stage, node: node.clone(), progress });
    }
}

fn seconds<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value.as_secs_f64() * 1000.0).round() / 1000.0)
}
