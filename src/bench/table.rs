//! A report as tables: Markdown, CSV, and the one of llama-benchy. Pure.

use std::fmt::Write;

use super::figure::{Latency, digits};
use super::metrics::{Distribution, Goodput, Metrics, Spread, metrics};
use super::result::{Load, Point, Report, Request, Run};
use super::summary::name;

/// The table that goes into an issue or a README: a line a load, medians over the runs.
pub fn markdown(report: &Report) -> String {
    let mut out = format!(
        "`{}` at <{}>, {}, {} (sparkctl {})\n\n",
        report.subject.model.replace('`', "'"),
        report.subject.url,
        report.workload.replace('|', "\\|"),
        report.begun.strftime("%Y-%m-%d %H:%M:%SZ"),
        report.sparkctl
    );
    out.push_str(
        "| load | requests | failed | tok/s | total tok/s | TTFT p50 (ms) | TTFT p99 (ms) | TPOT p50 (ms) | TPOT p99 (ms) | E2EL p50 (s) |\n\
         |:-----|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for point in &report.points {
        let runs = of_runs(point);
        let cell = |figure: &dyn Fn(&Metrics) -> Option<f64>, factor: f64| {
            median(&runs, figure).map_or_else(|| "-".to_owned(), |value| digits(value * factor))
        };
        let p = |latency: Latency, percent: f64, factor: f64| {
            cell(&|run| latency.of(run).percentile(percent), factor)
        };
        let requests: usize = point.runs.iter().map(|run| run.requests.len()).sum();
        let failed: usize = runs.iter().map(|run| run.failed).sum();
        let _ = writeln!(
            out,
            "| {} | {requests} | {failed} | {} | {} | {} | {} | {} | {} | {} |",
            name(&point.load),
            cell(&|run| Some(run.output_throughput), 1.0),
            cell(&|run| Some(run.total_token_throughput), 1.0),
            p(Latency::Ttft, 50.0, 1e3),
            p(Latency::Ttft, 99.0, 1e3),
            p(Latency::Tpot, 50.0, 1e3),
            p(Latency::Tpot, 99.0, 1e3),
            p(Latency::E2el, 50.0, 1.0),
        );
    }
    for note in &report.notes {
        let message = note.message.replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(out, "\n- {}: {message}", note.id);
    }
    if !report.notes.is_empty() {
        out.push('\n');
    }
    out
}

/// The names of the CSV's columns that are not a latency's.
const COLUMNS: [&str; 14] = [
    "load",
    "run",
    "max_concurrency",
    "request_rate",
    "seconds",
    "requests",
    "completed",
    "failed",
    "input_tokens",
    "output_tokens",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "max_concurrent_requests",
];

/// A line a run, every figure unrounded; latencies in milliseconds.
pub fn csv(report: &Report) -> String {
    let mut heads: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
    for latency in Latency::ALL {
        for statistic in ["mean", "std", "p50", "p90", "p99"] {
            heads.push(format!("{statistic}_{}_ms", latency.key()));
        }
    }
    let mut out = heads.join(",") + "\n";
    for point in &report.points {
        for (number, run) in point.runs.iter().enumerate() {
            out.push_str(&csv_line(&point.load, number + 1, run).join(","));
            out.push('\n');
        }
    }
    out
}

fn csv_line(load: &Load, number: usize, run: &Run) -> Vec<String> {
    let figures = metrics(run, &Goodput::default());
    let (most, rate) = match load {
        Load::Concurrency(most) => (Some(*most), None),
        Load::Rate { per_second, max_concurrency, .. } => (*max_concurrency, Some(*per_second)),
    };
    let mut cells = vec![
        name(load),
        number.to_string(),
        most.map_or_else(String::new, |most| most.to_string()),
        rate.map_or_else(String::new, |rate| rate.to_string()),
        run.seconds.to_string(),
        run.requests.len().to_string(),
        figures.completed.to_string(),
        figures.failed.to_string(),
        figures.input_tokens.to_string(),
        figures.output_tokens.to_string(),
        figures.request_throughput.to_string(),
        figures.output_throughput.to_string(),
        figures.total_token_throughput.to_string(),
        figures.max_concurrent_requests.to_string(),
    ];
    for latency in Latency::ALL {
        let values = latency.of(&figures);
        let of =
            [values.mean(), values.std(), values.median(), values.percentile(90.0), values.percentile(99.0)];
        let cell = |value: Option<f64>| value.map_or_else(String::new, |value| (value * 1e3).to_string());
        cells.extend(of.map(cell));
    }
    cells
}

/// The table of llama-benchy: `pp` is prompt tokens over the time to the first token, `tg` the tokens after the first over
/// the time since; mean ± standard deviation over requests, and over runs where several were at once. `depth` is how many
/// tokens of context were ahead of the prompt. No latency of the network is taken off: `est_ppt` is the time to the first
/// response, as with its `--latency-mode none`.
pub fn llama_benchy(report: &Report, depth: u32) -> String {
    let several = report.points.iter().any(|point| most_at_once(&point.load) != Some(1));
    let heads: &[&str] = if several {
        &[
            "model",
            "test",
            "t/s (total)",
            "t/s (req)",
            "peak t/s",
            "peak t/s (req)",
            "ttfr (ms)",
            "est_ppt (ms)",
            "e2e_ttft (ms)",
        ]
    } else {
        &["model", "test", "t/s", "peak t/s", "ttfr (ms)", "est_ppt (ms)", "e2e_ttft (ms)"]
    };
    let mut rows = Vec::new();
    for point in &report.points {
        rows.extend(benchy_rows(report, point, depth, several));
    }
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| {
            let cells = rows.iter().map(|row: &Vec<String>| row[column].chars().count());
            cells.chain([head.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<_> = cells
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                0 => format!(" {cell:<width$} "),
                _ => format!(" {cell:>width$} "),
            })
            .collect();
        format!("|{}|\n", cells.join("|"))
    };
    let mut out = line(&mut heads.iter().copied());
    let rule: Vec<_> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| match column {
            0 => format!(":{}", "-".repeat(width + 1)),
            _ => format!("{}:", "-".repeat(width + 1)),
        })
        .collect();
    let _ = writeln!(out, "|{}|", rule.join("|"));
    for row in &rows {
        out.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    let _ = write!(
        out,
        "\nsparkctl ({})\ndate: {} | latency mode: none\n",
        report.sparkctl,
        report.begun.strftime("%Y-%m-%d %H:%M:%S")
    );
    out
}

fn benchy_rows(report: &Report, point: &Point, depth: u32, several: bool) -> Vec<Vec<String>> {
    let answered: Vec<Vec<&Request>> = point
        .runs
        .iter()
        .map(|run| run.requests.iter().filter(|request| request.failure.is_none()).collect())
        .collect();
    let all = || answered.iter().flatten().copied();
    let tokens = |of: fn(&Request) -> Option<u32>| {
        let values = Distribution::new(all().filter_map(of).map(f64::from));
        values.median().map_or_else(String::new, |tokens| format!("{tokens:.0}"))
    };
    let prompt = |request: &Request| {
        Some(
            f64::from(request.input_tokens?.saturating_sub(depth))
                / request.ttft.filter(|ttft| *ttft > 0.0)?,
        )
    };
    let answer = |request: &Request| super::metrics::tpot(request).filter(|tpot| *tpot > 0.0).map(f64::recip);
    let each = |of: &dyn Fn(&Request) -> Option<f64>| mean_and_std(all().filter_map(of), 1.0);
    let runs = |of: &dyn Fn(&[&Request]) -> Option<f64>| {
        mean_and_std(answered.iter().filter_map(|batch| of(batch)), 1.0)
    };
    let peak_of = |batch: &[&Request]| {
        super::metrics::each_second(batch).0.into_iter().reduce(f64::max).filter(|peak| *peak > 0.0)
    };
    let milliseconds = || mean_and_std(all().filter_map(|request| request.ttft), 1e3);
    let mut after = if depth > 0 { format!(" @ d{depth}") } else { String::new() };
    if several {
        let _ = write!(after, " ({})", name(&point.load));
    }
    let model = report.subject.model.clone();
    let pp = format!("pp{}{after}", input_words(&tokens(|request| request.input_tokens), depth));
    let tg = format!("tg{}{after}", tokens(|request| request.output_tokens));
    let none = String::new;
    if several {
        let one_peak = |request: &Request| peak_of(&[request]);
        vec![
            vec![
                model.clone(),
                pp,
                runs(&|batch| batch_prompt(batch, depth)),
                each(&prompt),
                none(),
                none(),
                milliseconds(),
                milliseconds(),
                milliseconds(),
            ],
            vec![
                model,
                tg,
                runs(&batch_answer),
                each(&answer),
                runs(&peak_of),
                each(&one_peak),
                none(),
                none(),
                none(),
            ],
        ]
    } else {
        vec![
            vec![model.clone(), pp, each(&prompt), none(), milliseconds(), milliseconds(), milliseconds()],
            vec![model, tg, each(&answer), runs(&peak_of), none(), none(), none()],
        ]
    }
}

/// Tokens of a prompt without what was ahead of it.
fn input_words(tokens: &str, depth: u32) -> String {
    tokens.parse::<u32>().map_or_else(|_| tokens.to_owned(), |all| all.saturating_sub(depth).to_string())
}

/// All prompt tokens of a batch over the time until the last request had its first token.
fn batch_prompt(batch: &[&Request], depth: u32) -> Option<f64> {
    let begin = batch.iter().map(|request| request.start).reduce(f64::min)?;
    let last = batch.iter().filter_map(|request| Some(request.start + request.ttft?)).reduce(f64::max)?;
    let tokens: f64 =
        batch.iter().map(|request| f64::from(request.input_tokens.unwrap_or(0).saturating_sub(depth))).sum();
    (last > begin).then(|| tokens / (last - begin))
}

/// All tokens of a batch but the first of each over the time since the first of all.
fn batch_answer(batch: &[&Request]) -> Option<f64> {
    let first = batch.iter().filter_map(|request| Some(request.start + request.ttft?)).reduce(f64::min)?;
    let end = batch.iter().map(|request| request.start + request.seconds).reduce(f64::max)?;
    let tokens: f64 =
        batch.iter().map(|request| f64::from(request.output_tokens.unwrap_or(0).saturating_sub(1))).sum();
    (end > first && tokens > 0.0).then(|| tokens / (end - first))
}

fn mean_and_std(values: impl Iterator<Item = f64>, factor: f64) -> String {
    let values = Distribution::new(values);
    match (values.mean(), values.std()) {
        (Some(mean), Some(std)) => format!("{:.2} ± {:.2}", mean * factor, std * factor),
        _ => String::new(),
    }
}

/// Requests at once, where the load says so.
fn most_at_once(load: &Load) -> Option<u32> {
    match load {
        Load::Concurrency(most) => Some(*most),
        Load::Rate { max_concurrency, .. } => *max_concurrency,
    }
}

/// The figures of each run of a load.
pub(super) fn of_runs(point: &Point) -> Vec<Metrics> {
    point.runs.iter().map(|run| metrics(run, &Goodput::default())).collect()
}

/// The median of a figure over the runs.
pub(super) fn median(runs: &[Metrics], figure: &dyn Fn(&Metrics) -> Option<f64>) -> Option<f64> {
    Spread::of(runs.iter().map(figure)).map(|spread| spread.median)
}
