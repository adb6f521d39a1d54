//! Names of figures, as gates, comparisons and records have them: `throughput`, `ttft_p50`. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::metrics::{Distribution, Metrics};

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// Tokens of answers a second.
    Throughput,
    /// Tokens of prompts and answers a second.
    TotalThroughput,
    /// Answered requests a second.
    Requests,
    /// Failed requests, of all.
    Failed,
    /// Of a latency, in seconds.
    Latency(Latency, Statistic),
}

/// What takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Latency {
    /// To the first token.
    Ttft,
    /// Each further token.
    Tpot,
    /// Between pieces of the stream.
    Itl,
    /// To the end.
    E2el,
}

/// What of many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statistic {
    Mean,
    /// A percentile.
    P(u8),
}

impl Figure {
    /// The time to the first token, half of all.
    pub const TTFT: Self = Self::Latency(Latency::Ttft, Statistic::P(50));
    /// The time of each further token, half of all.
    pub const TPOT: Self = Self::Latency(Latency::Tpot, Statistic::P(50));
    /// The time to the end, half of all.
    pub const E2EL: Self = Self::Latency(Latency::E2el, Statistic::P(50));

    /// The figure of a run; none where the run has no such value.
    pub fn of(self, metrics: &Metrics) -> Option<f64> {
        let all = metrics.completed + metrics.failed;
        match self {
            Self::Throughput => Some(metrics.output_throughput),
            Self::TotalThroughput => Some(metrics.total_token_throughput),
            Self::Requests => Some(metrics.request_throughput),
            Self::Failed => (all > 0).then(|| super::noise::count(metrics.failed) / super::noise::count(all)),
            Self::Latency(latency, statistic) => {
                let values = latency.of(metrics);
                match statistic {
                    Statistic::Mean => values.mean(),
                    Statistic::P(percent) => values.percentile(f64::from(percent)),
                }
            }
        }
    }

    /// Whether more is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::TotalThroughput | Self::Requests)
    }

    /// A value of it for people, with its unit.
    pub fn words(self, value: f64) -> String {
        match self {
            Self::Throughput | Self::TotalThroughput => format!("{} tok/s", digits(value)),
            Self::Requests => format!("{} req/s", digits(value)),
            Self::Failed => format!("{} %", digits(value * 100.0)),
            Self::Latency(..) => time(value),
        }
    }
}

impl Latency {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Ttft, Self::Tpot, Self::Itl, Self::E2el];

    /// Its values in a run, seconds.
    pub fn of(self, metrics: &Metrics) -> &Distribution {
        match self {
            Self::Ttft => &metrics.ttft,
            Self::Tpot => &metrics.tpot,
            Self::Itl => &metrics.itl,
            Self::E2el => &metrics.e2el,
        }
    }

    /// Its name in keys.
    pub fn key(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::E2el => "e2el",
        }
    }
}

/// Three digits that mean something: `27.3`, `2450`, `0.312`.
pub fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A time for people: milliseconds where it is short.
pub fn time(seconds: f64) -> String {
    if seconds < 0.9995 {
        format!("{} ms", digits(seconds * 1000.0))
    } else {
        format!("{} s", digits(seconds))
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput => f.pad("throughput"),
            Self::TotalThroughput => f.pad("total_throughput"),
            Self::Requests => f.pad("requests"),
            Self::Failed => f.pad("failed"),
            Self::Latency(latency, Statistic::Mean) => f.pad(&format!("{}_mean", latency.key())),
            Self::Latency(latency, Statistic::P(percent)) => f.pad(&format!("{}_p{percent}", latency.key())),
        }
    }
}

/// The names that there are, for whoever wrote another.
const NAMES: &str = "`throughput` (tokens of answers), `total_throughput`, `requests`, `failed`, and of each of `ttft`, `tpot`, `itl`, `e2el` \
                     the `_mean` or a percentile, e.g. `ttft_p50`, `tpot_p99`";

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is not a figure: there are {NAMES}");
        Ok(match text {
            "throughput" | "output_throughput" => Self::Throughput,
            "total_throughput" | "total_token_throughput" => Self::TotalThroughput,
            "requests" | "request_throughput" => Self::Requests,
            "failed" => Self::Failed,
            _ => {
                let (name, statistic) = text.split_once('_').ok_or_else(unknown)?;
                let latency = Latency::ALL.into_iter().find(|latency| latency.key() == name);
                let statistic = match statistic {
                    "mean" => Some(Statistic::Mean),
                    "median" => Some(Statistic::P(50)),
                    other => {
                        let percent = other.strip_prefix('p').and_then(|percent| percent.parse().ok());
                        percent.filter(|percent| (1..100).contains(percent)).map(Statistic::P)
                    }
                };
                Self::Latency(latency.ok_or_else(unknown)?, statistic.ok_or_else(unknown)?)
            }
        })
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}
