//! One match over [`Action`]: the only place that acts. Every act says whether it changed anything,
//! and does nothing where the node is already so.

use std::time::Duration;

use tokio::time::Instant;

use super::{Hosts, StepError, bench, readiness, verify};
use crate::bench::summary::Summary;
use crate::cluster::facts::Image;
use crate::container::{Rank, container_name, labels};
use crate::delivery::store as delivery;
use crate::event::{Events, Progress};
use crate::host::{Host, NewContainer};
use crate::plan::render::{people, size};
use crate::plan::{Action, StageKind, Step};
use crate::profile::DeploymentName;
use crate::release::{Figures, Outcome, Release, ReleaseNumber, store};
use crate::transfer::{ImageJob, WeightsJob, copy_image, copy_weights};

/// How long an engine may take to end by itself before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// What a step did.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// False where the node was so already.
    pub changed: bool,
    /// A figure for people.
    pub detail: Option<String>,
    /// Seconds of the first completion, where the step waited for one.
    pub first_completion: Option<f64>,
    /// What was measured, where the step measured.
    pub bench: Option<Summary>,
}

fn changed(changed: bool) -> Done {
    Done { changed, ..Done::default() }
}

/// The times of a run that go into its record.
#[derive(Debug, Default)]
pub(super) struct Clock {
    stopped: Option<Instant>,
    started: Option<Instant>,
    figures: Figures,
}

impl Clock {
    pub(super) fn enter(&mut self, stage: StageKind) {
        match stage {
            StageKind::Stop => self.stopped = Some(Instant::now()),
            StageKind::Start => self.started = Some(Instant::now()),
            _ => {}
        }
    }

    pub(super) fn leave(&mut self, done: &[Done]) {
        if let Some(first) = done.iter().find_map(|done| done.first_completion) {
            let since = |then: Option<Instant>| then.map(|then| then.elapsed().as_secs_f64());
            self.figures = Figures {
                start_seconds: since(self.started),
                outage_seconds: since(self.stopped),
                first_completion_seconds: Some(first),
                ..Figures::default()
            };
        }
        if let Some(bench) = done.iter().find_map(|done| done.bench.clone()) {
            self.figures.bench = Some(bench);
        }
    }

    pub(super) fn figures(&self) -> Figures {
        self.figures.clone()
    }
}

/// Does what `step` says.
pub(super) async fn act(
    step: &Step,
    stage: StageKind,
    hosts: &Hosts,
    clock: &Clock,
    events: &Events,
) -> Result<Done, StepError> {
    let host = |node| -> Result<&dyn Host, StepError> {
        let found = hosts.get(node).map(AsRef::as_ref);
        found.ok_or_else(|| {
            StepError::Unexpected(format!("the plan names {node}, which is not of the cluster"))
        })
    };
    let node = host(&step.node)?;
    let total_of =
        |total: u64| move |done: u64| events.progress(stage, &step.node, Progress::Bytes { done, total });
    match &step.action {
        Action::CopyWeights { from, from_address, to_address, path, files, bytes } => {
            let job = WeightsJob {
                path: path.clone(),
                from_address: *from_address,
                to_address: *to_address,
                files: files.clone(),
                bytes: *bytes,
            };
            let report = copy_weights(host(from)?, node, &job, &mut total_of(*bytes)).await?;
            Ok(moved(report.bytes, report.seconds, &step.node))
        }
        Action::CopyImage { from, from_address, to_address, image, content, bytes } => {
            let source = host(from)?;
            source.tag_image(image, &content.kept_as()).await?;
            if node.images().await?.iter().any(|image| &image.content == content) {
                return Ok(changed(false));
            }
            let job = ImageJob {
                image: content.kept_as(),
                reference: content.kept_as(),
                content: content.clone(),
                from_address: *from_address,
                to_address: *to_address,
                bytes: *bytes,
            };
            let report = copy_image(source, node, &job, &mut total_of(*bytes)).await?;
            Ok(moved(report.bytes, report.seconds, &step.node))
        }
        Action::KeepImage { image, content } => {
            node.tag_image(image, &content.kept_as()).await?;
            Ok(changed(true))
        }
        Action::PutFile { kept, content, .. } | Action::PutSecrets { kept, content, .. } => {
            Ok(changed(delivery::put(node, kept, content).await?))
        }
        Action::CopyKept { from, kept, .. } => {
            let content = delivery::take(host(from)?, kept).await?;
            Ok(changed(delivery::put(node, kept, &content).await?))
        }
        Action::WriteRelease { release } => {
            let measured = release.outcome == Outcome::Deployed && release.figures == Figures::default();
            let figures = if measured { clock.figures() } else { release.figures.clone() };
            let release = Release { figures, ..Release::clone(release) };
            Ok(changed(store::write(node, &release).await?))
        }
        Action::Retire { container, release, rank } => retire(node, container, *release, *rank).await,
        Action::Start { deployment, release, rank } => start(node, deployment, *release, rank).await,
        Action::AwaitReady { ready } => {
            let first = readiness::await_ready(ready, hosts, events, stage).await?;
            let detail = format!("first completion in {}", people(first));
            Ok(Done { detail: Some(detail), first_completion: Some(first.as_secs_f64()), ..Done::default() })
        }
        Action::Verify { endpoint, verify } => {
            let asked = verify::verify(node, endpoint, verify).await?;
            Ok(Done { detail: Some(asked.join(", ")), ..Done::default() })
        }
        Action::Bench { bench: spec } => {
            let (summary, detail) = bench::bench(node, hosts, spec, clock.figures(), events, stage).await?;
            Ok(Done { detail: Some(detail), bench: summary, ..Done::default() })
        }
        Action::KeepRunning { container } => {
            node.set_restart(container, "unless-stopped").await?;
            match node.container(container).await? {
                Some(there) if there.state.running => Ok(changed(true)),
                _ => {
                    Err(StepError::Unexpected(format!("container `{container}` ended after it was verified")))
                }
            }
        }
    }
}

fn moved(bytes: u64, seconds: f64, to: &crate::profile::NodeName) -> Done {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate for people"
    )]
    let rate = (bytes as f64 / seconds.max(0.001)) as u64;
    let time = people(Duration::from_secs_f64(seconds));
    Done {
        changed: true,
        detail: Some(format!("{} to {to} in {time} ({}/s)", size(bytes), size(rate))),
        ..Done::default()
    }
}

/// Ends a container of ours for good. Its log is kept on the node before it is removed; the restart
/// policy goes first, so that a node which boots in the middle does not bring it back.
async fn retire(
    node: &dyn Host,
    container: &str,
    release: ReleaseNumber,
    rank: u32,
) -> Result<Done, StepError> {
    let Some(found) = node.container(container).await? else { return Ok(changed(false)) };
    let Some(ours) = found.ours else {
        return Err(StepError::Unexpected(format!(
            "container `{container}` is not sparkctl's; it was left alone"
        )));
    };
    node.set_restart(container, "no").await?;
    node.stop_container(container, STOP_GRACE).await?;
    store::save_log(node, &ours.deployment, release, rank, container).await?;
    node.remove_container(container).await?;
    Ok(changed(true))
}

/// The last lines of a container's log as one text, without the secrets of its deployment. Where those cannot be
/// known, there is no text.
pub(crate) async fn last_lines(
    node: &dyn Host,
    deployment: &DeploymentName,
    container: &str,
    count: u32,
) -> Result<String, StepError> {
    let redactor = delivery::redactor(node, deployment).await?;
    let mut lines = node.container_log(container, Some(count), false).await?;
    let mut text = String::new();
    while let Some(line) = lines.recv().await {
        text.push_str(&redactor.redact(&line));
        text.push('\n');
    }
    Ok(text)
}

async fn start(
    node: &dyn Host,
    deployment: &DeploymentName,
    release: ReleaseNumber,
    rank: &Rank,
) -> Result<Done, StepError> {
    let name = container_name(deployment, rank.rank);
    if let Some(there) = node.container(&name).await? {
        let same = there.ours.is_some_and(|ours| ours.release == release && ours.spec == rank.spec.digest());
        if !same {
            let why = format!("a container named `{name}` is in the way; it was left alone");
            return Err(StepError::Unexpected(why));
        }
        if there.state.running {
            return Ok(changed(false));
        }
    } else {
        let content = &rank.spec.image;
        let kept = content.kept_as();
        let is_kept = |image: &Image| &image.content == content && image.references.contains(&kept);
        if !node.images().await?.iter().any(is_kept) {
            return Err(StepError::Unexpected(format!("image {content} is not on {} any more", node.node())));
        }
        node.create_container(&NewContainer {
            labels: labels(deployment, release, rank),
            name: name.clone(),
            image: kept,
            spec: rank.spec.clone(),
        })
        .await?;
    }
    node.start_container(&name).await?;
    Ok(changed(true))
}
