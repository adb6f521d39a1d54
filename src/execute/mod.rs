//! Executing a plan: its stages in order, the steps of a stage at once, through [`Host`]s, told by
//! events. Nothing is decided here; a step that fails ends the execution.

mod bench;
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
use crate::event::{Event, Events};
use crate::host::{Host, HostError};
use crate::plan::{Plan, StageKind};
use crate::profile::NodeName;
use crate::release::Figures;

pub(crate) use step::last_lines;

/// The hosts of a deployment, by node.
pub type Hosts = BTreeMap<NodeName, Arc<dyn Host>>;

/// A wish to end early, that everything which waits listens to.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<bool>);

impl Cancel {
    /// The switch, and what listens to it.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Whether the wish was made.
    pub fn wished(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the wish is made; never where it cannot be any more.
    pub async fn wish(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|wished| *wished).await.is_err() {
            std::future::pending::<()>().await;
        }
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
    /// What a node did is not what was asked of it.
    #[error("{0}")]
    Unexpected(String),
    #[error("interrupted")]
    Cancelled,
}

impl StepError {
    /// The node that failed, where the error knows it: a step may look at others than its own.
    fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Host(error) => Some(error.node()),
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

/// Executes `plan`. What was measured on the way is returned, and recorded by the plan's own last step.
pub async fn execute(
    plan: &Plan,
    hosts: &Hosts,
    events: &Events,
    cancel: &Cancel,
) -> Result<Figures, ExecuteError> {
    let mut clock = step::Clock::default();
    for stage in &plan.stages {
        let began = Instant::now();
        clock.enter(stage.kind);
        events.tell(Event::StageStarted { stage: stage.kind }).await;
        let steps = stage.steps.iter().map(|step| {
            let clock = &clock;
            async move {
                let failed = |source: StepError| {
                    let node = source.node().unwrap_or(&step.node).clone();
                    ExecuteError { stage: stage.kind, node, source }
                };
                let act = step::act(step, stage.kind, hosts, clock, events);
                let done = if is_waiting(stage.kind) {
                    tokio::select! {
                        biased;
                        () = cancel.wish() => Err(StepError::Cancelled),
                        done = act => done,
                    }
                } else if cancel.wished() {
                    Err(StepError::Cancelled)
                } else {
                    tokio::select! {
                        biased;
                        done = act => done,
                        () = async { cancel.wish().await; tokio::time::sleep(GRACE).await } => Err(StepError::Cancelled),
                    }
                };
                let done = done.map_err(failed)?;
                let (node, what) = (step.node.clone(), crate::plan::render::act(&step.node, &step.action));
                events.tell(Event::StepDone { stage: stage.kind, node, what, changed: done.changed }).await;
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
        let detail = (!details.is_empty()).then(|| details.join("; "));
        clock.leave(&done);
        events.tell(Event::StageDone { stage: stage.kind, detail, took: began.elapsed() }).await;
    }
    Ok(clock.figures())
}

/// How long a short step that is under way may go on after the wish to end.
const GRACE: Duration = Duration::from_secs(40);

/// Whether a stage mostly waits (for bytes, for the engine), and may be given up in the middle.
fn is_waiting(stage: StageKind) -> bool {
    matches!(
        stage,
        StageKind::Weights
            | StageKind::Image
            | StageKind::Ready
            | StageKind::Verify
            | StageKind::Gate
            | StageKind::Bench
    )
}
