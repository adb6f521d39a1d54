//! A report as one page: plots, each with its numbers beside it, for the screen and for paper. It fetches nothing. Pure.

use std::fmt::Write;

use super::compare::Comparison;
use super::figure::{Latency, digits};
use super::metrics::{Distribution, Metrics, Spread, each_second};
use super::plot::{Axis, Line, MOST_LINES, Plot, escaped, legend, svg};
use super::result::{Load, Point, Report};
use super::summary::name;
use super::table::of_runs;

/// Points of a distribution's line.
const STEPS: u32 = 100;

/// A load and what follows from its runs.
struct Seen<'a> {
    point: &'a Point,
    name: String,
    runs: Vec<Metrics>,
}

/// The page; with a comparison, what became better or worse than `then` is in it.
pub fn html(report: &Report, compared: Option<(&str, &Comparison)>) -> String {
    let seen: Vec<Seen> = report
        .points
        .iter()
        .map(|point| Seen { point, name: name(&point.load), runs: of_runs(point) })
        .collect();
    let subject = &report.subject;
    let what = match (&subject.deployment, subject.release) {
        (Some(name), Some(release)) => format!("{name}, release {release}"),
        (Some(name), None) => name.to_string(),
        (None, _) => subject.model.clone(),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Bench of {title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"about\">model {model} at {url} · {workload}</p>\n\
         <p class=\"about\">{when} · sparkctl {version} · figures are medians over the runs</p>\n",
        title = escaped(&what),
        style = include_str!("page.css"),
        model = escaped(&subject.model),
        url = escaped(&subject.url),
        workload = escaped(&report.workload),
        when = report.begun.strftime("%Y-%m-%d %H:%M:%S UTC"),
        version = escaped(&report.sparkctl),
    );
    if !report.notes.is_empty() {
        let notes = report.notes.iter().map(|note| format!("<li>{}</li>", escaped(&note.message)));
        let _ = writeln!(out, "<div class=\"notes\"><ul>{}</ul></div>", notes.collect::<String>());
    }
    out.push_str(&overall(&seen));
    if let Some((then, comparison)) = compared {
        out.push_str(&comparison_table(then, comparison));
    }
    out.push_str("<div class=\"plots\">\n");
    for (number, (plot, numbers)) in plots(&seen).iter().enumerate() {
        let _ = writeln!(
            out,
            "<figure>\n<h2>{}</h2>\n{}{}<figcaption>{}</figcaption>\n{numbers}</figure>",
            escaped(&plot.title),
            svg(plot, &format!("p{number}")),
            legend(plot),
            escaped(&plot.description),
        );
    }
    out.push_str("</div>\n</body>\n</html>\n");
    out
}

/// A table of text cells.
fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = "<table>\n<tr>".to_owned();
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(head));
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escaped(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
    out
}

/// The median of a figure over the runs, and from where to where it goes.
fn spread(runs: &[Metrics], figure: impl Fn(&Metrics) -> Option<f64>) -> Option<Spread> {
    Spread::of(runs.iter().map(figure))
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), digits)
}

fn overall(seen: &[Seen]) -> String {
    let heads = [
        "load",
        "runs",
        "requests",
        "failed",
        "tok/s",
        "from",
        "to",
        "req/s",
        "TTFT p50 ms",
        "p99",
        "TPOT p50 ms",
        "p99",
        "ITL p50 ms",
        "p99",
        "E2EL p50 s",
    ];
    let rows = seen.iter().map(|load| {
        let of = |figure: &dyn Fn(&Metrics) -> Option<f64>| spread(&load.runs, figure).map(|s| s.median);
        let p = |latency: Latency, percent: f64, factor: f64| {
            cell(of(&|run| latency.of(run).percentile(percent)).map(|value| value * factor))
        };
        let rate = spread(&load.runs, |run| Some(run.output_throughput));
        let requests: usize = load.point.runs.iter().map(|run| run.requests.len()).sum();
        let failed: usize = load.runs.iter().map(|run| run.failed).sum();
        vec![
            load.name.clone(),
            load.runs.len().to_string(),
            requests.to_string(),
            failed.to_string(),
            cell(rate.map(|rate| rate.median)),
            cell(rate.map(|rate| rate.lowest)),
            cell(rate.map(|rate| rate.highest)),
            cell(of(&|run| Some(run.request_throughput))),
            p(Latency::Ttft, 50.0, 1e3),
            p(Latency::Ttft, 99.0, 1e3),
            p(Latency::Tpot, 50.0, 1e3),
            p(Latency::Tpot, 99.0, 1e3),
            p(Latency::Itl, 50.0, 1e3),
            p(Latency::Itl, 99.0, 1e3),
            p(Latency::E2el, 50.0, 1.0),
        ]
    });
    format!("<div class=\"sheet\">\n{}</div>\n", table(&heads, rows))
}

fn comparison_table(then: &str, comparison: &Comparison) -> String {
    let rows = comparison.rows.iter().map(|row| {
        vec![
            format!("{} {}", name(&row.load), row.figure),
            row.figure.words(row.then),
            row.figure.words(row.now),
            format!("{:+.1} %", row.change * 100.0),
            row.noise.map_or_else(String::new, |noise| format!("±{:.1} %", noise * 100.0)),
            row.verdict.to_string(),
        ]
    });
    let numbers = table(&["figure", "then", "now", "change", "noise", "verdict"], rows);
    format!("<div class=\"sheet\">\n<h2>Compared with {}</h2>\n{numbers}</div>\n", escaped(then))
}

/// Every plot with its numbers as a table.
fn plots(seen: &[Seen]) -> Vec<(Plot, String)> {
    let closed: Vec<&Seen> =
        seen.iter().filter(|load| matches!(load.point.load, Load::Concurrency(_))).collect();
    let open: Vec<&Seen> = seen.iter().filter(|load| matches!(load.point.load, Load::Rate { .. })).collect();
    let mut all = Vec::new();
    for (loads, label) in [(closed, "requests at once"), (open, "requests a second")] {
        if !loads.is_empty() {
            all.push(throughput(&loads, label));
            all.push(latency(&loads, label, Latency::Ttft, "Time to first token"));
            all.push(latency(&loads, label, Latency::Tpot, "Time per further token"));
        }
    }
    if !seen.is_empty() {
        all.push(distribution(seen, Latency::Ttft, "How long first tokens take"));
        all.push(distribution(seen, Latency::Tpot, "How long further tokens take"));
        all.push(over_time(seen));
    }
    all
}

/// Where a load is on its axis.
fn place(load: &Load) -> f64 {
    match load {
        Load::Concurrency(most) => f64::from(*most),
        Load::Rate { per_second, .. } => *per_second,
    }
}

fn loads_axis(loads: &[&Seen], label: &str) -> Axis {
    let mut ticks: Vec<f64> = loads.iter().map(|load| place(&load.point.load)).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    Axis { label: label.to_owned(), logarithmic: true, ticks }
}

/// A line over the loads, in their order.
fn over_loads(loads: &[&Seen], name: &str, figure: impl Fn(&Metrics) -> Option<f64>) -> Line {
    let mut points: Vec<(f64, Spread)> = loads
        .iter()
        .filter_map(|load| Some((place(&load.point.load), spread(&load.runs, &figure)?)))
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    Line {
        name: name.to_owned(),
        points: points.iter().map(|(at, spread)| (*at, spread.median)).collect(),
        whiskers: points.iter().map(|(_, spread)| (spread.lowest, spread.highest)).collect(),
        marks: true,
    }
}

fn line_table(first: &str, lines: &[Line]) -> String {
    let mut heads = vec![first];
    heads.extend(lines.iter().map(|line| line.name.as_str()));
    let mut places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let rows = places.iter().map(|at| {
        let of =
            |line: &Line| line.points.iter().find(|point| point.0.total_cmp(at).is_eq()).map(|point| point.1);
        let mut row = vec![at.to_string()];
        row.extend(lines.iter().map(|line| cell(of(line))));
        row
    });
    table(&heads, rows)
}

fn throughput(loads: &[&Seen], label: &str) -> (Plot, String) {
    let lines = vec![over_loads(loads, "answers, tok/s", |run| Some(run.output_throughput))];
    let numbers = line_table(label, &lines);
    let plot = Plot {
        title: "Throughput".to_owned(),
        description: format!(
            "Tokens of answers a second against {label}; the broad stroke goes from the slowest to the fastest run."
        ),
        x: loads_axis(loads, label),
        y: Axis { label: "tokens a second".to_owned(), ..Axis::default() },
        lines,
    };
    (plot, numbers)
}

fn latency(loads: &[&Seen], label: &str, latency: Latency, title: &str) -> (Plot, String) {
    let line = |name: &str, percent: f64| {
        over_loads(loads, name, |run| latency.of(run).percentile(percent).map(|seconds| seconds * 1e3))
    };
    let lines = vec![line("p50, ms", 50.0), line("p90, ms", 90.0), line("p99, ms", 99.0)];
    let numbers = line_table(label, &lines);
    let plot = Plot {
        title: format!("{title} ({})", latency.key().to_uppercase()),
        description: format!(
            "{title} against {label}: of half of the requests, of 90 and of 99 in a hundred at most so long."
        ),
        x: loads_axis(loads, label),
        y: Axis { label: "milliseconds".to_owned(), ..Axis::default() },
        lines,
    };
    (plot, numbers)
}

/// The loads that are drawn where each has a line of its own: the first, the last, and some between.
fn chosen<'a, 'b>(seen: &'b [Seen<'a>]) -> Vec<&'b Seen<'a>> {
    let last = seen.len().saturating_sub(1);
    let mut places: Vec<usize> = (0..MOST_LINES).map(|number| number * last / (MOST_LINES - 1)).collect();
    places.dedup();
    places.into_iter().filter_map(|place| seen.get(place)).collect()
}

fn distribution(seen: &[Seen], latency: Latency, title: &str) -> (Plot, String) {
    let all = |load: &Seen| {
        Distribution::new(load.runs.iter().flat_map(|run| latency.of(run).values().iter().map(|s| s * 1e3)))
    };
    let key = latency.key().to_uppercase();
    let line = |load: &&Seen| {
        let values = all(load);
        let points = (0..=STEPS).filter_map(|step| {
            let percent = f64::from(step) * 100.0 / f64::from(STEPS);
            Some((values.percentile(percent)?, percent))
        });
        Line { name: load.name.clone(), points: points.collect(), ..Line::default() }
    };
    let percentiles = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0];
    let rows = seen.iter().map(|load| {
        let values = all(load);
        let mut row = vec![load.name.clone()];
        row.extend(percentiles.map(|percent| cell(values.percentile(percent))));
        row
    });
    let numbers = table(&["load, ms", "p1", "p10", "p25", "p50", "p75", "p90", "p99"], rows);
    let plot = Plot {
        title: format!("{title} ({key})"),
        description: format!(
            "The part of all requests whose {key} is at most so long; a steep line is a steady one."
        ),
        x: Axis { label: "milliseconds".to_owned(), ..Axis::default() },
        y: Axis {
            label: "% of requests".to_owned(),
            ticks: vec![0.0, 25.0, 50.0, 75.0, 100.0],
            ..Axis::default()
        },
        lines: chosen(seen).iter().map(line).collect(),
    };
    (plot, numbers)
}

fn over_time(seen: &[Seen]) -> (Plot, String) {
    let tokens = |load: &Seen| {
        let run = load.point.runs.last();
        let answered: Vec<_> =
            run.iter().flat_map(|run| &run.requests).filter(|request| request.failure.is_none()).collect();
        each_second(&answered).0
    };
    let line = |load: &&Seen| {
        let points = tokens(load).into_iter().enumerate();
        let points = points.map(|(second, tokens)| (super::noise::count(second), tokens)).collect();
        Line { name: load.name.clone(), points, ..Line::default() }
    };
    let rows = seen.iter().map(|load| {
        let each = Distribution::new(tokens(load));
        let p = |percent: f64| cell(each.percentile(percent));
        vec![load.name.clone(), p(0.0), p(50.0), p(100.0), each.values().len().to_string()]
    });
    let numbers = table(&["load", "least in a second", "half of the seconds", "most", "seconds"], rows);
    let plot = Plot {
        title: "Tokens over time".to_owned(),
        description:
            "Tokens of answers in each second of the last run; first and last are not whole seconds."
                .to_owned(),
        x: Axis { label: "seconds".to_owned(), ..Axis::default() },
        y: Axis { label: "tokens in a second".to_owned(), ..Axis::default() },
        lines: chosen(seen).iter().map(line).collect(),
    };
    (plot, numbers)
}
