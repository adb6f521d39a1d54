//! Status and history as tables for people.

use std::fmt::Write;

use jiff::Timestamp;

use crate::bench::summary::Summary;
use crate::plan::render::people;
use crate::profile::Launch;
use crate::release::{Outcome, Release, ReleaseNumber};
use crate::status::{Health, RankStatus, Status, ended, since};

/// The status screen; with `verbose` also what the engine said of its start.
pub fn status(status: &Status, now: Timestamp, verbose: bool) -> String {
    let mut out = String::new();
    let word = match status.health {
        Health::Serving => "serving",
        Health::Starting => "starting",
        Health::Degraded => "DEGRADED",
        Health::Stopped => "stopped",
        Health::Unknown => "UNKNOWN",
    };
    let release = status.release.map_or_else(String::new, |release| format!("release {release}, "));
    let what = status
        .problems
        .first()
        .map_or_else(|| format!("  {}", status.endpoint), |p| format!(": {}", p.message));
    let what = if status.health == Health::Stopped { String::new() } else { what };
    let _ = writeln!(out, "{}   {release}{word}{what}", status.deployment);
    let width = status.ranks.iter().map(|rank| rank.node.as_str().len()).max().unwrap_or(0).max(4);
    let _ = writeln!(
        out,
        "  RANK  {:width$}  ROLE    CONTAINER  FABRIC           MEMORY           GPU         SINCE",
        "NODE"
    );
    for rank in &status.ranks {
        let _ = writeln!(out, "  {}", row(rank, width, now).trim_end());
    }
    let mut tail = Vec::new();
    if let Some(group) = &status.group {
        let there = group.wanted.intersection(&group.alive).count();
        let all = group.wanted.len();
        tail.push(match group.launch {
            Launch::Ray => format!("Ray {there} of {all} nodes"),
            Launch::Native => format!("native {there} of {all} ranks"),
        });
    }
    if let Some(load) = &status.load {
        if let (Some(running), Some(waiting)) = (load.running, load.waiting) {
            tail.push(format!("running {running:.0}, waiting {waiting:.0}"));
        }
        if let Some(used) = load.kv_cache {
            tail.push(format!("KV cache {:.0} %", used * 100.0));
        }
        if let Some(accepted) = load.accepted {
            let step =
                load.tokens_a_step.map_or_else(String::new, |step| format!(", {step:.1} tokens a step"));
            tail.push(format!("guesses {:.0} % right{step}", accepted * 100.0));
        }
    }
    if let Some(Ok(seconds)) = &status.probe {
        tail.push(format!("one token in {}", people(std::time::Duration::from_secs_f64(*seconds))));
    }
    if !tail.is_empty() {
        let _ = writeln!(out, "  {}", tail.join(" · "));
    }
    if let Some(rung) = status.rung.filter(|_| status.health != Health::Serving) {
        let _ = writeln!(out, "  reached: {rung}");
    }
    let figures = status.engine.words();
    if verbose && !figures.is_empty() {
        let _ = writeln!(out, "  at its start: {}", figures.join(" · "));
    }
    if let Some(operation) = &status.operation {
        let _ = writeln!(out, "  under way: {operation}");
    }
    for problem in status.problems.iter().skip(1) {
        let _ = writeln!(out, "  {}", problem.message);
    }
    for warning in &status.warnings {
        let _ = writeln!(out, "  warning: {}", warning.message);
    }
    let all = status.problems.iter().chain(&status.warnings);
    let mut hints: Vec<_> = all.filter_map(|problem| problem.hint.as_ref()).collect();
    hints.dedup();
    for hint in hints {
        let _ = writeln!(out, "  hint: {hint}");
    }
    out
}

fn row(rank: &RankStatus, width: usize, now: Timestamp) -> String {
    let start = format!("{:<4}  {:width$}  {:<6}", rank.rank, rank.node, rank.role);
    let state = match (&rank.container, &rank.unknown) {
        (_, Some(_)) => return format!("{start}  unknown"),
        (Some(Some(state)), _) => Some(state),
        _ => None,
    };
    let word = state.map_or("none", |state| if state.running { "up" } else { "ended" });
    let gigabytes = |bytes: u64| {
        #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
        let value = bytes as f64 / 1e9;
        format!("{value:.1}")
    };
    let memory = rank
        .memory
        .map_or_else(String::new, |(used, total)| format!("{} / {} G", gigabytes(used), gigabytes(total)));
    let gpu = rank.gpu.as_ref().map_or_else(String::new, |gpu| {
        let part =
            |value: Option<u8>, unit: &str| value.map_or_else(String::new, |value| format!("{value} {unit}"));
        format!("{} {}", part(gpu.utilisation, "%"), part(gpu.temperature, "°C"))
    });
    let when = match state {
        Some(state) if state.running => state.started.map_or_else(String::new, |started| since(now, started)),
        Some(state) => ended(state),
        None => String::new(),
    };
    format!("{start}  {word:<9}  {:<15}  {memory:<15}  {gpu:<10}  {when}", rank.fabric.to_string())
}

/// The history of a deployment, newest first. `running` is the release whose containers run now; with `verbose` also
/// what each engine said of its start.
pub fn releases(releases: &[Release], running: Option<ReleaseNumber>, verbose: bool) -> String {
    let mut out = String::from(
        "RELEASE  WHEN                  WHO                   IMAGE         START    TOK/S        OUTCOME\n",
    );
    for release in releases.iter().rev() {
        let start = release
            .figures
            .start_seconds
            .map_or_else(String::new, |seconds| people(std::time::Duration::from_secs_f64(seconds)));
        let outcome = match &release.outcome {
            Outcome::Deployed if Some(release.number) == running => "runs".to_owned(),
            Outcome::Deployed => "deployed".to_owned(),
            Outcome::Begun => "begun, never finished".to_owned(),
            Outcome::Failed(why) => format!("failed: {why}"),
        };
        let rates = release.figures.bench.as_ref().map_or_else(String::new, Summary::rates);
        let when = release.begun.strftime("%Y-%m-%d %H:%M:%S");
        let (number, who, image) = (release.number, &release.operator, release.image.content.short());
        let _ = writeln!(
            out,
            "{number:<7}  {when:<20}  {who:<20}  {image:<12}  {start:<7}  {rates:<11}  {outcome}"
        );
        let figures = release.figures.engine.words();
        if verbose && !figures.is_empty() {
            let _ = writeln!(out, "         {}", figures.join(" · "));
        }
    }
    out
}
