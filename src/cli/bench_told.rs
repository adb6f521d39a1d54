//! What `bench` makes of its result: tables, files, plots, a comparison, and whether limits are kept.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::bench::write;
use super::change::usage;
use super::{Global, Output, print, session};
use crate::bench::compare::{Comparison, alike, compare};
use crate::bench::gate::{Broken, Gate};
use crate::bench::metrics::Goodput;
use crate::bench::page::html;
use crate::bench::result::{Load, Report};
use crate::bench::sketch::sketch;
use crate::bench::summary::Summary;
use crate::bench::workload::Order;
use crate::bench::{table, vllm_result};
use crate::error::{CommandError, Exit, in_full};
use crate::execute::Hosts;
use crate::operation;
use crate::profile::Profile;
use crate::release::{Outcome, ReleaseNumber, store};
use crate::report;

/// Columns where no terminal says how wide it is.
const WIDTH: usize = 80;

/// How the result is told.
#[derive(Debug, Args)]
pub struct Told {
    /// The form of the table.
    #[arg(long, value_enum, default_value_t = Style::Table)]
    style: Style,
    /// With `--style llama-benchy`: tokens of context ahead of each prompt.
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Plots behind the table, of block characters.
    #[arg(long)]
    plots: bool,
    /// Writes a page with plots to this file; it needs no network.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Writes a file a run to this folder, with the keys of `vllm bench serve --save-result --save-detailed`.
    #[arg(long, value_name = "FOLDER")]
    result_dir: Option<PathBuf>,
    /// Tells what became better or worse beyond the noise: than release N, than the last good one before what runs
    /// (`last-good`), or than a file of --save.
    #[arg(long, value_name = "N|last-good|FILE")]
    pub(super) compare: Option<With>,
    /// Limits that have to be kept, else the exit status is 8: `tpot_p50<40ms,throughput@c4>75`.
    #[arg(long, value_name = "FIGURE<VALUE,..")]
    gate: Option<Gate>,
}

/// How the result is written on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Style {
    Table,
    Markdown,
    Csv,
    /// `pp`, `tg` and depth, as llama-benchy prints them.
    LlamaBenchy,
}

/// What the result is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum With {
    LastGood,
    Release(ReleaseNumber),
    File(PathBuf),
}

impl FromStr for With {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match (text, text.parse()) {
            ("last-good", _) => Self::LastGood,
            (_, Ok(number)) => Self::Release(number),
            _ => Self::File(PathBuf::from(text)),
        })
    }
}

/// An earlier bench.
pub struct Then {
    /// What it is of, for people.
    name: String,
    summary: Summary,
}

impl With {
    /// The earlier bench, before anything is measured. `runs` is the release that serves now.
    pub async fn find(
        &self,
        profile: Option<&Profile>,
        hosts: &Hosts,
        runs: Option<ReleaseNumber>,
    ) -> Result<Then, CommandError> {
        if let Self::File(file) = self {
            let wrong = |why: String| usage(&format!("{} is no result of --save: {why}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
            let report: Report = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            return Ok(Then { name: file.display().to_string(), summary: Summary::of(&report) });
        }
        let Some(profile) = profile else {
            return Err(usage("releases belong to a deployment, and with --url there is none")
                .hint("give a file of --save"));
        };
        let facts = operation::look(profile, hosts).await.map_err(|errors| session::unreachable(&errors))?;
        let releases = facts.iter().flat_map(|facts| &facts.releases);
        let chosen = match self {
            // One that did not keep its limits has no figures in its record, and a report on the head.
            Self::Release(number) => releases.into_iter().find(|release| release.number == *number),
            _ => releases
                .into_iter()
                .filter(|release| release.figures.bench.is_some())
                .filter(|release| release.outcome == Outcome::Deployed)
                .filter(|release| runs.is_none_or(|runs| release.number < runs))
                .max_by_key(|release| release.number),
        };
        let Some(release) = chosen else {
            let what = match self {
                Self::Release(number) => format!("there is no release {number}"),
                _ => "no release before the one that runs was measured".to_owned(),
            };
            return Err(CommandError::new(Exit::Usage, format!("error: {what}"))
                .hint(format!("sparkctl releases {}", profile.name)));
        };
        // The whole report has figures that the record does not; where it is lost, the record will do.
        let head = &hosts[&profile.head().name];
        let whole = match store::read_bench(head.as_ref(), &profile.name, release.number).await {
            Ok(whole) => whole.map(|report| Summary::of(&report)),
            Err(error) => {
                tracing::warn!("{}", in_full(&error));
                None
            }
        };
        let summary = whole.or_else(|| release.figures.bench.clone());
        let summary = summary.ok_or_else(|| usage("the release was not measured"))?;
        Ok(Then { name: format!("release {}", release.number), summary })
    }
}

impl Then {
    /// What is to be measured so that it can be compared: refused where it cannot be. Where nothing says how long runs are,
    /// they are as long as they were then, which each load may have had its own way.
    pub fn orders(&self, order: Order) -> Result<Vec<Order>, CommandError> {
        let workload = order.workload.to_string();
        if workload != self.summary.workload {
            let message = format!(
                "{} was measured with another workload: `{}` then, `{workload}` now",
                self.name, self.summary.workload
            );
            return Err(usage(&message).hint("measure with the same lengths, or leave --compare out"));
        }
        let of = |load: &Load| self.summary.loads.iter().find(|then| then.load == *load);
        if !order.loads.iter().any(|load| of(load).is_some()) {
            let loads: Vec<_> =
                self.summary.loads.iter().map(|load| crate::bench::summary::name(&load.load)).collect();
            let message = format!("{} was measured at other loads: {}", self.name, loads.join(", "));
            return Err(usage(&message).hint("name one of them with --concurrency or --rate"));
        }
        if let Some(requests) = order.requests {
            let other = order.loads.iter().filter_map(of).find(|then| !alike(then.of_a_run(), requests));
            if let Some(then) = other {
                let message = format!(
                    "{} was measured with {} requests a run at {}, and {requests} are no match",
                    self.name,
                    then.of_a_run(),
                    crate::bench::summary::name(&then.load)
                );
                return Err(usage(&message).hint("leave --requests out: runs are then as long as they were"));
            }
        }
        if order.requests.is_some() || order.duration.is_some() {
            return Ok(vec![order]);
        }
        let each = |load: &Load| Order {
            loads: vec![*load],
            requests: of(load)
                .map(crate::bench::summary::LoadSummary::of_a_run)
                .filter(|requests| *requests > 0),
            ..order.clone()
        };
        Ok(order.loads.iter().map(each).collect())
    }
}

impl Told {
    /// Files that will be written.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let runs = self.result_dir.iter().map(|folder| folder.join("run.json"));
        self.report.iter().cloned().chain(runs)
    }

    /// Makes the folder that results will be written to.
    pub fn make_folder(&self) -> Result<(), CommandError> {
        let Some(folder) = &self.result_dir else { return Ok(()) };
        std::fs::create_dir_all(folder)
            .map_err(|error| usage(&format!("cannot make {}: {error}", folder.display())))
    }

    /// Prints and writes all that was asked for; false where a limit is not kept. What goes wrong with a part of it is told
    /// at the end, and takes nothing of the rest away.
    pub fn tell(
        &self,
        result: &Report,
        goodput: &Goodput,
        then: Option<&Then>,
        global: &Global,
    ) -> Result<bool, CommandError> {
        let compared = then.map(|then| (then, compare(&then.summary, &Summary::of(result))));
        let (compared, apart) = match compared {
            Some((then, Ok(comparison))) => (Some((then.name.as_str(), comparison)), None),
            Some((_, Err(why))) => (None, Some(usage(&why.to_string()))),
            None => (None, None),
        };
        let broken = self.gate.as_ref().map(|gate| gate.broken(result)).unwrap_or_default();
        match global.output {
            Output::Json => {
                let mut document = report::bench::document(result, goodput);
                if let Some((name, comparison)) = &compared {
                    document["compared"] = serde_json::json!({ "with": name, "comparison": comparison });
                }
                document["broken"] = serde_json::json!(broken);
                print(&format!("{}\n", report::json::document(document)));
            }
            Output::Text => {
                let told = self.verdicts(result, compared.as_ref(), &broken);
                if self.style == Style::Csv {
                    // Nothing else belongs into a table that programs read.
                    print(&self.table(result, goodput));
                    let _ = std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes());
                } else {
                    print(&format!("{}{told}", self.table(result, goodput)));
                }
            }
        }
        if let Some(file) = &self.report {
            let page = html(result, compared.as_ref().map(|(name, comparison)| (*name, comparison)));
            write(file, page.as_bytes())?;
        }
        if let Some(folder) = &self.result_dir {
            for (name, document) in vllm_result::documents(result, goodput) {
                write(&folder.join(name), document.to_string().as_bytes())?;
            }
        }
        if let Some(apart) = apart {
            return Err(apart);
        }
        Ok(broken.is_empty())
    }

    fn table(&self, result: &Report, goodput: &Goodput) -> String {
        match self.style {
            Style::Table => report::bench::text(result, goodput),
            Style::Markdown => table::markdown(result),
            Style::Csv => table::csv(result),
            Style::LlamaBenchy => table::llama_benchy(result, self.depth),
        }
    }

    /// What is told behind the table.
    fn verdicts(&self, result: &Report, compared: Option<&(&str, Comparison)>, broken: &[Broken]) -> String {
        let mut out = String::new();
        if self.plots {
            let width = terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0));
            out.push('\n');
            out.push_str(&sketch(result, width));
        }
        if let Some((name, comparison)) = compared {
            out.push('\n');
            out.push_str(&comparison.table(name));
        }
        if self.gate.is_some() {
            out.push('\n');
            for limit in broken {
                let _ = writeln!(out, "gate: {limit}");
            }
            if broken.is_empty() {
                out.push_str("gate: every limit is kept\n");
            }
        }
        out
    }
}
