//! Plots for a terminal, of block characters: bars, and lines of small columns. Pure.

use std::fmt::Write;

use super::figure::{Figure, Latency, Statistic, digits, time};
use super::metrics::{Distribution, each_second};
use super::result::{Point, Report};
use super::summary::name;
use super::table::{median, of_runs};

/// Eighths of a column, from low to full.
const COLUMNS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Eighths of a cell, from the left.
const CELLS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// Least and most columns of a plot.
const WIDTH: (usize, usize) = (8, 60);

/// The report in plots, at most `width` columns wide.
pub fn sketch(report: &Report, width: usize) -> String {
    let named: Vec<(String, &Point)> = report.points.iter().map(|point| (name(&point.load), point)).collect();
    let label = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let rates = |point: &Point| median(&of_runs(point), &|run| Some(run.output_throughput));
    bars(&mut out, "throughput", &named, label, width, Figure::Throughput, rates);
    for latency in [Latency::Ttft, Latency::Tpot] {
        let figure = Figure::Latency(latency, Statistic::P(50));
        bars(&mut out, &figure.to_string(), &named, label, width, figure, |point| {
            median(&of_runs(point), &|run| figure.of(run))
        });
    }
    for latency in [Latency::Ttft, Latency::Tpot] {
        let _ = writeln!(out, "{}, shortest to longest", latency.key());
        for (name, point) in &named {
            let runs = of_runs(point);
            let values = Distribution::new(runs.iter().flat_map(|run| latency.of(run).values()).copied());
            let ends = [0.0, 100.0].map(|percent| values.percentile(percent));
            let [Some(shortest), Some(longest)] = ends else { continue };
            let (before, after) = (time(shortest), time(longest));
            let room = room(width, label + before.chars().count() + after.chars().count() + 6);
            let _ = writeln!(out, "  {name:<label$} {before} {} {after}", histogram(&values, room));
        }
    }
    out.push_str("tokens a second over the last run\n");
    for (name, point) in &named {
        let run = point.runs.last();
        let answered: Vec<_> =
            run.iter().flat_map(|run| &run.requests).filter(|request| request.failure.is_none()).collect();
        let (tokens, _) = each_second(&answered);
        let most = tokens.iter().copied().fold(0.0, f64::max);
        let after = format!("most {}", digits(most));
        let room = room(width, label + after.chars().count() + 5);
        let _ = writeln!(out, "  {name:<label$} {} {after}", columns(&gathered(&tokens, room)));
    }
    out
}

/// Columns that are left beside `taken` ones.
fn room(width: usize, taken: usize) -> usize {
    width.saturating_sub(taken).clamp(WIDTH.0, WIDTH.1)
}

fn bars(
    out: &mut String,
    title: &str,
    named: &[(String, &Point)],
    label: usize,
    width: usize,
    figure: Figure,
    value: impl Fn(&Point) -> Option<f64>,
) {
    let _ = writeln!(out, "{title}");
    let values: Vec<_> = named.iter().map(|(name, point)| (name, value(point))).collect();
    let most = values.iter().filter_map(|(_, value)| *value).fold(0.0, f64::max);
    let room = room(width, label + 16);
    for (name, value) in values {
        let Some(value) = value else {
            let _ = writeln!(out, "  {name:<label$} nothing answered");
            continue;
        };
        let _ = writeln!(out, "  {name:<label$} {} {}", bar(value, most, room), figure.words(value));
    }
}

/// A bar of a part of `width` columns.
fn bar(value: f64, most: f64, width: usize) -> String {
    let eighths = part(value, most, width * 8).max(1);
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(CELLS[eighths % 8]);
    }
    bar
}

/// How many of `steps` a part is.
fn part(value: f64, most: f64, steps: usize) -> usize {
    if most <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the steps")]
    let part =
        (value / most * super::noise::count(steps)).round().clamp(0.0, super::noise::count(steps)) as usize;
    part
}

/// How many values are in each of `width` equal parts, as small columns.
fn histogram(values: &Distribution, width: usize) -> String {
    let (Some(first), Some(last)) = (values.values().first(), values.values().last()) else {
        return String::new();
    };
    let mut counts = vec![0.0; width];
    for value in values.values() {
        let place = part(value - first, last - first, width).min(width - 1);
        counts[place] += 1.0;
    }
    columns(&counts)
}

/// Small columns, one a value; nothing is an empty one.
fn columns(values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    let column = |value: &f64| match part(*value, most, 8) {
        0 if *value > 0.0 => COLUMNS[0],
        0 => ' ',
        eighths => COLUMNS[eighths - 1],
    };
    values.iter().map(column).collect()
}

/// At most `width` values: means of neighbours where there are more.
fn gathered(values: &[f64], width: usize) -> Vec<f64> {
    let each = values.len().div_ceil(width).max(1);
    values.chunks(each).map(super::noise::mean).collect()
}
