//! Limits that figures have to keep: `tpot_p50<40ms,throughput>25`. Read, and judged. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::figure::Figure;
use super::metrics::{Goodput, Metrics, Spread, metrics};
use super::result::{Load, Report};
use super::summary::name;

/// A limit of a figure, at every load or at one.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    pub figure: Figure,
    /// Requests at once of the load that it is about; none: of every load.
    pub concurrency: Option<u32>,
    pub sense: Sense,
    /// Seconds, a rate a second, or a part of 1.
    pub value: f64,
    /// As it was written, for people.
    text: String,
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// On which side of the limit a figure has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Limits, all of which have to be kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Gate(pub Vec<Limit>);

/// A limit that was not kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Broken {
    pub load: Option<Load>,
    /// The limit, as it was written.
    pub limit: String,
    /// What was measured, in words; none where nothing was.
    pub seen: Option<String>,
}

/// What is written between figure and value; the longer ones first.
const SENSES: [(&str, Sense); 4] =
    [("<=", Sense::AtMost), (">=", Sense::AtLeast), ("<", Sense::Below), (">", Sense::Above)];

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let sense = SENSES.iter().filter_map(|(mark, sense)| Some((text.find(mark)?, mark, *sense)));
        let Some((at, mark, sense)) = sense.min_by_key(|(at, ..)| *at) else {
            return Err(format!("`{text}` is no limit: write it like `tpot_p50<40ms` or `throughput>25`"));
        };
        let (figure, value) = (text[..at].trim(), text[at + mark.len()..].trim());
        let (figure, load) = figure.split_once('@').unwrap_or((figure, ""));
        let concurrency = match load.trim() {
            "" => None,
            load => {
                let number = load.strip_prefix('c').and_then(|number| number.parse().ok());
                Some(number.ok_or_else(|| {
                    format!("`{load}` is not a load: write `@c4` for that of 4 requests at once")
                })?)
            }
        };
        let figure: Figure = figure.trim().parse()?;
        let value = number(figure, value)?;
        Ok(Self { figure, concurrency, sense, value, text: text.to_owned() })
    }
}

/// A number with its unit, in the figure's own.
fn number(figure: Figure, text: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim());
    let number: f64 = digits.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    let (units, factor) = match (figure, unit) {
        (Figure::Latency(..), "ms") => ("", Some(1e-3)),
        (Figure::Latency(..), "us" | "µs") => ("", Some(1e-6)),
        (Figure::Latency(..), "s")
        | (Figure::Throughput | Figure::TotalThroughput, "" | "tok/s" | "t/s")
        | (Figure::Requests, "" | "req/s") => ("", Some(1.0)),
        (Figure::Latency(..), _) => ("`ms` or `s`", None),
        (Figure::Throughput | Figure::TotalThroughput, _) => ("`tok/s`, or none", None),
        (Figure::Requests, _) => ("`req/s`, or none", None),
        (Figure::Failed, "%") => ("", Some(0.01)),
        (Figure::Failed, _) => ("`%`", None),
    };
    match factor {
        Some(factor) => Ok(number * factor),
        None if unit.is_empty() => Err(format!("`{digits}` has no unit: `{figure}` is told in {units}")),
        None => Err(format!("`{unit}` is no unit of `{figure}`: it is told in {units}")),
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let limits = parts.map(str::parse).collect::<Result<Vec<_>, _>>()?;
        if limits.is_empty() {
            return Err("there is no limit: write it like `tpot_p50<40ms,throughput>25`".to_owned());
        }
        Ok(Self(limits))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = self.load.as_ref().map_or_else(String::new, |load| format!("at {} ", name(load)));
        match &self.seen {
            Some(seen) => write!(f, "{load}the limit `{}` is not kept: it is {seen}", self.limit),
            None => write!(f, "{load}the limit `{}` is not kept: nothing was measured", self.limit),
        }
    }
}

impl Limit {
    fn keeps(&self, value: f64) -> bool {
        match self.sense {
            Sense::Below => value < self.value,
            Sense::AtMost => value <= self.value,
            Sense::Above => value > self.value,
            Sense::AtLeast => value >= self.value,
        }
    }

    fn is_about(&self, load: &Load) -> bool {
        self.concurrency.is_none_or(|wanted| *load == Load::Concurrency(wanted))
    }
}

impl Gate {
    /// The limits that a report does not keep. What was not measured in every run keeps none. The figure of a load is the
    /// median of those of its runs. A failed request keeps no limit at its load, unless one of them is about `failed`.
    pub fn broken(&self, report: &Report) -> Vec<Broken> {
        let runs: Vec<(Load, Vec<Metrics>)> = report
            .points
            .iter()
            .map(|point| {
                (point.load, point.runs.iter().map(|run| metrics(run, &Goodput::default())).collect())
            })
            .collect();
        let mut broken = Vec::new();
        for limit in &self.0 {
            let about: Vec<_> = runs.iter().filter(|(load, _)| limit.is_about(load)).collect();
            if about.is_empty() {
                broken.push(Broken { load: None, limit: limit.to_string(), seen: None });
            }
            for (load, runs) in about {
                let values: Vec<_> = runs.iter().map(|run| limit.figure.of(run)).collect();
                let whole = values.iter().all(Option::is_some);
                let value = Spread::of(values).filter(|_| whole).map(|spread| spread.median);
                if !value.is_some_and(|value| limit.keeps(value)) {
                    let seen = value.map(|value| limit.figure.words(value));
                    broken.push(Broken { load: Some(*load), limit: limit.to_string(), seen });
                }
            }
        }
        // Figures are those of answered requests: they say nothing of the others.
        for (load, runs) in &runs {
            let forgiven = self.0.iter().any(|limit| limit.figure == Figure::Failed && limit.is_about(load));
            let failed: usize = runs.iter().map(|run| run.failed).sum();
            if failed > 0 && !forgiven && self.0.iter().any(|limit| limit.is_about(load)) {
                let all = failed + runs.iter().map(|run| run.completed).sum::<usize>();
                let seen = Some(format!("{failed} of {all} requests"));
                broken.push(Broken { load: Some(*load), limit: "failed<=0%".to_owned(), seen });
            }
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::{ClientDelay, FORMAT, Point, Request, Run, Subject};

    #[test]
    fn what_is_no_limit_says_why() {
        for (text, words) in [
            ("", "there is no limit"),
            ("throughput", "`throughput` is no limit: write it like `tpot_p50<40ms` or `throughput>25`"),
            ("speed>25", "`speed` is not a figure: there are `throughput`"),
            ("tpot<40ms", "`tpot` is not a figure"),
            ("tpot_p0<40ms", "`tpot_p0` is not a figure"),
            ("tpot_p50<40", "`40` has no unit: `tpot_p50` is told in `ms` or `s`"),
            ("tpot_p50<40 tok/s", "`tok/s` is no unit of `tpot_p50`: it is told in `ms` or `s`"),
            ("throughput>25ms", "`ms` is no unit of `throughput`: it is told in `tok/s`, or none"),
            ("failed<1", "`1` has no unit: `failed` is told in `%`"),
            ("throughput>fast", "`fast` does not begin with a number"),
            ("throughput>-5", "`-5` does not begin with a number"),
            ("throughput@4>25", "`4` is not a load: write `@c4`"),
        ] {
            let error = text.parse::<Gate>().expect_err(text);
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    /// Two requests of 11 tokens, one of them slower, 1 second in all.
    fn report(loads: &[Load]) -> Report {
        let request = |ttft: f64, seconds: f64| Request {
            ttft: Some(ttft),
            seconds,
            input_tokens: Some(100),
            output_tokens: Some(11),
            ..Request::default()
        };
        let run = Run {
            seconds: 1.0,
            requests: vec![request(0.1, 0.5), request(0.2, 0.7)],
            client: ClientDelay::default(),
            prefix_cache: None,
            speculation: None,
        };
        let subject = Subject { url: String::new(), model: String::new(), deployment: None, release: None };
        Report {
            format: FORMAT,
            sparkctl: String::new(),
            begun: jiff::Timestamp::UNIX_EPOCH,
            subject,
            workload: String::new(),
            points: loads.iter().map(|load| Point { load: *load, runs: vec![run.clone()] }).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn limits_are_judged_in_their_units() {
        let report = report(&[Load::Concurrency(2)]);
        for (gate, kept) in [
            ("throughput>21", true),
            ("throughput>22 tok/s", false),
            ("throughput>=22", true),
            ("total_throughput>=222", true),
            ("requests>=2req/s", true),
            ("ttft_p50<0.16s", true),
            ("ttft_median < 149 ms", false),
            ("ttft_mean<=151ms", true),
            ("tpot_p50<46ms, e2el_p99<1s", true),
            ("tpot_p50<46ms,e2el_p99<600ms", false),
            ("failed<=0%", true),
            ("throughput@c2>21", true),
            ("throughput@c2>23", false),
            // A limit of what was not measured is not kept: a gate that nobody passes through guards nothing.
            ("throughput@c4>21", false),
            ("itl_p50<1s", false),
        ] {
            let broken = gate.parse::<Gate>().unwrap().broken(&report);
            assert_eq!(broken.is_empty(), kept, "{gate}: {broken:?}");
        }
    }

    #[test]
    fn a_broken_limit_says_load_limit_and_figure() {
        let loads = [Load::Concurrency(1), Load::Concurrency(2)];
        let broken = "throughput@c2>25,failed<1%".parse::<Gate>().unwrap().broken(&report(&loads));
        let told: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["at c2 the limit `throughput@c2>25` is not kept: it is 22.0 tok/s"]);
    }
}
