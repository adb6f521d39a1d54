//! What an engine says of its own start: how large the weights are, how much room the KV cache got.
//! Read from its log lines, kept with the release, and used for the next start's estimate. Pure.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde::{Deserialize, Serialize};

use super::milestones::{plain, tokens};

/// Figures of one start; those that the engine did not print are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineFigures {
    /// The engine's version, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// GiB that the model's weights take on the rank that takes most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_gib: Option<f64>,
    /// Seconds that reading the weights took on the slowest rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_seconds: Option<f64>,
    /// Seconds of compiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile_seconds: Option<f64>,
    /// GiB of the KV cache on the rank that has least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_gib: Option<f64>,
    /// Tokens that the KV cache holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_tokens: Option<u64>,
    /// GiB that the CUDA graphs take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphs_gib: Option<f64>,
}

/// A figure, and the lines that have it: its first group, and where there is a second the sum of both.
type Row = (Field, &'static str);

#[derive(Clone, Copy)]
enum Field {
    Version,
    Weights,
    Load,
    Compile,
    Cache,
    Tokens,
    Graphs,
}

/// Of vLLM 0.1x to 0.33 and `SGLang` 0.4 and 0.5.
const ROWS: &[Row] = &[
    (Field::Version, r"Initializing a V\d LLM engine \(v([^)\s]+)\)"),
    (Field::Version, r"Launching vLLM \(v([^)\s]+)\)"),
    (Field::Weights, r"Model loading took ([\d.]+) GiB"),
    (Field::Weights, r"Load weight end\..*mem usage=([\d.]+) GB"),
    (Field::Load, r"Loading weights took ([\d.]+) seconds"),
    (Field::Load, r"Load weight end\. elapsed=([\d.]+) s"),
    (Field::Compile, r"torch\.compile (?:takes|took) ([\d.]+) s in total"),
    (Field::Cache, r"Available KV cache memory: ([\d.]+) GiB"),
    (Field::Cache, r"Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache"),
    (Field::Cache, r"KV Cache is allocated\..*K size: ([\d.]+) GB, V size: ([\d.]+) GB"),
    (Field::Tokens, r"(?:GPU|CPU)(?: \+ host)? KV cache size: ([\d,]+) tokens"),
    (Field::Tokens, r"KV Cache is allocated\..*#tokens: (\d+)"),
    (Field::Graphs, r"Graph capturing finished in \d+ secs, took ([\d.]+) GiB"),
    (Field::Graphs, r"(?i)Capture .*graph.* end\..*mem usage=([\d.]+) GB"),
];

impl EngineFigures {
    /// Takes in what a line of any rank's log says. The order of lines and ranks does not matter: of what a rank
    /// needs the most counts, of what it has the least.
    pub fn take(&mut self, line: &str) {
        static TABLE: LazyLock<(RegexSet, Vec<Regex>)> = LazyLock::new(|| {
            let patterns = || ROWS.iter().map(|(_, pattern)| *pattern);
            let each = patterns().map(|pattern| Regex::new(pattern).expect("the figures are regexes"));
            (RegexSet::new(patterns()).expect("the figures are regexes"), each.collect())
        });
        let line = plain(line);
        let (set, each) = &*TABLE;
        for row in &set.matches(&line) {
            let Some(groups) = each[row].captures(&line) else { continue };
            let number = |group: usize| groups.get(group)?.as_str().replace(',', "").parse::<f64>().ok();
            let sum = || Some(number(1)? + number(2).unwrap_or(0.0));
            match ROWS[row].0 {
                Field::Version => {
                    self.version.get_or_insert_with(|| groups[1].to_owned());
                }
                Field::Weights => self.weights_gib = most(self.weights_gib, sum()),
                Field::Load => self.load_seconds = most(self.load_seconds, sum()),
                Field::Compile => self.compile_seconds = most(self.compile_seconds, sum()),
                Field::Graphs => self.graphs_gib = most(self.graphs_gib, sum()),
                Field::Cache => self.kv_cache_gib = least(self.kv_cache_gib, sum()),
                Field::Tokens => {
                    let told = groups[1].replace(',', "").parse().ok();
                    self.kv_cache_tokens = self.kv_cache_tokens.into_iter().chain(told).min();
                }
            }
        }
    }

    /// The same with what another rank's log says.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            version: self.version.or_else(|| other.version.clone()),
            weights_gib: most(self.weights_gib, other.weights_gib),
            load_seconds: most(self.load_seconds, other.load_seconds),
            compile_seconds: most(self.compile_seconds, other.compile_seconds),
            kv_cache_gib: least(self.kv_cache_gib, other.kv_cache_gib),
            kv_cache_tokens: self.kv_cache_tokens.into_iter().chain(other.kv_cache_tokens).min(),
            graphs_gib: most(self.graphs_gib, other.graphs_gib),
        }
    }

    /// What the lines of all ranks' logs say.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut figures = Self::default();
        lines.into_iter().for_each(|line| figures.take(line));
        figures
    }

    /// For people, as far as it is known.
    pub fn words(&self) -> Vec<String> {
        let with =
            |value: Option<f64>, text: &str, unit: &str| value.map(|v| format!("{text} {v:.1} {unit}"));
        let cache = match (self.kv_cache_gib, self.kv_cache_tokens) {
            (None, None) => None,
            (gib, held) => {
                let gib = gib.map(|gib| format!("{gib:.1} GiB"));
                #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
                let held = held.map(|held| tokens(held as f32));
                Some(format!("KV cache {}", gib.into_iter().chain(held).collect::<Vec<_>>().join(", ")))
            }
        };
        [
            self.version.as_ref().map(|version| format!("engine {version}")),
            with(self.weights_gib, "weights", "GiB"),
            with(self.load_seconds, "loaded in", "s"),
            with(self.compile_seconds, "compiled in", "s"),
            cache,
            with(self.graphs_gib, "graphs", "GiB"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn most(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! log {
        ($name:literal) => {
            include_str!(concat!("../../tests/data/logs/", $name, ".log"))
        };
    }

    #[test]
    fn real_logs_tell_their_figures() {
        let cpu = EngineFigures {
            version: Some("0.32.0".to_owned()),
            kv_cache_gib: Some(1.0),
            kv_cache_tokens: Some(1_048_576),
            ..EngineFigures::default()
        };
        let both = [log!("healthy.rank0"), log!("healthy.rank1")];
        assert_eq!(EngineFigures::of(both.iter().flat_map(|log| log.lines())), cpu);
        // A worker alone knows the version by another line, and nothing of tokens.
        let worker = EngineFigures::of(log!("healthy.rank1").lines());
        assert_eq!((worker.version.as_deref(), worker.kv_cache_tokens), (Some("0.32.0"), None));
        let cuda = EngineFigures {
            version: Some("0.26.0".to_owned()),
            weights_gib: Some(0.0),
            load_seconds: Some(0.01),
            compile_seconds: Some(12.07),
            kv_cache_gib: Some(12.84),
            kv_cache_tokens: Some(13_458_800),
            graphs_gib: Some(0.31),
        };
        assert_eq!(EngineFigures::of(log!("cuda-healthy.rank0").lines()), cuda);
        let told = "engine 0.26.0 · weights 0.0 GiB · loaded in 0.0 s · compiled in 12.1 s · KV cache 12.8 GiB, 13.5 M tokens · graphs 0.3 GiB";
        assert_eq!(cuda.words().join(" · "), told);
        assert_eq!(EngineFigures::of(log!("hang.rank1").lines()).kv_cache_tokens, None);
        assert!(EngineFigures::default().words().is_empty());
    }

    /// On Ray all ranks' lines come to the head; by a native launch each rank has its own.
    #[test]
    fn the_rank_that_is_worst_off_counts() {
        let lines = [
            "\u{1b}[36m(RayWorkerProc pid=9, ip=10.0.0.2)\u{1b}[0m Model loading took 63.24 GiB memory and 71.2 seconds",
            "Model loading took 61.00 GiB and 70 seconds",
            "Loading weights took 65.20 seconds",
            "Loading weights took 68.30 seconds",
            "Available KV cache memory: 30.50 GiB",
            "Available KV cache memory: 28.25 GiB",
            "Available KV cache memory: -1.00 GiB",
            "GPU KV cache size: 1,234,567 tokens, Maximum concurrency for 32,768 tokens per request: 37.68x",
            "GPU KV cache size: 1,300,000 tokens",
        ];
        let figures = EngineFigures::of(lines);
        assert_eq!((figures.weights_gib, figures.load_seconds), (Some(63.24), Some(68.3)));
        assert_eq!((figures.kv_cache_gib, figures.kv_cache_tokens), (Some(28.25), Some(1_234_567)));
        let sglang = [
            "[2026-09-21 13:37:09 TP0] Load weight end. elapsed=3.18 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=97.34 GB, mem usage=15.12 GB.",
            "[2026-09-21 13:37:09 TP0] KV Cache is allocated. #tokens: 200000, K size: 6.00 GB, V size: 6.50 GB",
            "[2026-09-21 13:37:19 TP0] Capture cuda graph end. Time elapsed: 5.60 s. mem usage=0.44 GB. avail mem=19.54 GB.",
        ];
        let wanted = EngineFigures {
            weights_gib: Some(15.12),
            load_seconds: Some(3.18),
            kv_cache_gib: Some(12.5),
            kv_cache_tokens: Some(200_000),
            graphs_gib: Some(0.44),
            ..EngineFigures::default()
        };
        assert_eq!(EngineFigures::of(sglang), wanted);
    }
}
