//! One match over [`Action`]: the only place that acts. Every act says whether it changed anything,
//! and does nothing where the node is already so.

use std::time::Duration;

use tokio::time::Instant;

use super::readiness::{self, Started};
use super::{Executed, Hosts, StepError, bench, cache, door, verify};
use crate::bench::summary::Summary;
use crate::cluster::facts::{Image, ModelFile};
use crate::container::{Rank, container_name, labels};
use crate::delivery::store as delivery;
use crate::engine::figures::EngineFigures;
use crate::event::{Events, Progress};
use crate::hooks::{self, Told};
use crate::host::{Host, HostError, NewContainer};
use crate::plan::render::{people, size};
use crate::plan::{self, Action, Stage, StageKind, Step};
use crate::profile::{DeploymentName, Moment};
use crate::release::{Figures, Foreign, Outcome, Release, ReleaseNumber, store};
use crate::transfer::{
    ImageJob, ImageReport, Taker, WeightsJob, WeightsReport, copy_image, copy_weights, remove_files,
};

/// How long an engine may take to end by itself before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// What a step did.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    /// False where the node was so already.
    pub changed: bool,
    /// A figure for people.
    pub detail: Option<String>,
    /// Bytes that went over the fabric.
    pub moved: u64,
    /// The files of the model, with the hashes that were computed.
    pub weights: Vec<ModelFile>,
    /// Seconds of the first completion, where the step waited for one.
    pub first_completion: Option<f64>,
    /// What was measured, where the step measured.
    pub bench: Option<Summary>,
    /// What the engine said of its start, where the step waited for that.
    pub engine: EngineFigures,
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
    moved: u64,
    weights: Vec<ModelFile>,
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
        self.moved += done.iter().map(|done| done.moved).sum::<u64>();
        // A model may have come in parts, and each of them knows the hashes of its own.
        for (at, file) in done.iter().flat_map(|done| done.weights.iter().enumerate()) {
            match self.weights.get_mut(at) {
                Some(known) => known.sha256 = known.sha256.take().or_else(|| file.sha256.clone()),
                None => self.weights.push(file.clone()),
            }
        }
        if let Some(first) = done.iter().find_map(|done| done.first_completion) {
            let since = |then: Option<Instant>| then.map(|then| then.elapsed().as_secs_f64());
            self.figures = Figures {
                start_seconds: since(self.started),
                outage_seconds: since(self.stopped),
                first_completion_seconds: Some(first),
                engine: done.iter().fold(EngineFigures::default(), |all, done| all.with(&done.engine)),
                bench: None,
            };
        }
        if let Some(bench) = done.iter().find_map(|done| done.bench.clone()) {
            self.figures.bench = Some(bench);
        }
    }

    /// What the run came to.
    pub(super) fn executed(self) -> Executed {
        Executed { figures: self.figures, moved: self.moved }
    }

    /// The content of a release's weights, where it was not known to the plan and is now.
    fn content_of(&self, release: &Release) -> Option<String> {
        let same =
            release.weights_content.is_none() && plan::weights_digest(&self.weights) == release.weights;
        if same { plan::weights_content(&self.weights) } else { None }
    }

    /// The record of a release with what the run has come to know of it.
    pub(super) fn with_what_is_known(&self, release: &Release) -> Release {
        let measured = release.outcome == Outcome::Deployed && release.figures == Figures::default();
        let figures = if measured { self.figures.clone() } else { release.figures.clone() };
        let weights_content = release.weights_content.clone().or_else(|| self.content_of(release));
        Release { weights_content, figures, ..release.clone() }
    }
}

/// Does what `step` says.
///
/// `share`: of weights that come in several steps, the bytes before this one and those of all, for who looks on.
pub(super) async fn act(
    step: &Step,
    share: Option<(u64, u64)>,
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
    let total_of = |bytes: u64| {
        let (before, total) = share.unwrap_or((0, bytes));
        move |done: u64| events.progress(stage, &step.node, Progress::Bytes { done: before + done, total })
    };
    match &step.action {
        Action::CopyWeights { from, rails, transfer, path, files, bytes, compare, verify, model } => {
            let job = WeightsJob {
                path: path.clone(),
                rails: rails.clone(),
                transfer: *transfer,
                files: files.clone(),
                verify: *verify,
            };
            let report = copy_weights(host(from)?, node, &job, &mut total_of(bytes + compare)).await?;
            Ok(weights_came(&report, node, files, model))
        }
        Action::RemoveFiles { path, files } => Ok(changed(remove_files(node, path, files).await?)),
        Action::CopyImage { from_address, to, image, content, names, bytes, .. } => {
            node.tag_image(image, &content.kept_as()).await?;
            let job =
                ImageJob { content: content.clone(), from_address: *from_address, leave_out: names.clone() };
            let mut takers = Vec::new();
            for plan::Taker { node, address } in to {
                let taker = host(node)?;
                if !taker.images().await?.iter().any(|image| &image.content == content) {
                    takers.push(Taker { host: taker, address: *address });
                }
            }
            if takers.is_empty() {
                return Ok(changed(false));
            }
            let mut progress = |at: usize, done| {
                let node = takers[at].host.node();
                events.progress(stage, node, Progress::Bytes { done, total: (*bytes).max(done) });
            };
            all_moved(copy_image(node, &takers, &job, &mut progress).await, &takers, !names.is_empty())
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
            Ok(changed(store::write(node, &clock.with_what_is_known(release)).await?))
        }
        Action::Retire { container, release, rank } => retire(node, container, *release, *rank).await,
        Action::WriteEnded { deployment, ended } => {
            store::write_ended(node, deployment, ended).await?;
            Ok(changed(true))
        }
        Action::StopForeign { foreign } => stop_foreign(node, foreign).await,
        Action::ReturnForeign { foreign } => return_foreign(node, foreign).await,
        Action::DropCache { path, whole } => {
            let dropped = cache::drop_cache(node, path, *whole).await;
            let changed = dropped.is_ok();
            let told = dropped.unwrap_or_else(|why| format!("the page cache stays: {why}"));
            Ok(Done { changed, detail: Some(format!("{}: {told}", step.node)), ..Done::default() })
        }
        Action::Start { deployment, release, rank } => start(node, deployment, *release, rank).await,
        Action::AwaitReady { ready } => {
            let Started { first, engine } = readiness::await_ready(ready, hosts, events, stage).await?;
            let detail = format!("first completion in {}", people(first));
            let first_completion = Some(first.as_secs_f64());
            Ok(Done { detail: Some(detail), first_completion, engine, ..Done::default() })
        }
        Action::Verify { endpoint, verify } => {
            let asked =
                verify::verify(&door::of(node, endpoint).await?, endpoint, verify, events, stage).await?;
            Ok(Done { detail: Some(asked.join(", ")), ..Done::default() })
        }
        Action::Bench { bench: spec } => {
            let (summary, detail) = bench::bench(node, hosts, spec, clock, events, stage).await?;
            Ok(Done { detail: Some(detail), bench: summary, ..Done::default() })
        }
        Action::RunHook { hook, deployment, release, endpoint, token } => {
            let told = Told {
                outcome: None,
                release: Some(*release),
                endpoint: Some(endpoint),
                ..Told::new(Moment::PostReady, "deploy", deployment)
            };
            let said = hooks::run(hook, &told, token).await?;
            Ok(Done { detail: (!said.is_empty()).then_some(said), ..Done::default() })
        }
        Action::KeepRunning { container } => keep_running(node, container).await,
    }
}

/// From now on the container comes back when it ends, or the node boots; and it has to run just now.
async fn keep_running(node: &dyn Host, container: &str) -> Result<Done, StepError> {
    node.set_restart(container, "unless-stopped").await?;
    match node.container(container).await? {
        Some(there) if there.state.running => Ok(changed(true)),
        _ => Err(StepError::Unexpected(format!("container `{container}` ended after it was verified"))),
    }
}

/// The copies of an image as one step. Where some failed, they are the step's error, each in its words.
fn all_moved(
    results: Vec<Result<ImageReport, HostError>>,
    to: &[Taker<'_>],
    in_part: bool,
) -> Result<Done, StepError> {
    let (mut done, mut errors) = (Done { changed: true, ..Done::default() }, Vec::new());
    let mut details = Vec::new();
    for (result, taker) in results.into_iter().zip(to) {
        match result {
            Ok(report) => {
                let one = moved(report.bytes, report.seconds, taker.host.node());
                let way = match report {
                    ImageReport { not_enough: Some(why), .. } => {
                        format!(", in full as a part was not enough: {why}")
                    }
                    ImageReport { left_out: 0, .. } if in_part => {
                        ", in full, as the archive has other names for its layers".to_owned()
                    }
                    ImageReport { left_out: 0, .. } => ", in full".to_owned(),
                    ImageReport { left_out: 1, .. } => ", without 1 layer that was there".to_owned(),
                    ImageReport { left_out, .. } => format!(", without {left_out} layers that were there"),
                };
                details.push(one.detail.unwrap_or_default() + &way);
                done.moved += one.moved;
            }
            Err(error) => errors.push(error),
        }
    }
    done.detail = Some(details.join("; "));
    if errors.len() > 1 {
        return Err(StepError::Several(errors));
    }
    errors.pop().map_or(Ok(done), |error| Err(error.into()))
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
        moved: bytes,
        ..Done::default()
    }
}

/// What came to the nodes where they passed weights on.
pub(super) fn passed_on(stage: &Stage, done: &[Done], took: Duration) -> String {
    let to = stage.steps.iter().filter(|step| matches!(step.action, Action::CopyWeights { .. }));
    let mut nodes: Vec<_> = to.map(|step| step.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let bytes = done.iter().map(|done| done.moved).sum();
    format!("{} to {} in {}, passed on from node to node", size(bytes), nodes.join(", "), people(took))
}

/// Files that came, and whose hashes are known now.
fn weights_came(report: &WeightsReport, node: &dyn Host, files: &[ModelFile], model: &[ModelFile]) -> Done {
    let hashed = model.iter().map(|file| {
        let sha256 = report.hashes.get(&file.path).cloned().or_else(|| file.sha256.clone());
        ModelFile { sha256, ..file.clone() }
    });
    let done = Done { weights: hashed.collect(), ..moved(report.bytes, report.seconds, node.node()) };
    let compared = u64::try_from(files.len()).map_or(0, |files| files.saturating_sub(report.files));
    let verified = |count: u64| {
        format!("{count} {} verified on {}", if count == 1 { "file" } else { "files" }, node.node())
    };
    let detail = match (report.files, compared) {
        (_, 0) => done.detail,
        (0, _) => Some(format!("{}, 0 bytes moved", verified(compared))),
        _ => done.detail.map(|moved| format!("{moved}, {}", verified(compared))),
    };
    Done { detail, ..done }
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

/// Stops a container of other people's; it is not removed, and its log stays. It is stopped first: a node that boots in
/// the middle then brings it back as it was, and one that boots later leaves it stopped.
async fn stop_foreign(node: &dyn Host, foreign: &Foreign) -> Result<Done, StepError> {
    let Some(found) = node.container(&foreign.id).await? else { return Ok(changed(false)) };
    if found.state.running {
        node.stop_container(&foreign.id, STOP_GRACE).await?;
    }
    node.set_restart(&foreign.id, "no").await?;
    match node.container(&foreign.id).await? {
        Some(there) if there.state.running => {
            Err(StepError::Unexpected(format!("{foreign} runs again, though it was stopped")))
        }
        _ => Ok(changed(true)),
    }
}

/// Starts a container of other people's again, with the restart policy that it had. One that its owner removed, or
/// started again, is the owner's affair.
async fn return_foreign(node: &dyn Host, foreign: &Foreign) -> Result<Done, StepError> {
    let found = node.container(&foreign.id).await?;
    if found.is_none_or(|found| found.state.running) {
        return Ok(changed(false));
    }
    node.set_restart(&foreign.id, &foreign.restart).await?;
    node.start_container(&foreign.id).await?;
    match node.container(&foreign.id).await? {
        Some(there) if there.state.running && there.restart == foreign.restart => Ok(changed(true)),
        _ => Err(StepError::Unexpected(format!("{foreign} was started, and does not run as it did"))),
    }
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
