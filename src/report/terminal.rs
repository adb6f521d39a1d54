//! A run for people: on a terminal a calm block with bars while something moves; elsewhere a line a
//! change of state, and one every half minute that says what is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::Timestamp;

use super::Sink;
use crate::check::{Finding, Severity};
use crate::config::Places;
use crate::event::{Event, Failure, Progress, RunOutcome};
use crate::plan::StageKind;
use crate::plan::render::{people, size};
use crate::profile::NodeName;

/// What moves: a node, in one of the stages that go on at once.
type Place = (StageKind, NodeName);

/// How a run is shown.
pub struct Terminal {
    began: Instant,
    /// Bars are drawn; else every line carries the time.
    live: Option<MultiProgress>,
    bars: BTreeMap<Place, ProgressBar>,
    /// The last progress of each node that was written as a line, so that only changes are.
    said: BTreeMap<Place, String>,
    last: BTreeMap<Place, String>,
    /// The first bytes of each that were told, and when: what a rate is made of.
    first: BTreeMap<Place, (u64, Instant)>,
    /// The stages that are under way.
    stages: BTreeSet<StageKind>,
    quiet: bool,
    verbose: bool,
    /// Where the record of the run lies.
    record: Option<PathBuf>,
    /// Where the profile's fields stand, while findings are about that profile.
    places: Option<Places>,
}

impl Terminal {
    /// `live` draws bars, for a terminal; `quiet` tells failures and the outcome only. `places` are those of the profile
    /// that is deployed, where it was read from a file.
    pub fn new(
        live: bool,
        quiet: bool,
        verbose: bool,
        record: Option<PathBuf>,
        places: Option<Places>,
    ) -> Self {
        Self {
            began: Instant::now(),
            live: (live && !quiet).then(MultiProgress::new),
            bars: BTreeMap::new(),
            said: BTreeMap::new(),
            last: BTreeMap::new(),
            first: BTreeMap::new(),
            stages: BTreeSet::new(),
            quiet,
            verbose,
            record,
            places,
        }
    }

    /// A line on standard error, above the bars where there are any.
    fn line(&self, text: &str) {
        match &self.live {
            Some(bars) => {
                let _ = bars.println(text);
            }
            None => {
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        }
    }

    /// A change of state: with the time where lines are all there is.
    fn state(&self, mark: &str, text: &str) {
        if self.quiet {
            return;
        }
        if self.live.is_some() {
            self.line(&format!("  {mark} {text}"));
        } else {
            let time = Timestamp::now().strftime("%H:%M:%S");
            self.line(&format!("{time} +{}s {text}", self.began.elapsed().as_secs()));
        }
    }

    fn progress(&mut self, stage: StageKind, node: &NodeName, progress: &Progress) {
        let place = (stage, node.clone());
        let (text, fraction) = match progress {
            Progress::Bytes { done, total } => {
                #[expect(clippy::cast_precision_loss, reason = "a bar's length")]
                let fraction = if *total == 0 { 1.0 } else { *done as f32 / *total as f32 };
                let (first, since) = *self.first.entry(place.clone()).or_insert((*done, Instant::now()));
                let rate = pace(done.saturating_sub(first), total.saturating_sub(*done), since.elapsed());
                (format!("{} of {}{rate}", size(*done), size(*total)), Some(fraction.min(1.0)))
            }
            Progress::Engine { stage, figure, fraction } => (
                figure.as_ref().map_or_else(|| stage.clone(), |figure| format!("{stage} {figure}")),
                *fraction,
            ),
        };
        self.last.insert(place.clone(), text.clone());
        if self.quiet {
            return;
        }
        if let Some(bars) = &self.live {
            let several = self.stages.len() > 1;
            let bar = self.bars.entry(place).or_insert_with(|| {
                let style =
                    ProgressStyle::with_template("      {prefix:<16} {msg:<46} {bar:20} {elapsed:>4}");
                let bar = bars.add(ProgressBar::new(1000));
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("█▉░"));
                bar.set_prefix(if several { format!("{stage} {node}") } else { node.to_string() });
                bar.enable_steady_tick(Duration::from_secs(1));
                bar
            });
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a bar of 1000 parts"
            )]
            bar.set_position((fraction.unwrap_or(0.0).clamp(0.0, 1.0) * 1000.0) as u64);
            bar.set_message(text);
        } else if let Progress::Engine { stage: words, .. } = progress
            && self.said.get(&place) != Some(words)
        {
            // Figures change many times a second: a line a stage, the figure with the half-minute's line.
            self.said.insert(place, words.clone());
            self.state("", &format!("{stage} {node}: {text}"));
        }
    }

    fn clear_bars(&mut self) {
        for stage in std::mem::take(&mut self.stages) {
            self.clear_bars_of(stage);
        }
    }

    /// The stage is over; others may go on.
    fn clear_bars_of(&mut self, stage: StageKind) {
        self.stages.remove(&stage);
        self.bars.retain(|(of, _), bar| {
            if *of == stage {
                bar.finish_and_clear();
            }
            *of != stage
        });
        self.last.retain(|(of, _), _| *of != stage);
        self.said.retain(|(of, _), _| *of != stage);
        self.first.retain(|(of, _), _| *of != stage);
    }

    fn failure(&mut self, failure: &Failure) {
        self.clear_bars();
        for line in failure_lines(failure) {
            self.line(&line);
        }
    }

    fn outcome(&mut self, deployment: &str, outcome: &RunOutcome) {
        self.clear_bars();
        let text = outcome_line(deployment, outcome);
        let failed = !matches!(
            outcome,
            RunOutcome::NothingToDo { .. }
                | RunOutcome::Deployed { .. }
                | RunOutcome::Stopped { .. }
                | RunOutcome::Pushed { .. }
                | RunOutcome::Fetched { .. }
                | RunOutcome::Synced { .. }
        );
        if let RunOutcome::Refused { findings } = outcome {
            for line in finding_lines(findings, self.places.as_ref()) {
                self.line(&line);
            }
        }
        if let RunOutcome::Unreachable { errors, hints, .. } = outcome {
            for error in errors {
                self.line(&format!("error: {error}"));
            }
            for hint in hints {
                self.line(&format!("hint:  {hint}"));
            }
        }
        if failed {
            self.line(&text);
            if matches!(outcome, RunOutcome::Down { .. }) {
                self.line("hint:  mend the cause, then deploy again; `sparkctl status` says what runs now");
            }
            if let Some(record) = &self.record {
                self.line(&format!("record: {}", record.display()));
            }
        } else {
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{text}");
        }
    }
}

impl Sink for Terminal {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Waiting { holder } => {
                self.state("▸", &format!("waiting for another operation to end: {holder}"));
            }
            Event::Planned { plan } if plan.is_empty() => {}
            Event::Planned { plan } => {
                let release = match plan.release {
                    Some(number) => format!("release {number}"),
                    None if plan.interrupts() => "stop".to_owned(),
                    None if plan.stages.iter().any(|stage| stage.kind == StageKind::Image) => {
                        "push".to_owned()
                    }
                    None => "sync".to_owned(),
                };
                self.state("", &format!("{} · {release}", plan.deployment));
                for difference in plan.differences.iter().filter(|_| plan.running.is_some()) {
                    self.state("·", difference);
                }
            }
            Event::StageStarted { stage } => {
                self.stages.insert(*stage);
                if self.live.is_none() {
                    self.state("", &format!("{stage}: begun"));
                }
            }
            Event::StepDone { stage, what, changed, .. } => {
                if self.verbose {
                    let proof = matches!(
                        stage,
                        StageKind::Ready
                            | StageKind::Verify
                            | StageKind::Gate
                            | StageKind::Hook
                            | StageKind::Bench
                    );
                    let changed = if *changed || proof { "" } else { " (was so already)" };
                    self.state("·", &format!("{stage}: {what}{changed}"));
                }
            }
            Event::Progress { stage, node, progress } => self.progress(*stage, node, progress),
            Event::Told { text, .. } => self.state("·", text),
            Event::StageDone { stage, detail, took } => {
                self.clear_bars_of(*stage);
                let detail = detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
                self.state("✓", &format!("{stage:<8} {}{detail}", people(*took)));
            }
            Event::Warning { finding } if finding.severity == Severity::Note && !self.verbose => {}
            Event::Warning { finding } => {
                self.state("!", &format!("{}: {finding}", finding.severity));
                for line in place_lines(finding, self.places.as_ref()).iter().filter(|_| !self.quiet) {
                    self.line(line);
                }
            }
            Event::Interrupting { will } => self.state("!", &format!("interrupted: {will}")),
            Event::Reached { stage, rung, detail } => {
                let detail = detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
                self.state("·", &format!("{stage}: {rung}{detail}"));
            }
            Event::Evidence { .. } | Event::Stuck { .. } | Event::LastLines { .. } | Event::Facts { .. } => {}
            Event::Failed { failure } => self.failure(failure),
            Event::Restoring { release } => {
                // What is found from here on is about the profile of another release.
                self.places = None;
                self.line(&format!(
                    "restoring release {release} (interrupt once more to leave things as they are)"
                ));
            }
            Event::Finished { deployment, outcome } => self.outcome(deployment.as_str(), outcome),
        }
    }

    fn quiet(&mut self) {
        if self.live.is_some() {
            return;
        }
        for stage in &self.stages {
            let last = self.last.iter().filter(|((of, _), _)| of == stage);
            let last: Vec<_> = last.map(|((_, node), text)| format!("{node}: {text}")).collect();
            let what = if last.is_empty() { "still at it".to_owned() } else { last.join("; ") };
            self.state("", &format!("{stage} {what}"));
        }
    }
}

/// Rate and time left, once there is enough to tell them by.
fn pace(moved: u64, left: u64, took: Duration) -> String {
    if moved == 0 || took < Duration::from_secs(1) {
        return String::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let (rate, left) = (moved as f64 / took.as_secs_f64(), left as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "likewise")]
    let shown = size(rate as u64);
    format!(", {shown}/s, {} left", people(Duration::from_secs_f64((left / rate).min(1e8))))
}

/// A failure as people read it: what failed, the telling lines, cause and hint.
pub fn failure_lines(failure: &Failure) -> Vec<String> {
    let mut lines = vec![format!("error: {}", failure.chain.join(": "))];
    let mut hints = failure.hints.clone();
    if let Some(diagnosis) = &failure.diagnosis {
        for telling in &diagnosis.telling {
            let time =
                telling.time.map_or_else(String::new, |time| format!("  {}", time.strftime("%H:%M:%S")));
            lines.push(format!("  {}  {}{time}", telling.node, telling.text));
        }
        let cause = diagnosis.cause.clone();
        lines.push(format!(
            "cause: {}",
            cause.unwrap_or_else(|| "unknown: no line of the logs is one that sparkctl knows".to_owned())
        ));
        hints.extend(diagnosis.hint.clone());
    }
    lines.extend(hints.into_iter().map(|hint| format!("hint:  {hint}")));
    lines
}

/// Findings as people read them, errors last, where the eye is; with the place of the field that each is about, where
/// `places` has it.
pub fn finding_lines(findings: &[Finding], places: Option<&Places>) -> Vec<String> {
    let mut findings: Vec<_> = findings.iter().collect();
    findings.sort_by_key(|finding| finding.severity);
    // Beside what refuses, what merely may be known is in the way.
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        findings.retain(|finding| finding.severity > Severity::Note);
    }
    let mut lines = Vec::new();
    for finding in findings {
        lines.push(format!("{}: {finding}", finding.severity));
        lines.extend(place_lines(finding, places));
        lines.extend(finding.hint.iter().map(|hint| format!("  hint: {hint}")));
    }
    lines
}

/// The place of the field that a finding is about, with its line and carets.
pub(super) fn place_lines(finding: &Finding, places: Option<&Places>) -> Vec<String> {
    let frame = finding.path.as_ref().zip(places).and_then(|(path, places)| places.frame(path));
    frame.iter().flat_map(|frame| frame.lines()).map(str::to_owned).collect()
}

/// The last line of a run.
pub fn outcome_line(deployment: &str, outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::NothingToDo { release: Some(release), endpoint } => {
            let at = endpoint.as_ref().map_or_else(String::new, |endpoint| format!(" at {endpoint}"));
            format!("{deployment} release {release} serves{at}: already deployed, nothing to do")
        }
        RunOutcome::NothingToDo { release: None, .. } => format!("{deployment}: nothing runs, nothing to do"),
        RunOutcome::Deployed { release, endpoint, outage_seconds } => {
            let outage = outage_seconds.map_or_else(String::new, |seconds| {
                format!(" (outage {})", people(Duration::from_secs_f64(seconds)))
            });
            format!("{deployment} release {release} serves at {endpoint}{outage}")
        }
        RunOutcome::Stopped { release } => {
            let which = release.map_or_else(String::new, |release| format!(" (release {release})"));
            format!("{deployment} stopped{which}; the logs are kept on the nodes")
        }
        RunOutcome::Pushed { image, nodes, bytes: 0 } => {
            let on = told_nodes(nodes);
            format!(
                "{deployment}: image {} ({}) is on {on} already: 0 bytes moved",
                image.reference, image.content
            )
        }
        RunOutcome::Pushed { image, nodes, bytes } => {
            let (on, moved) = (told_nodes(nodes), size(*bytes));
            format!("{deployment}: image {} ({}) is on {on}: {moved} moved", image.reference, image.content)
        }
        RunOutcome::NotPushed { state } => format!("{deployment}: the image is not on all nodes; {state}"),
        RunOutcome::Fetched { node, source, commit, path, files, bytes, .. } => {
            let short = commit.get(..12).unwrap_or(commit);
            format!(
                "{deployment}: {source} at {short} is in {path} on {node}: {files} files, {}, all verified\nnext: \
                 `sparkctl deploy` brings them to the other nodes and serves them; `sparkctl plan` shows it first",
                size(*bytes)
            )
        }
        RunOutcome::NotFetched { begun: true } => {
            format!("{deployment}: not fetched; what came is kept, and the next fetch goes on")
        }
        RunOutcome::NotFetched { begun: false } => format!("{deployment}: not fetched, nothing was changed"),
        RunOutcome::Synced { files, bytes, moved, compared, nodes, extra, removed } => {
            let (model, count) = (format!("{files} files, {}", size(*bytes)), nodes.len());
            let mut text = match (moved, compared) {
                (0, false) => format!("{deployment}: unchanged: {model}, verified earlier on {count} nodes"),
                (0, true) => {
                    format!("{deployment}: unchanged: {model}, verified on {count} nodes, 0 bytes moved")
                }
                _ => format!("{deployment}: {model}, verified on {count} nodes; {} moved", size(*moved)),
            };
            for (node, files) in extra {
                let what =
                    if *removed { "removed" } else { "left alone; `sync --delete-extra` removes them" };
                let _ = write!(text, "\n{node}: not of the model: {} ({what})", files.join(", "));
            }
            text
        }
        RunOutcome::NotSynced => {
            format!(
                "{deployment}: the model is not on all nodes; what came is kept, and the next sync goes on"
            )
        }
        RunOutcome::Refused { .. } => format!("{deployment}: refused, nothing was changed"),
        RunOutcome::Locked { holder } => {
            format!(
                "{deployment}: another operation holds the lock: {holder}; nothing was changed, wait for it to end"
            )
        }
        RunOutcome::Unreachable { state, .. } => format!("{deployment}: {state}"),
        RunOutcome::Unchanged { serving: Some(release) } => {
            format!("{deployment}: failed; release {release} still serves, untouched")
        }
        RunOutcome::Unchanged { serving: None } => {
            format!("{deployment}: failed before anything was changed; nothing serves")
        }
        RunOutcome::Restored { failed, release } => {
            format!("restored: release {release} serves again, verified; release {failed} failed")
        }
        RunOutcome::Down { failed, why } => {
            let which = failed.map_or_else(String::new, |failed| format!("release {failed} failed: "));
            format!("{deployment}: {which}{why}")
        }
        RunOutcome::NotServing { release, why } => {
            let which = release.map_or_else(String::new, |release| format!(" release {release}"));
            format!(
                "{deployment}{which} is in place and does not serve: {why}; it may still be starting: sparkctl status, \
                 else sparkctl stop and deploy again"
            )
        }
        RunOutcome::Interrupted { state } => format!("{deployment}: interrupted; {state}"),
    }
}

fn told_nodes(nodes: &[NodeName]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
