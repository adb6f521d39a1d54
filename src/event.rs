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
    /// Somebody wishes for an end; what happens now.
    Interrupting { will: String },
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
    /// The run failed, and no release was brought back; `why` says what state was left.
    Down { failed: Option<ReleaseNumber>, why: String },
    /// A signal ended the run; `state` says what was left.
    Interrupted { state: String },
}

/// Where a run tells what happens.
#[derive(Debug, Clone)]
pub struct Events {
    sender: mpsc::Sender<Event>,
    at: Arc<Mutex<At>>,
}

/// What a run is at, as it told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct At {
    /// The stage that began last.
    pub stage: Option<StageKind>,
    /// The nodes of the plan; none before there is one.
    pub nodes: Vec<NodeName>,
    /// The release that is to serve.
    pub release: Option<ReleaseNumber>,
    /// The release that ran when the plan was made.
    pub running: Option<ReleaseNumber>,
    /// Whether the plan ends what ran.
    pub interrupts: bool,
    /// Whether it brings an earlier release back.
    pub restoring: bool,
}

impl At {
    /// What happens after the first wish to end.
    pub fn will(&self) -> String {
        let will = match self.stage {
            _ if self.restoring => {
                "the restore that is under way goes on, as nothing serves before it is done"
            }
            None => "nothing was changed yet; it ends now",
            Some(stage) if stage < StageKind::Stop => {
                "it ends as soon as what is under way may be left; what runs stays as it is"
            }
            Some(StageKind::Bench) => "the benchmark ends; what serves goes on",
            Some(_) if self.release.is_none() => "what is under way is ended first",
            Some(_) if self.running.is_some() && !self.interrupts => {
                "what runs is left as it is, and not proven"
            }
            Some(_) if self.running.is_some() => {
                "the release before comes back, which takes as long as its start"
            }
            Some(_) => "what was started is ended; its logs are kept",
        };
        format!("{will}. A second interrupt leaves at once, and the nodes as they are")
    }

    /// What is left where, when the program ends at once.
    pub fn left(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(NodeName::as_str).collect();
        let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
        let release =
            self.release.map_or_else(|| "the group".to_owned(), |number| format!("release {number}"));
        let before = self.running.map(|number| format!("release {number}"));
        let Some(stage) = self.stage.filter(|_| !self.nodes.is_empty()) else {
            return "no node was changed".to_owned();
        };
        match stage {
            _ if self.restoring => {
                format!("{release} was being brought back{on}, at `{stage}`: it may run in part, not proven")
            }
            StageKind::Fetch
            | StageKind::Build
            | StageKind::Weights
            | StageKind::Image
            | StageKind::Files => {
                format!("what came so far of `{stage}` is kept{on}; what runs was not touched")
            }
            StageKind::Begin => format!("the record of {release} is begun{on}; what runs was not touched"),
            StageKind::Stop => {
                let before = before.unwrap_or(release);
                format!("{before} may be ended on some nodes and still run on others{on}")
            }
            StageKind::Memory => format!("nothing of this deployment runs{on}"),
            StageKind::Start => format!("{release} may be started on some nodes only{on}"),
            StageKind::Ready | StageKind::Verify | StageKind::Gate | StageKind::Hook | StageKind::Record => {
                format!("{release} runs{on}, not proven, and does not come back after a reboot")
            }
            StageKind::Bench => format!("{release} serves{on}, verified and recorded"),
        }
    }
}

/// Events of a run that may end meanwhile: it is not kept from its end by this.
#[derive(Debug, Clone)]
pub struct WeakEvents {
    sender: mpsc::WeakSender<Event>,
    at: Arc<Mutex<At>>,
}

impl WeakEvents {
    /// What the run is at.
    pub fn at(&self) -> At {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells of something, unless the run has ended, or the report is behind.
    pub fn try_tell(&self, event: Event) {
        if let Some(sender) = self.sender.upgrade() {
            let _ = sender.try_send(event);
        }
    }
}

impl Events {
    /// A channel: the sender for the run, the receiver for the report.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(256);
        (Self { sender, at: Arc::default() }, receiver)
    }

    /// Tells of something that must arrive; waits while the report is behind.
    pub async fn tell(&self, event: Event) {
        self.note(&event);
        // Nobody listens any more only while the program is ending.
        let _ = self.sender.send(event).await;
    }

    fn note(&self, event: &Event) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::StageStarted { stage } => at.stage = Some(*stage),
            Event::Planned { plan } => {
                let (nodes, release, running) = (plan.nodes.clone(), plan.release, plan.running);
                *at = At { nodes, release, running, interrupts: plan.interrupts(), ..at.clone() };
            }
            Event::Restoring { .. } => at.restoring = true,
            _ => {}
        }
    }

    /// The stage that began last, if one did.
    pub fn stage(&self) -> Option<StageKind> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).stage
    }

    /// The same events, for who looks on.
    pub fn downgrade(&self) -> WeakEvents {
        WeakEvents { sender: self.sender.downgrade(), at: self.at.clone() }
    }

    /// Tells of progress, unless the report is behind.
    pub fn progress(&self, stage: StageKind, node: &NodeName, progress: Progress) {
        let _ = self.sender.try_send(Event::Progress { stage, node: node.clone(), progress });
    }
}

fn seconds<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value.as_secs_f64() * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stage: Option<StageKind>, restoring: bool) -> At {
        At {
            stage,
            nodes: ["spark1", "spark2"].map(|node| node.parse::<NodeName>().unwrap()).into(),
            release: Some(ReleaseNumber(2)),
            running: Some(ReleaseNumber(1)),
            interrupts: true,
            restoring,
        }
    }

    #[test]
    fn what_a_second_interrupt_leaves() {
        let check = |at: &At, left: &str, will: &str| {
            assert!(at.left().contains(left), "{}", at.left());
            assert!(at.will().contains(will), "{}", at.will());
        };
        check(&At::default(), "no node was changed", "nothing was changed yet");
        let weights = at(Some(StageKind::Weights), false);
        check(&weights, "`weights` is kept on spark1, spark2; what runs was not touched", "stays as it is");
        let stop = at(Some(StageKind::Stop), false);
        check(&stop, "release 1 may be ended on some nodes", "the release before comes back");
        let start = at(Some(StageKind::Start), false);
        check(&start, "release 2 may be started on some nodes only", "the release before comes back");
        let ready = at(Some(StageKind::Ready), false);
        check(&ready, "release 2 runs on spark1, spark2, not proven", "the release before comes back");
        let bench = at(Some(StageKind::Bench), false);
        check(&bench, "release 2 serves", "the benchmark ends");
        let back = at(Some(StageKind::Start), true);
        check(&back, "was being brought back", "the restore that is under way goes on");
        let first = At { running: None, interrupts: false, ..at(Some(StageKind::Start), false) };
        check(&first, "release 2 may be started", "what was started is ended");
    }

    #[tokio::test]
    async fn a_run_tells_what_it_is_at() {
        let (events, mut told) = Events::channel();
        let weak = events.downgrade();
        events.tell(Event::StageStarted { stage: StageKind::Files }).await;
        assert_eq!(weak.at().stage, Some(StageKind::Files));
        drop(events);
        weak.try_tell(Event::Waiting { holder: String::new() });
        assert!(matches!(told.recv().await, Some(Event::StageStarted { .. })));
        assert!(told.recv().await.is_none(), "who looks on keeps no run from its end");
    }
}
