//! Executing a plan: its stages in order, the steps of a stage at once, through [`Host`]s, told by
//! events. Nothing is decided here; a step that fails ends the execution.

mod bench;
mod cache;
pub mod door;
pub mod environment;
mod ladder;
mod looks;
pub mod readiness;
mod step;
pub mod verify;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::bench::gate::Broken;
use crate::error::in_full;
use crate::event::{Event, Events};
use crate::hooks::HookError;
use crate::host::{Host, HostError};
use crate::plan::{Plan, Stage, StageKind};
use crate::profile::NodeName;
use crate::release::Figures;
use crate::release::journal::{Journal, State};
use crate::release::lock::Lock;

pub(crate) use step::last_lines;

/// The hosts of a deployment, by node.
pub type Hosts = BTreeMap<NodeName, Arc<dyn Host>>;

/// A wish to end early, that everything which waits listens to.
#[derive(Debug, Clone)]
pub struct Cancel {
    wish: watch::Receiver<bool>,
    /// Without its lock an operation has to end as well, whatever anybody wishes.
    lost: Option<watch::Receiver<Option<NodeName>>>,
}

impl Cancel {
    /// The switch, and what listens to it.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, wish) = watch::channel(false);
        (sender, Self { wish, lost: None })
    }

    /// The same, that also ends what goes on without its lock.
    #[must_use]
    pub fn or_lost(&self, lock: &Lock) -> Self {
        Self { lost: Some(lock.watch()), ..self.clone() }
    }

    /// Whether the wish was made.
    pub fn wished(&self) -> bool {
        *self.wish.borrow()
    }

    /// Why to end now, if there is a reason.
    fn reason(&self) -> Option<StepError> {
        let lost = self.lost.as_ref().and_then(|lost| lost.borrow().clone());
        match lost {
            Some(node) => Some(StepError::LockLost { node }),
            None => self.wished().then_some(StepError::Cancelled),
        }
    }

    /// Completes when the wish is made; never where it cannot be any more.
    pub async fn wish(&self) {
        let mut wish = self.wish.clone();
        if wish.wait_for(|wished| *wished).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Completes with the reason to end, when there is one.
    async fn end(&self) -> StepError {
        let lost = async {
            let Some(mut lost) = self.lost.clone() else { return std::future::pending().await };
            if lost.wait_for(Option::is_some).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.wish() => {}
            () = lost => {}
        }
        self.reason().unwrap_or(StepError::Cancelled)
    }
}

/// Why a step did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    NotReady(#[from] readiness::NotReady),
    #[error(transparent)]
    Wrong(#[from] verify::WrongAnswer),
    /// What was measured does not keep the profile's limits.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Slow(Vec<Broken>),
    #[error(transparent)]
    Hook(#[from] HookError),
    /// What a node did is not what was asked of it.
    #[error("{0}")]
    Unexpected(String),
    /// Several nodes of one step failed, each for itself.
    #[error("{}", all(.0))]
    Several(Vec<HostError>),
    #[error("interrupted")]
    Cancelled,
    /// Another operation may be at work by now.
    #[error("the lock of {node} was lost: sparkctl was away for longer than it is kept")]
    LockLost { node: NodeName },
}

fn all(errors: &[HostError]) -> String {
    errors.iter().map(|error| in_full(error)).collect::<Vec<_>>().join("; and ")
}

impl StepError {
    /// Why a group did not become ready, where that is it.
    pub fn not_ready(&self) -> Option<&readiness::NotReady> {
        match self {
            Self::NotReady(why) => Some(why),
            _ => None,
        }
    }

    /// The node that failed, where the error knows it: a step may look at others than its own.
    fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Host(error) => Some(error.node()),
            Self::Several(errors) => errors.first().map(HostError::node),
            Self::NotReady(
                readiness::NotReady::Ended { node, .. } | readiness::NotReady::Gone { node, .. },
            ) => Some(node),
            _ => None,
        }
    }
}

/// A step that failed, and where.
#[derive(Debug, thiserror::Error)]
#[error("{stage} failed on {node}")]
pub struct ExecuteError {
    pub stage: StageKind,
    pub node: NodeName,
    pub source: StepError,
}

/// What a plan that was executed came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Executed {
    /// What was measured on the way; the plan's own last step records it.
    pub figures: Figures,
    /// Bytes that went over the fabric.
    pub moved: u64,
}

/// Executes `plan`. Stages that only move bytes go together where they follow one another. Ahead of each, the journal says
/// what it is.
pub async fn execute(
    plan: &Plan,
    hosts: &Hosts,
    events: &Events,
    cancel: &Cancel,
    journal: &Journal,
) -> Result<Executed, ExecuteError> {
    let mut clock = step::Clock::default();
    let together = |one: &Stage, next: &Stage| moves_bytes(one.kind) && moves_bytes(next.kind);
    for stages in plan.stages.chunk_by(together) {
        journal.begin(stages, events).await;
        for stage in stages {
            clock.enter(stage.kind);
            events.tell(Event::StageStarted { stage: stage.kind }).await;
        }
        let all = stages.iter().map(|stage| act(stage, hosts, &clock, events, cancel));
        // One that fails ends the others: their scripts end with their input and leave nodes as they were.
        let done = try_join_all(all).await;
        journal.end_stages(stages, if done.is_ok() { State::Done } else { State::Failed });
        clock.leave(&done?.concat());
    }
    Ok(clock.executed())
}

/// Does the steps of a stage at once, but for those that wait for others of it.
async fn act(
    stage: &Stage,
    hosts: &Hosts,
    clock: &step::Clock,
    events: &Events,
    cancel: &Cancel,
) -> Result<Vec<step::Done>, ExecuteError> {
    let began = Instant::now();
    let waits = stage.waits();
    let ended: Vec<_> = stage.steps.iter().map(|_| watch::channel(false).0).collect();
    let steps = stage.steps.iter().enumerate().map(|(at, step)| {
        let ended = &ended;
        let before: Vec<_> = waits[at].iter().map(|earlier| ended[*earlier].subscribe()).collect();
        async move {
            for mut earlier in before {
                // A step that fails ends the stage, and with it whoever waits.
                let _ = earlier.wait_for(|ended| *ended).await;
            }
            let failed = |source: StepError| {
                let node = source.node().unwrap_or(&step.node).clone();
                ExecuteError { stage: stage.kind, node, source }
            };
            let act = step::act(step, stage.share(at), stage.kind, hosts, clock, events);
            let done = if is_waiting(stage.kind) {
                tokio::select! {
                    biased;
                    reason = cancel.end() => Err(reason),
                    done = act => done,
                }
            } else if let Some(reason) = cancel.reason() {
                Err(reason)
            } else {
                tokio::select! {
                    biased;
                    done = act => done,
                    reason = async {
                        let reason = cancel.end().await;
                        tokio::time::sleep(GRACE).await;
                        reason
                    } => Err(reason),
                }
            };
            let done = done.map_err(failed)?;
            let (node, what) = (step.node.clone(), crate::plan::render::act(&step.node, &step.action));
            events.tell(Event::StepDone { stage: stage.kind, node, what, changed: done.changed }).await;
            ended[at].send_replace(true);
            Ok(done)
        }
    });
    let done = if is_waiting(stage.kind) {
        try_join_all(steps).await?
    } else {
        // What was begun on one node is not left in mid-air because another node failed: whoever
        // looks next would see a state that is about to change.
        join_all(steps).await.into_iter().collect::<Result<Vec<_>, _>>()?
    };
    let details: Vec<_> = done.iter().filter_map(|done| done.detail.clone()).collect();
    let detail = if waits.iter().any(|before| !before.is_empty()) {
        Some(step::passed_on(stage, &done, began.elapsed()))
    } else {
        (!details.is_empty()).then(|| details.join("; "))
    };
    events.tell(Event::StageDone { stage: stage.kind, detail, took: began.elapsed() }).await;
    Ok(done)
}

/// How long a short step that is under way may go on after the wish to end.
const GRACE: Duration = Duration::from_secs(40);

/// Whether a stage only moves bytes to where nothing of them is used yet.
fn moves_bytes(stage: StageKind) -> bool {
    matches!(stage, StageKind::Weights | StageKind::Image)
}

/// Whether a stage mostly waits (for bytes, for a disk, for the engine), and may be given up in the middle.
fn is_waiting(stage: StageKind) -> bool {
    matches!(
        stage,
        StageKind::Weights
            | StageKind::Image
            | StageKind::Memory
            | StageKind::Ready
            | StageKind::Verify
            | StageKind::Gate
            | StageKind::Hook
            | StageKind::Bench
    )
}
