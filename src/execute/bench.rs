//! The short benchmark of a release: measured from the operator's machine, kept on the nodes, and told beside the release
//! before.
//!
//! Without limits to keep it is only told: whatever goes wrong with it is a warning, since the release serves and was
//! verified. With limits it decides, and what cannot be measured keeps none.

use std::time::Duration;

use super::step::Clock;
use super::{Hosts, StepError, door, readiness};
use crate::bench::compare::compare;
use crate::bench::figure::{Figure, digits};
use crate::bench::load::Progress as Told;
use crate::bench::result::{Load, Report, Subject};
use crate::bench::summary::{Summary, name};
use crate::bench::workload::{Length, Limits, Order, Workload};
use crate::check::Finding;
use crate::error::in_full;
use crate::event::{Event, Events, Progress};
use crate::host::{Host, HostError};
use crate::plan::{BenchSpec, StageKind};
use crate::release::store;

/// Runs at each load: the fewest whose own spread tells the noise.
const RUNS: u32 = 3;
/// The least requests of a run.
const REQUESTS: u32 = 2;
/// How long a completion may take behind a load that failed.
const AFTERWARDS: Duration = Duration::from_secs(60);
/// How long one load may take; what is under way then counts as failed.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Measures; what it bore, and that in words.
pub(super) async fn bench(
    head: &dyn Host,
    hosts: &Hosts,
    spec: &BenchSpec,
    clock: &Clock,
    events: &Events,
    stage: StageKind,
) -> Result<(Option<Summary>, String), StepError> {
    let gated = !spec.gate.0.is_empty();
    let report = match measure(head, spec, events, stage).await {
        Ok(report) => report,
        Err(error) if gated => return Err(error.into()),
        Err(error) => {
            warn(events, "bench-failed", format!("the benchmark could not be done: {}", in_full(&error)))
                .await;
            return Ok((None, "nothing was measured".to_owned()));
        }
    };
    let summary = Summary::of(&report);
    let unanswered = unanswered(&summary, &report);
    if !unanswered.is_empty() && !gated {
        serves(head, spec).await?;
    }
    for (load, message) in unanswered {
        let message = format!("the benchmark at {load}: {message}");
        warn(events, "bench-requests", message).await;
    }
    let kept = store::write_bench(head, &spec.release.deployment, spec.release.number, &report).await;
    told(events, kept).await;
    let broken = spec.gate.broken(&report);
    if !broken.is_empty() {
        return Err(StepError::Slow(broken));
    }
    if !gated {
        let mut release = clock.with_what_is_known(&spec.release);
        release.figures.bench = Some(summary.clone());
        for rank in &release.ranks {
            if let Some(host) = hosts.get(&rank.node) {
                told(events, store::write(host.as_ref(), &release).await.map(drop)).await;
            }
        }
    }
    let words = format!("{}{}", summary.line(), against(spec, &summary));
    Ok((Some(summary), words))
}

/// Every load by itself, as each has its own number of requests.
async fn measure(
    head: &dyn Host,
    spec: &BenchSpec,
    events: &Events,
    stage: StageKind,
) -> Result<Report, HostError> {
    let subject = Subject {
        url: spec.url.clone(),
        model: spec.endpoint.model.clone(),
        deployment: Some(spec.release.deployment.clone()),
        release: Some(spec.release.number),
    };
    let mut whole: Option<Report> = None;
    for requests in &spec.how.concurrency {
        let order = Order {
            workload: Workload {
                input: Length::fixed(spec.how.input_tokens),
                output: Some(Length::fixed(spec.how.output_tokens)),
                ..Workload::default()
            },
            loads: vec![Load::Concurrency(*requests)],
            requests: Some((*requests).max(REQUESTS)),
            duration: None,
            repeat: RUNS,
            warmup: None,
            limits: Limits { total: LIMIT, ..Limits::default() },
        };
        let mut told = |progress: Told| {
            if let Told::Begun { load, run, .. } = progress {
                let figure = if run == 0 { "warming up".to_owned() } else { format!("run {run} of {RUNS}") };
                let progress = Progress::Engine { stage: name(&load), figure: Some(figure), fraction: None };
                events.progress(stage, head.node(), progress);
            }
        };
        let report = door::measure(head, &spec.endpoint, &order, &subject, &mut told).await?;
        match &mut whole {
            None => whole = Some(report),
            Some(whole) => whole.join(report),
        }
    }
    whole.ok_or_else(|| HostError::Failed {
        node: head.node().clone(),
        what: "bench".to_owned(),
        why: "no load is named".to_owned(),
    })
}

/// An engine that a load killed does not serve, whatever was verified before.
async fn serves(head: &dyn Host, spec: &BenchSpec) -> Result<(), StepError> {
    let keyed = door::of(head, &spec.endpoint).await?;
    let answer = readiness::complete(&keyed, &spec.endpoint, AFTERWARDS).await?;
    if answer.status == 200 {
        return Ok(());
    }
    let why =
        format!("the benchmark's requests failed, and now a completion as well: HTTP {}", answer.status);
    Err(StepError::Unexpected(why))
}

/// Loads with failed requests, and how the first of them failed.
fn unanswered(summary: &Summary, report: &Report) -> Vec<(String, String)> {
    let failed = summary.loads.iter().zip(&report.points).filter(|(load, _)| load.failed > 0);
    failed
        .map(|(load, point)| {
            let mut failures =
                point.runs.iter().flat_map(|run| &run.requests).filter_map(|r| r.failure.as_ref());
            let why = failures.next().map_or("", |failure| failure.message.as_str());
            (name(&load.load), format!("{} of {} requests failed: {why}", load.failed, load.requests))
        })
        .collect()
}

/// The release before, and whether that differs.
fn against(spec: &BenchSpec, now: &Summary) -> String {
    let Some((number, before)) = &spec.before else { return String::new() };
    match compare(before, now) {
        Ok(comparison) => {
            let rate = |load: &crate::bench::summary::LoadSummary| load.value(Figure::Throughput).map(digits);
            let rates: Vec<_> = before.loads.iter().filter_map(rate).collect();
            format!(" (release {number}: {}; {})", rates.join(", "), comparison.words())
        }
        Err(_) => format!(" (release {number} was measured otherwise)"),
    }
}

async fn told(events: &Events, kept: Result<(), HostError>) {
    if let Err(error) = kept {
        warn(events, "bench-not-kept", format!("the benchmark is not kept: {}", in_full(&error))).await;
    }
}

async fn warn(events: &Events, id: &'static str, message: String) {
    let hint = "measure it again with `sparkctl bench`";
    events.tell(Event::Warning { finding: Finding::warning(id, None, message, hint) }).await;
}
