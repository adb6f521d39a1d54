//! Whether one bench is better or worse than another, beyond the noise. Pure.
//!
//! Two figures differ where their difference is larger than chance explains (Welch's test, from the spread of the runs; of
//! fewer than three runs from that of the requests), and larger than a floor that no test should look below. docs/bench.md has the rule.

use std::fmt;
use std::fmt::Write;

use serde::Serialize;

use super::figure::{Figure, Latency, Statistic};
use super::noise::{Measured, student, welch};
use super::result::Load;
use super::summary::{LoadSummary, Summary, name};

/// How likely it may be that two benches of the same thing are told apart.
const FALSE_ALARM: f64 = 0.05;
/// The share of failed requests may grow by so much before it is told as worse.
const FAILED_MORE: f64 = 0.01;

/// Runs are alike up to so many times the requests: those with a limit of time have not always as many.
const ALIKE: f64 = 1.5;

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Better,
    /// No difference that chance does not explain.
    Equal,
    Worse,
    /// Too few requests to tell noise from difference.
    Unknown,
}

/// A figure then and now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub load: Load,
    pub figure: Figure,
    pub then: f64,
    pub now: f64,
    /// The change, as a part of what it was.
    pub change: f64,
    /// A change within this is none, as a part of what it was; absent where it is unknown.
    pub noise: Option<f64>,
    pub verdict: Verdict,
}

/// All figures of the loads that both benches have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub rows: Vec<Row>,
    /// Loads that only one of the two has.
    pub apart: Vec<Load>,
}

/// Why two benches cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    #[error("the workloads differ: `{then}` then, `{now}` now")]
    Workload { then: String, now: String },
    #[error("no load is in both: {then} then, {now} now")]
    Loads { then: String, now: String },
    /// A run begins with all prompts at once: in a short one that is felt more.
    #[error("the runs at {load} differ: {then} requests then, {now} now")]
    Requests { load: String, then: u32, now: u32 },
}

/// Whether runs of so many requests can be compared.
pub fn alike(one: u32, other: u32) -> bool {
    f64::from(one.max(other)) <= ALIKE * f64::from(one.min(other))
}

/// Compares `now` with what was `then`.
pub fn compare(then: &Summary, now: &Summary) -> Result<Comparison, Incomparable> {
    if then.workload != now.workload {
        return Err(Incomparable::Workload { then: then.workload.clone(), now: now.workload.clone() });
    }
    let of = |all: &Summary, load: &Load| all.loads.iter().find(|other| other.load == *load).cloned();
    let both: Vec<_> = now.loads.iter().filter_map(|new| Some((of(then, &new.load)?, new))).collect();
    if both.is_empty() {
        let names = |all: &Summary| all.loads.iter().map(|l| name(&l.load)).collect::<Vec<_>>().join(", ");
        return Err(Incomparable::Loads { then: names(then), now: names(now) });
    }
    if let Some((old, new)) = both.iter().find(|(old, new)| !alike(old.of_a_run(), new.of_a_run())) {
        let load = name(&new.load);
        return Err(Incomparable::Requests { load, then: old.of_a_run(), now: new.of_a_run() });
    }
    let apart = |some: &Summary, other: &Summary| -> Vec<Load> {
        some.loads.iter().map(|l| l.load).filter(|load| of(other, load).is_none()).collect()
    };
    let mut rows = Vec::new();
    for (old, new) in &both {
        // The more figures are looked at, the likelier is one that differs by chance. Of the throughput, the time per token
        // and the time to the end one follows from the two others.
        let kinds = old.figures.len().min(new.figures.len()).saturating_sub(1).max(1);
        let chance = FALSE_ALARM / super::noise::count(both.len() * kinds);
        for (figure, now) in &new.figures {
            if let Some(then) = old.figures.get(figure) {
                rows.push(row(new.load, *figure, then, now, chance));
            }
        }
        rows.extend(failures(old, new));
    }
    let apart = [apart(then, now), apart(now, then)].concat();
    Ok(Comparison { rows, apart })
}

fn row(load: Load, figure: Figure, then: &Measured, now: &Measured, chance: f64) -> Row {
    let difference = now.value - then.value;
    let part = |value: f64| if then.value == 0.0 { 0.0 } else { value / then.value.abs() };
    let noise =
        welch(then, now).map(|(error, freedom)| (student(chance, freedom) * error).max(floor(figure, then)));
    let better = (difference > 0.0) == figure.more_is_better();
    let verdict = match noise {
        None => Verdict::Unknown,
        Some(noise) if difference.abs() <= noise => Verdict::Equal,
        Some(_) if better => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    Row {
        load,
        figure,
        then: then.value,
        now: now.value,
        change: part(difference),
        noise: noise.map(part),
        verdict,
    }
}

/// A difference that is not told, whatever a test says: nobody acts on it.
fn floor(figure: Figure, then: &Measured) -> f64 {
    let (part, seconds) = match figure {
        Figure::Latency(_, Statistic::P(99)) => (0.10, 0.005),
        Figure::Latency(Latency::Ttft, _) => (0.05, 0.005),
        Figure::Latency(Latency::E2el, _) => (0.03, 0.005),
        Figure::Latency(..) => (0.03, 0.0001),
        _ => (0.03, 0.0),
    };
    (part * then.value.abs()).max(seconds)
}

/// More failed requests are worse, fewer are better; told only where any failed.
fn failures(then: &LoadSummary, now: &LoadSummary) -> Option<Row> {
    let share = |load: &LoadSummary| f64::from(load.failed) / f64::from(load.requests.max(1));
    (then.failed + now.failed > 0).then(|| {
        let (old, new) = (share(then), share(now));
        let verdict = match new - old {
            more if more > FAILED_MORE => Verdict::Worse,
            more if more < -FAILED_MORE => Verdict::Better,
            _ => Verdict::Equal,
        };
        Row {
            load: now.load,
            figure: Figure::Failed,
            then: old,
            now: new,
            change: new - old,
            noise: Some(FAILED_MORE),
            verdict,
        }
    })
}

impl Comparison {
    /// The worst that was found, then the best.
    pub fn verdict(&self) -> Verdict {
        let any = |verdict| self.rows.iter().any(|row| row.verdict == verdict);
        let order = [Verdict::Worse, Verdict::Better, Verdict::Equal];
        order.into_iter().find(|verdict| any(*verdict)).unwrap_or(Verdict::Unknown)
    }

    /// In a few words: `no difference`, `worse: throughput at c4 -12 %`.
    pub fn words(&self) -> String {
        let told = |row: &Row| format!("{} at {} {}", row.figure, name(&row.load), percent(row.change));
        let of =
            |verdict| self.rows.iter().filter(|row| row.verdict == verdict).map(told).collect::<Vec<_>>();
        let (worse, better) = (of(Verdict::Worse), of(Verdict::Better));
        let mut words = Vec::new();
        for (word, all) in [("worse", worse), ("better", better)] {
            if !all.is_empty() {
                words.push(format!("{word}: {}", all.join(", ")));
            }
        }
        match (words.is_empty(), self.verdict()) {
            (true, Verdict::Unknown) => "too few requests to compare".to_owned(),
            (true, _) => "no difference".to_owned(),
            (false, _) => words.join("; "),
        }
    }

    /// As a table, a line a figure. `then` names what it is compared with.
    pub fn table(&self, then: &str) -> String {
        let mut out = format!("compared with {then}\n");
        let cells: Vec<[String; 7]> = self
            .rows
            .iter()
            .map(|row| {
                [
                    name(&row.load),
                    row.figure.to_string(),
                    row.figure.words(row.then),
                    row.figure.words(row.now),
                    percent(row.change),
                    row.noise.map_or(String::new(), |noise| format!("±{:.1} %", noise * 100.0)),
                    row.verdict.to_string(),
                ]
            })
            .collect();
        let heads = ["LOAD", "FIGURE", "THEN", "NOW", "CHANGE", "NOISE", "VERDICT"].map(str::to_owned);
        let width = |column: usize| {
            let all = cells.iter().chain([&heads]).map(|row| row[column].chars().count());
            all.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..7).map(width).collect();
        for row in [&heads].into_iter().chain(&cells) {
            let line: Vec<_> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| match column {
                    0 | 1 | 6 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                })
                .collect();
            let _ = writeln!(out, "  {}", line.join("  ").trim_end());
        }
        if !self.apart.is_empty() {
            let names: Vec<_> = self.apart.iter().map(name).collect();
            let _ = writeln!(out, "  not in both, and not compared: {}", names.join(", "));
        }
        out
    }
}

fn percent(change: f64) -> String {
    format!("{:+.1} %", change * 100.0)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Equal => "equal",
            Self::Worse => "worse",
            Self::Unknown => "unknown",
        })
    }
}

#[cfg(test)]
mod tests;
