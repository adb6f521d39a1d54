//! How far an engine's start has come, read from its log lines. Pure.
//!
//! Engines log many of these lines once, on one rank, and not in the same order in every release.
//! So a stage is no step of a state machine: what counts is the greatest one that a rank has shown.
//! Nothing is said about failures; that is `diagnose`'s.

mod sglang;
mod vllm;

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};
use serde::{Deserialize, Serialize};

/// A stage of an engine's start; the later, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartStage {
    /// The nodes gather, in a Ray cluster or for a native launch.
    Gathering,
    /// The engine reads its arguments and the model's configuration.
    Config,
    /// The engine's core and its workers come up.
    Engine,
    /// A rank looks for its peers.
    Rendezvous,
    /// The ranks know each other and set up NCCL and their message queues. A start that hangs
    /// without a word hangs here.
    Groups,
    /// The rank's groups stand.
    GroupsReady,
    /// The weights are read.
    LoadingWeights,
    /// The weights are in memory.
    WeightsLoaded,
    /// The model is compiled.
    Compiling,
    /// The room for the KV cache is measured.
    Memory,
    /// Kernels are compiled and tuned; the first time this may take half an hour.
    Tuning,
    /// CUDA graphs are captured.
    CapturingGraphs,
    /// All CUDA graphs are captured.
    GraphsCaptured,
    /// The engine is warm, the HTTP server comes up.
    Warming,
    /// The HTTP server answers.
    Serving,
}

impl StartStage {
    /// In people's words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Gathering => "gathering the nodes",
            Self::Config => "reading the configuration",
            Self::Engine => "starting the engine",
            Self::Rendezvous => "looking for the other ranks",
            Self::Groups => "connecting the ranks",
            Self::GroupsReady => "ranks connected",
            Self::LoadingWeights => "loading weights",
            Self::WeightsLoaded => "weights loaded",
            Self::Compiling => "compiling",
            Self::Memory => "KV cache",
            Self::Tuning => "tuning kernels",
            Self::CapturingGraphs => "capturing graphs",
            Self::GraphsCaptured => "graphs captured",
            Self::Warming => "warming up",
            Self::Serving => "serving",
        }
    }
}

impl fmt::Display for StartStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

/// What one line says about the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Milestone {
    /// The stage that the line belongs to.
    pub stage: StartStage,
    /// A figure for people: `43 %`, `12/51`, `1.2 M tokens`.
    pub figure: Option<String>,
    /// How much of the stage is done, 0 to 1.
    pub fraction: Option<f32>,
}

/// What a line of vLLM's log, of Ray's around it, or of sparkctl's launch script says about the
/// start. Prefixes, colours and what stood on a progress bar's line before do not matter.
pub fn vllm(line: &str) -> Option<Milestone> {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(vllm::ROWS));
    TABLE.read(line)
}

/// The same for `SGLang`'s.
pub fn sglang(line: &str) -> Option<Milestone> {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(sglang::ROWS));
    TABLE.read(line)
}

/// The same where the engine is not known.
pub fn of_any(line: &str) -> Option<Milestone> {
    vllm(line).or_else(|| sglang(line))
}

/// A stage, what the pattern's groups hold, and the pattern of its lines.
type Row = (StartStage, Figure, &'static str);

/// An engine's lines by stage; of two rows that match, the first counts.
struct Table {
    rows: &'static [Row],
    set: RegexSet,
    each: Vec<Regex>,
}

impl Table {
    fn new(rows: &'static [Row]) -> Self {
        let pattern = |(_, _, pattern): &Row| Regex::new(pattern).expect("the milestones are regexes");
        Self {
            rows,
            set: RegexSet::new(rows.iter().map(|(.., pattern)| *pattern))
                .expect("the milestones are regexes"),
            each: rows.iter().map(pattern).collect(),
        }
    }

    fn read(&self, line: &str) -> Option<Milestone> {
        let line = plain(line);
        let row = self.set.matches(&line).iter().next()?;
        let (stage, figure, _) = self.rows[row];
        // A progress bar writes over itself: its last state counts.
        let captures = self.each[row].captures_iter(&line).last()?;
        let (figure, fraction) = read(figure, &captures);
        Some(Milestone { stage, figure, fraction })
    }
}

/// A line without terminal escapes.
pub(crate) fn plain(line: &str) -> Cow<'_, str> {
    static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))").expect("a regex")
    });
    ESCAPE.replace_all(line, "")
}

/// What a pattern's groups hold.
#[derive(Clone, Copy)]
enum Figure {
    /// No groups.
    Nothing,
    /// How many of how many nodes.
    Nodes,
    /// How many of how many, for people as per cent.
    Percent,
    /// How many of how many, for people as such.
    Count,
    /// A number, said with this unit, rounded to so many digits.
    Amount(&'static str, usize),
    /// A number of tokens.
    Tokens,
}

fn read(figure: Figure, captures: &Captures<'_>) -> (Option<String>, Option<f32>) {
    let number =
        |group| captures.get(group).and_then(|text| text.as_str().replace(',', "").parse::<f32>().ok());
    let of = || Some((number(1)?, number(2)?)).filter(|(_, all)| *all > 0.0);
    let share = |(done, all): (f32, f32)| (done / all).clamp(0.0, 1.0);
    match figure {
        Figure::Nothing => (None, None),
        Figure::Nodes => (of().map(|(done, all)| format!("{done} of {all} nodes")), of().map(share)),
        Figure::Percent => (of().map(|of| format!("{:.0} %", (share(of) * 100.0).floor())), of().map(share)),
        Figure::Count => (of().map(|(done, all)| format!("{done}/{all}")), of().map(share)),
        Figure::Amount(unit, digits) => (number(1).map(|amount| format!("{amount:.digits$} {unit}")), None),
        Figure::Tokens => (number(1).map(tokens), None),
    }
}

/// A number of tokens, for people.
pub(crate) fn tokens(count: f32) -> String {
    if count >= 1e6 {
        format!("{:.1} M tokens", count / 1e6)
    } else if count >= 1e4 {
        format!("{:.0} k tokens", count / 1e3)
    } else {
        format!("{count:.0} tokens")
    }
}

#[cfg(test)]
mod tests;
