//! What makes figures other than they seem, found in the results themselves and in facts of the nodes. Pure.

use std::collections::BTreeMap;

use super::metrics::{Distribution, Goodput, Spread, metrics};
use super::result::{FailureKind, Load, Note, Point, Request, Run};
use super::workload::Workload;
use crate::cluster::facts::NodeFacts;

/// A client later than this is felt in latencies. Seconds.
const LATE: f64 = 0.005;
/// A client that uses so much of its one thread is at its end.
const BUSY: f64 = 0.8;
/// From this part of the prompt tokens the prefix cache is felt.
const CACHED: f64 = 0.05;
/// Runs that differ by more are told of.
const NOISY: f64 = 0.05;
/// Reasons that hold clocks down against what the GPU could do.
const HELD_DOWN: [&str; 7] = [
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sync_boost",
];

/// Notes on all points.
pub fn notes(points: &[Point], workload: &Workload) -> Vec<Note> {
    let mut notes = Vec::new();
    for point in points {
        let at = words(&point.load);
        let mut note = |id: &str, message: String| {
            notes.push(Note { id: id.to_owned(), message: format!("{at}: {message}") });
        };
        for (kind, message) in failures(point) {
            note(failure_id(kind), message);
        }
        if let Some(message) = point.runs.iter().find_map(slow_client) {
            note("client-slow", message);
        }
        if let Some(message) = cache(point, workload) {
            note("prefix-cache", message);
        }
        let retries: u32 =
            point.runs.iter().flat_map(|run| &run.requests).map(|request| request.retries).sum();
        if retries > 0 {
            note(
                "retried",
                format!(
                    "the server was busy {retries} times (HTTP 429 or 503); the waits are part of the latencies"
                ),
            );
        }
        if let Some(message) = withheld(point) {
            note("pieces-withheld", message);
        }
        let all = point.runs.iter().map(|run| Some(metrics(run, &Goodput::default()).output_throughput));
        if let Some(spread) = Spread::of(all).filter(|spread| spread.noise() > NOISY) {
            let percent = 100.0 * spread.noise();
            note("runs-differ", format!("the throughput of the runs differs by ±{percent:.0} %"));
        }
    }
    notes
}

/// A load in words.
pub fn words(load: &Load) -> String {
    match load {
        Load::Concurrency(requests) => format!("{requests} at once"),
        Load::Rate { per_second, .. } => format!("{per_second}/s"),
    }
}

fn answered(point: &Point) -> impl Iterator<Item = &Request> {
    point.runs.iter().flat_map(|run| &run.requests).filter(|request| request.failure.is_none())
}

/// How many failed of each kind, with what the first of it said.
fn failures(point: &Point) -> Vec<(FailureKind, String)> {
    let mut kinds: BTreeMap<FailureKind, (usize, &str)> = BTreeMap::new();
    let all: usize = point.runs.iter().map(|run| run.requests.len()).sum();
    for failure in
        point.runs.iter().flat_map(|run| &run.requests).filter_map(|request| request.failure.as_ref())
    {
        kinds.entry(failure.kind).or_insert((0, &failure.message)).0 += 1;
    }
    kinds
        .into_iter()
        .map(|(kind, (count, first))| (kind, format!("{count} of {all} requests failed: {first}")))
        .collect()
}

fn failure_id(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Connect => "failed-connect",
        FailureKind::Status => "failed-status",
        FailureKind::Stalled => "failed-stalled",
        FailureKind::Cut => "failed-cut",
        FailureKind::Malformed => "failed-malformed",
        FailureKind::Error => "failed-error",
        FailureKind::NotStreamed => "failed-not-streamed",
        FailureKind::Empty => "failed-empty",
        FailureKind::NoUsage => "failed-no-usage",
        FailureKind::Unfinished => "unfinished",
    }
}

/// The client measured itself, where it was late or had no more to give.
fn slow_client(run: &Run) -> Option<String> {
    let late = run.client.p99_seconds;
    let busy = if run.seconds > 0.0 { run.client.cpu_seconds / run.seconds } else { 0.0 };
    // What is late against an answer's own pace counts, too; but not where an answer takes seconds.
    let gap =
        Distribution::new(run.requests.iter().flat_map(|request| request.itls.iter().copied())).median();
    let felt = late > LATE.max(gap.unwrap_or(0.0) / 2.0);
    (felt || busy > BUSY).then(|| {
        format!(
            "the client was late itself, by {:.0} ms in one of a hundred cases, and used {:.0} % of its CPU: it may be what was measured",
            late * 1000.0,
            busy * 100.0
        )
    })
}

/// The prefix cache, where it had what was not meant to be there.
fn cache(point: &Point, workload: &Workload) -> Option<String> {
    let all: Vec<_> = point.runs.iter().filter_map(|run| run.prefix_cache).collect();
    let (asked, hit) = all.iter().fold((0.0, 0.0), |(asked, hit), run| (asked + run.asked, hit + run.hit));
    let rate = if asked > 0.0 { hit / asked } else { 0.0 };
    let meant = workload.prefix_tokens > 0 || workload.turns > 1;
    (rate > CACHED).then(|| {
        let why = if meant {
            "as this workload wants"
        } else {
            "though every prompt begins with a mark of its own"
        };
        format!("the prefix cache had {:.0} % of the prompt tokens, {why}", rate * 100.0)
    })
}

/// Answers of many tokens that came in hardly any pieces have no inter-token latencies to speak of.
fn withheld(point: &Point) -> Option<String> {
    let long: Vec<_> =
        answered(point).filter(|request| request.output_tokens.is_some_and(|tokens| tokens >= 16)).collect();
    let withheld = long.iter().filter(|request| request.itls.len() < 2).count();
    (withheld > 0).then(|| {
        format!(
            "{withheld} of {} long answers came in fewer than 3 pieces: their first token came late, and TPOT says little",
            long.len()
        )
    })
}

/// What holds the GPUs' clocks down, by facts from before and after the load.
pub fn clocks(before: &[NodeFacts], after: &[NodeFacts]) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut held: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for (facts, when) in
        before.iter().map(|facts| (facts, "before")).chain(after.iter().map(|facts| (facts, "after")))
    {
        for gpu in &facts.gpus {
            for reason in gpu.throttled.iter().flatten().filter(|reason| HELD_DOWN.contains(&reason.as_str()))
            {
                held.entry((facts.node.to_string(), reason.clone())).or_default().push(when);
            }
        }
    }
    for ((node, reason), when) in held {
        let mut when = when;
        when.dedup();
        let when = when.join(" and ");
        let message = format!("{node}: the driver held the GPU's clocks down {when} the load: {reason}");
        notes.push(Note { id: "gpu-throttled".to_owned(), message });
    }
    notes
}
