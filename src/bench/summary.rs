//! A bench in a few lines: for each load the figures that are compared, with how sure they are. Kept in the record of
//! a release. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Latency, Statistic, digits, time};
use super::metrics::{Goodput, Metrics, Spread, metrics, tpot};
use super::noise::{self, Measured};
use super::result::{Load, Point, Report, Request};

/// From so many runs on, their own spread tells the noise; fewer say too little of it.
pub const REPEATED: u32 = 3;
/// A percentile of 99 needs so many requests.
const OF_A_HUNDRED: usize = 100;

/// A bench in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The workload, as in the report.
    pub workload: String,
    pub loads: Vec<LoadSummary>,
}

/// What a load bore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSummary {
    pub load: Load,
    pub runs: u32,
    /// Requests of all runs.
    pub requests: u32,
    /// Failed ones among them.
    pub failed: u32,
    /// Absent where no request was answered.
    pub figures: BTreeMap<Figure, Measured>,
}

impl LoadSummary {
    /// Requests of a run.
    pub fn of_a_run(&self) -> u32 {
        self.requests / self.runs.max(1)
    }

    /// A figure as it is shown.
    pub fn value(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure).map(|measured| measured.value)
    }
}

impl Summary {
    /// Of a report.
    pub fn of(report: &Report) -> Self {
        let loads = report.points.iter().map(of_point).collect();
        Self { workload: report.workload.clone(), loads }
    }

    /// In a line: `c1 27.3 tok/s TTFT 0.31 s · c4 81.0 tok/s`. The first load has its latency beside it: what one person
    /// feels.
    pub fn line(&self) -> String {
        let mut out = String::new();
        for (place, load) in self.loads.iter().enumerate() {
            if place > 0 {
                out.push_str(" · ");
            }
            let _ = match load.value(Figure::Throughput) {
                Some(rate) => write!(out, "{} {} tok/s", name(&load.load), digits(rate)),
                None => write!(out, "{} nothing answered", name(&load.load)),
            };
            if let Some(ttft) = load.value(Figure::TTFT).filter(|_| place == 0) {
                let _ = write!(out, " TTFT {}", time(ttft));
            }
            if load.failed > 0 {
                let _ = write!(out, " ({} of {} failed)", load.failed, load.requests);
            }
        }
        out
    }

    /// Tokens a second at each load: `27.3 · 81.0`.
    pub fn rates(&self) -> String {
        let rate = |load: &LoadSummary| load.value(Figure::Throughput).map_or("-".to_owned(), digits);
        self.loads.iter().map(rate).collect::<Vec<_>>().join(" · ")
    }
}

/// A load in a word: `c4`, `2 req/s`.
pub fn name(load: &Load) -> String {
    match load {
        Load::Concurrency(requests) => format!("c{requests}"),
        Load::Rate { per_second, burstiness, max_concurrency } => {
            let mut name = format!("{per_second} req/s");
            match burstiness {
                None => name.push_str(" constant"),
                Some(shape) if (*shape - 1.0).abs() < 1e-9 => {}
                Some(shape) => {
                    let _ = write!(name, " burstiness {shape}");
                }
            }
            if let Some(most) = max_concurrency {
                let _ = write!(name, " at most c{most}");
            }
            name
        }
    }
}

fn of_point(point: &Point) -> LoadSummary {
    let runs: Vec<Metrics> = point.runs.iter().map(|run| metrics(run, &Goodput::default())).collect();
    let answered: Vec<&Request> =
        point.runs.iter().flat_map(|run| &run.requests).filter(|request| request.failure.is_none()).collect();
    let p99 = |latency| Figure::Latency(latency, Statistic::P(99));
    let mut wanted = vec![Figure::Throughput, Figure::TTFT, Figure::TPOT, Figure::E2EL];
    if answered.len() >= OF_A_HUNDRED {
        wanted.extend([p99(Latency::Ttft), p99(Latency::Tpot)]);
    }
    let figures = wanted.into_iter().filter_map(|figure| {
        let values: Vec<f64> = runs.iter().filter_map(|run| figure.of(run)).collect();
        Some((figure, measured(figure, &values, &answered)?))
    });
    let requests = point.runs.iter().map(|run| run.requests.len()).sum::<usize>();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    LoadSummary {
        load: point.load,
        runs: number(point.runs.len()),
        requests: number(requests),
        failed: number(requests - answered.len()),
        figures: if answered.is_empty() { BTreeMap::new() } else { figures.collect() },
    }
}

/// A figure of several runs and its error: from the runs' own spread where there are enough, else from the requests'.
fn measured(figure: Figure, values: &[f64], answered: &[&Request]) -> Option<Measured> {
    let value = Spread::of(values.iter().map(|value| Some(*value)))?.median;
    let runs = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let (error, freedom) = if runs >= REPEATED {
        let (error, freedom) = noise::of_runs(values, usual_spread(figure));
        (Some(error), freedom)
    } else {
        let freedom = noise::count(answered.len().saturating_sub(1));
        // What is known of a percentile's error from a sample is known less well than of a mean's.
        let part = if matches!(figure, Figure::Latency(..)) { 4.0 } else { 1.0 };
        // How far runs spread, no request tells: what is usual stands for it.
        let between = usual_spread(figure) * value / f64::from(runs).sqrt();
        let error = of_requests(figure, value, answered).map(|within| within.hypot(between));
        (error, (freedom / part).max(1.0))
    };
    Some(Measured { value, error, freedom, runs })
}

/// How far a figure of one run spreads from another's on a machine that does nothing else, as a part.
fn usual_spread(figure: Figure) -> f64 {
    match figure {
        Figure::Latency(Latency::Ttft, _) | Figure::Latency(_, Statistic::P(99)) => 0.06,
        _ => 0.02,
    }
}

/// The standard error of a figure by the spread of the requests.
fn of_requests(figure: Figure, value: f64, answered: &[&Request]) -> Option<f64> {
    if let Figure::Latency(latency, statistic) = figure {
        let values: Vec<f64> = answered.iter().filter_map(|request| of_request(latency, request)).collect();
        return noise::resampled(values.len(), |places| {
            let drawn = super::metrics::Distribution::new(places.iter().map(|place| values[*place]));
            match statistic {
                Statistic::Mean => drawn.mean(),
                Statistic::P(percent) => drawn.percentile(f64::from(percent)),
            }
        });
    }
    // Tokens for the time that requests took: what a load bears goes as this does.
    let part: Vec<(f64, f64)> = answered
        .iter()
        .map(|request| (f64::from(request.output_tokens.unwrap_or(0)), request.seconds))
        .collect();
    let rate = |places: &mut dyn Iterator<Item = usize>| {
        let (tokens, seconds) = places
            .fold((0.0, 0.0), |(tokens, seconds), place| (tokens + part[place].0, seconds + part[place].1));
        (seconds > 0.0).then(|| tokens / seconds)
    };
    let whole = rate(&mut (0..part.len())).filter(|whole| *whole > 0.0)?;
    let spread = noise::resampled(part.len(), |places| rate(&mut places.iter().copied()))?;
    Some(value * spread / whole)
}

fn of_request(latency: Latency, request: &Request) -> Option<f64> {
    match latency {
        Latency::Ttft => request.ttft,
        Latency::Tpot => tpot(request),
        Latency::Itl => None,
        Latency::E2el => Some(request.seconds),
    }
}
