//! What `bench` shows: how far it is, and one table at its end.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::load::Progress;
use crate::bench::metrics::{Distribution, Goodput, Metrics, Spread, metrics};
use crate::bench::notes::words;
use crate::bench::result::{Load, Point, Report};
use crate::bench::workload::Order;

/// Without a terminal, how often it is told that it goes on.
const QUIET: Duration = Duration::from_secs(30);

/// How far it is, on standard error: one line that changes on a terminal, a line now and then without one.
pub struct Screen<'a> {
    order: &'a Order,
    shown: bool,
    live: bool,
    run: String,
    requests: Option<u32>,
    told: Instant,
}

impl<'a> Screen<'a> {
    /// For a bench; tells nothing unless `shown`.
    pub fn new(order: &'a Order, shown: bool) -> Self {
        let live = std::io::stderr().is_terminal();
        Self { order, shown, live, run: String::new(), requests: None, told: Instant::now() }
    }

    /// Tells how far it is.
    pub fn tell(&mut self, progress: Progress) {
        match progress {
            Progress::Begun { load, run } => {
                self.requests =
                    if run == 0 { Some(self.order.warmup_of(&load)) } else { self.order.requests_of(&load) };
                let which = match run {
                    0 => "warm-up".to_owned(),
                    run => format!("run {run} of {}", self.order.repeat),
                };
                self.run = format!("{}, {which}", words(&load));
                self.line(&self.run.clone());
            }
            Progress::Requests { done, failed, under_way } if self.live || self.told.elapsed() > QUIET => {
                let of = self.requests.map_or_else(String::new, |all| format!(" of {all}"));
                let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                self.line(&format!("{}: {done}{of} requests, {under_way} under way{failed}", self.run));
            }
            Progress::Requests { .. } => {}
        }
    }

    fn line(&mut self, text: &str) {
        if !self.shown {
            return;
        }
        self.told = Instant::now();
        let mut err = std::io::stderr().lock();
        // A screen that cannot be written to is no reason to stop measuring.
        let _ = if self.live { write!(err, "\r\x1b[K{text}") } else { writeln!(err, "{text}") };
        let _ = err.flush();
    }

    /// Clears the line that changes.
    pub fn end(&self) {
        if self.shown && self.live {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// A load and the figures of its runs.
struct Row {
    load: Load,
    runs: Vec<Metrics>,
}

impl Row {
    fn of(point: &Point, goodput: &Goodput) -> Self {
        Self { load: point.load, runs: point.runs.iter().map(|run| metrics(run, goodput)).collect() }
    }

    /// The median of a figure over the runs, and its extremes.
    fn spread(&self, figure: impl Fn(&Metrics) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().map(figure))
    }

    fn counts(&self) -> (usize, usize) {
        let sum = |count: fn(&Metrics) -> usize| self.runs.iter().map(count).sum();
        (sum(|run| run.completed), sum(|run| run.failed))
    }
}

/// For people: a line a load, then what makes figures other than they seem.
pub fn text(report: &Report, goodput: &Goodput) -> String {
    let mut out = String::new();
    let subject = &report.subject;
    let release = subject.release.map_or_else(String::new, |release| format!(" release {release}"));
    let deployment =
        subject.deployment.as_ref().map_or_else(String::new, |name| format!("{name}{release} · "));
    let runs = report.points.iter().map(|point| point.runs.len()).max().unwrap_or(0);
    let _ = writeln!(out, "{deployment}{} at {}", subject.model, subject.url);
    let medians =
        if runs > 1 { format!(" · medians of {runs} runs, ± half their range") } else { String::new() };
    let _ = writeln!(out, "{}{medians}\n", report.workload);

    let rows: Vec<Row> = report.points.iter().map(|point| Row::of(point, goodput)).collect();
    let mut table = vec![
        ["load", "requests", "failed", "tok/s", "TTFT ms", "p99", "TPOT ms", "p99", "ITL p99", "E2EL s"]
            .map(str::to_owned)
            .to_vec(),
    ];
    if goodput.any() {
        table[0].push("good/s".to_owned());
    }
    for row in &rows {
        let (completed, failed) = row.counts();
        let cell = |figure: &dyn Fn(&Metrics) -> Option<f64>| {
            row.spread(figure).map_or_else(|| "-".to_owned(), |s| digits(s.median))
        };
        let ms = |of: fn(&Metrics) -> &Distribution, percent: f64| {
            cell(&|run| of(run).percentile(percent).map(|seconds| seconds * 1e3))
        };
        let throughput = row.spread(|run| (run.completed > 0).then_some(run.output_throughput));
        let throughput = throughput.map_or_else(
            || "-".to_owned(),
            |spread| {
                let noise = if row.runs.len() > 1 {
                    format!(" ±{:.0} %", spread.noise() * 100.0)
                } else {
                    String::new()
                };
                format!("{}{noise}", digits(spread.median))
            },
        );
        let mut cells = vec![
            words(&row.load),
            completed.to_string(),
            failed.to_string(),
            throughput,
            ms(|run| &run.ttft, 50.0),
            ms(|run| &run.ttft, 99.0),
            ms(|run| &run.tpot, 50.0),
            ms(|run| &run.tpot, 99.0),
            ms(|run| &run.itl, 99.0),
            cell(&|run| run.e2el.median()),
        ];
        if goodput.any() {
            cells.push(cell(&|run| run.request_goodput));
        }
        table.push(cells);
    }
    align(&mut out, &table);
    for note in &report.notes {
        let _ = write!(out, "\n! {} ({})", note.message, note.id);
    }
    if !report.notes.is_empty() {
        out.push('\n');
    }
    out
}

/// Columns side by side: the first to the left, figures to the right.
fn align(out: &mut String, table: &[Vec<String>]) {
    let length = |text: &String| text.chars().count();
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| table.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    for row in table {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let room = " ".repeat(width.saturating_sub(length(cell)));
            if column == 0 { format!("{cell}{room}") } else { format!("{room}{cell}") }
        });
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// Three digits that say something.
fn digits(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Which latency of a run.
type Latency = fn(&Metrics) -> &Distribution;

/// For programs: figures of each load, the median of its runs with the lowest and the highest. Latencies are milliseconds.
pub fn document(report: &Report, goodput: &Goodput) -> Value {
    let points: Vec<Value> = report
        .points
        .iter()
        .map(|point| {
            let row = Row::of(point, goodput);
            let (completed, failed) = row.counts();
            let told = |spread: Option<Spread>| {
                spread.map(|spread| json!({ "median": spread.median, "lowest": spread.lowest, "highest": spread.highest }))
            };
            let mut figures = serde_json::Map::new();
            let mut put = |name: String, spread: Option<Spread>| {
                if let Some(value) = told(spread) {
                    figures.insert(name, value);
                }
            };
            put("request_throughput".to_owned(), row.spread(|run| Some(run.request_throughput)));
            put("request_goodput".to_owned(), row.spread(|run| run.request_goodput));
            put("output_throughput".to_owned(), row.spread(|run| Some(run.output_throughput)));
            put("total_token_throughput".to_owned(), row.spread(|run| Some(run.total_token_throughput)));
            let latencies: [(&str, Latency); 4] = [
                ("ttft", |run| &run.ttft),
                ("tpot", |run| &run.tpot),
                ("itl", |run| &run.itl),
                ("e2el", |run| &run.e2el),
            ];
            for (name, of) in latencies {
                let ms = |value: Option<f64>| value.map(|seconds| seconds * 1e3);
                put(format!("mean_{name}_ms"), row.spread(|run| ms(of(run).mean())));
                put(format!("median_{name}_ms"), row.spread(|run| ms(of(run).median())));
                put(format!("p99_{name}_ms"), row.spread(|run| ms(of(run).percentile(99.0))));
            }
            json!({ "load": point.load, "runs": point.runs.len(), "completed": completed, "failed": failed, "figures": figures })
        })
        .collect();
    json!({ "bench": {
        "subject": report.subject, "workload": report.workload, "begun": report.begun,
        "points": points, "notes": report.notes,
    } })
}
