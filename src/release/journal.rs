//! The journal of a deployment: what each operation was at, written ahead of every stage and after it, on the head, in
//! `~/.local/state/sparkctl/DEPLOYMENT/journal`. So the next command, from whatever machine, can say what an operation
//! that was cut off was about to do.
//!
//! It is for telling, and never decides: what is to be done is found by looking at the nodes. A line that cannot be
//! written is a warning. It is written once a stage, with the steps of that stage in the line.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ReleaseNumber;
use super::lock::Claim;
use super::store::succeeded;
use crate::check::Finding;
use crate::error::in_full;
use crate::event::{Event, Events};
use crate::host::{Host, HostError, Script};
use crate::plan::render::{act, people};
use crate::plan::{Plan, Stage};
use crate::profile::DeploymentName;

/// Format number that new lines are written with.
pub const FORMAT: u32 = 1;
/// How long a line may take: nothing waits for a journal longer than that.
const LIMIT: Duration = Duration::from_secs(10);
/// Characters of a claim's token that tell one operation, and what it runs in its hooks, from every other.
const FAMILY: usize = 12;

/// A line. Fields that are not known here are passed over: lines are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Format of this line.
    pub format: u32,
    /// Tells the operation's lines from those of all others.
    pub run: String,
    /// User and machine of the operator.
    pub operator: String,
    pub command: String,
    /// The release that is to serve in the end, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseNumber>,
    /// The release that is being brought back, after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<ReleaseNumber>,
    /// The stage; none where the line is of the operation as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The steps of the stage, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    pub state: State,
    /// By the head's clock.
    #[serde(default)]
    pub time: Option<Timestamp>,
}

/// What a line says of its stage, or of its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Begun,
    Done,
    Failed,
    /// A later operation found it cut off, and that nothing of it is left to do.
    Settled,
    /// Something that a newer sparkctl says.
    #[serde(other)]
    Unknown,
}

/// Who holds a node's lock just now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// What the runs of this operation begin with.
    pub family: String,
    /// Who, with what, since when, at which step.
    pub words: String,
}

/// An operation whose end nobody wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Its first line, as far as that is known.
    pub entry: Entry,
    /// The release that it was bringing back.
    pub back: Option<ReleaseNumber>,
    /// The stages that it was in, with their steps.
    pub at: Vec<(String, Vec<String>)>,
    /// The stage that it did last.
    pub done: Option<String>,
    /// Its last line's time.
    pub last: Option<Timestamp>,
}

/// The newest operation whose end is not in these lines, oldest first, and that none has taken the place of since.
/// Those of the `family` are under way.
pub fn unfinished(entries: &[Entry], family: Option<&str>) -> Option<Unfinished> {
    let mut open: Vec<Unfinished> = Vec::new();
    for entry in entries {
        if family.is_some_and(|family| entry.run.starts_with(family)) {
            continue;
        }
        match (&entry.stage, entry.state) {
            (None, State::Done | State::Failed | State::Settled) => {
                open.retain(|run| run.entry.run != entry.run);
            }
            (None, State::Begun) => open.retain(|run| !takes_over(&entry.command, &run.entry.command)),
            _ => {}
        }
        let goes_on = entry.state == State::Begun || entry.stage.is_some();
        let known = open.iter().position(|run| run.entry.run == entry.run);
        let run = match known {
            Some(known) => &mut open[known],
            None if goes_on => {
                open.push(Unfinished::of(entry));
                open.last_mut().expect("one was put there just now")
            }
            None => continue,
        };
        run.take(entry);
    }
    open.pop()
}

/// Whether an operation leaves nothing open of what another, cut off, was at.
fn takes_over(command: &str, other: &str) -> bool {
    matches!(command, "deploy" | "rollback" | "stop") || command == other
}

/// What the runs of a claim begin with.
pub fn family(claim: &Claim) -> String {
    claim.token.chars().take(FAMILY).collect()
}

impl Unfinished {
    fn of(entry: &Entry) -> Self {
        let entry = Entry { stage: None, steps: Vec::new(), ..entry.clone() };
        Self { entry, back: None, at: Vec::new(), done: None, last: None }
    }

    fn take(&mut self, entry: &Entry) {
        self.last = entry.time.or(self.last);
        self.entry.release = self.entry.release.or(entry.release);
        self.back = entry.back.or(self.back);
        let Some(stage) = &entry.stage else { return };
        self.at.retain(|(at, _)| at != stage);
        match entry.state {
            State::Begun => self.at.push((stage.clone(), entry.steps.clone())),
            State::Done => self.done = Some(stage.clone()),
            _ => {}
        }
    }

    /// What it was, whose, and where it was cut off; `now` is the head's clock.
    pub fn words(&self, now: Option<Timestamp>) -> String {
        let Entry { command, operator, release, .. } = &self.entry;
        let release = release.map_or_else(String::new, |number| format!(" of release {number}"));
        let ago = match (now, self.last) {
            (Some(now), Some(last)) => {
                let seconds = now.as_second().saturating_sub(last.as_second()).max(0).unsigned_abs();
                format!(", begun {} ago", people(Duration::from_secs(seconds)))
            }
            (None, Some(last)) => format!(", begun at {}", last.strftime("%Y-%m-%d %H:%M:%S UTC")),
            (_, None) => String::new(),
        };
        let back =
            self.back.map_or_else(String::new, |number| format!(" while it brought release {number} back,"));
        let at: Vec<_> = self.at.iter().map(|(stage, steps)| doing(stage, steps)).collect();
        let at = match (&at[..], &self.done) {
            ([], Some(done)) => format!("after `{done}` was done"),
            ([], None) => "before it did anything".to_owned(),
            (at, _) => format!("while it {}{ago}", at.join(", and ")),
        };
        format!("a {command}{release} by {operator} was cut off{back} {at}")
    }

    /// What to do about it.
    pub fn hint(&self, deployment: &DeploymentName) -> String {
        match self.entry.command.as_str() {
            "deploy" | "rollback" => format!(
                "`sparkctl deploy PROFILE` goes on from what is there, `sparkctl rollback {deployment}` goes back to the \
                 release that was deployed last"
            ),
            "stop" => format!("`sparkctl stop {deployment}` ends what still runs"),
            command => format!("`sparkctl {command} PROFILE` goes on with it"),
        }
    }
}

/// What a stage does, in words that follow `it`.
fn doing(stage: &str, steps: &[String]) -> String {
    let words = match stage {
        "build" => "built the image",
        "weights" => "copied weights",
        "image" => "copied the image",
        "files" => "placed files and secrets",
        "begin" => "wrote the record of what it was about to do",
        "stop" => "ended the group that ran",
        "memory" => "freed memory",
        "start" => "started the ranks",
        "ready" => "waited for the engine",
        "verify" => "asked whether the answers are right",
        "bench" => "measured",
        "hook" => "ran a hook",
        "record" => "recorded what serves",
        other => return format!("was at `{other}`"),
    };
    // One copy, or one question, is in the words already.
    if stage != "start" || steps.is_empty() {
        return words.to_owned();
    }
    let single = |step: &String| step.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{words} ({})", steps.iter().map(single).collect::<Vec<_>>().join(", "))
}

/// Writes the lines of one operation. Where nothing was begun, it writes nothing.
#[derive(Default)]
pub struct Journal(Mutex<Writing>);

#[derive(Default)]
struct Writing {
    head: Option<Arc<dyn Host>>,
    deployment: Option<DeploymentName>,
    /// What all lines of the run have.
    line: Option<Entry>,
    /// Lines that go with the next ones.
    waiting: Vec<Entry>,
    /// Whether anything was written, or tried to be.
    begun: bool,
    failed: bool,
}

impl Journal {
    /// From now on it is the journal of this operation; its lines go to the head.
    pub fn open(
        &self,
        head: Arc<dyn Host>,
        deployment: &DeploymentName,
        operator: &str,
        command: &str,
        claim: &Claim,
    ) {
        let own: String = Claim::new().token.chars().take(FAMILY).collect();
        let line = Entry {
            format: FORMAT,
            run: format!("{}-{own}", family(claim)),
            operator: operator.to_owned(),
            command: command.to_owned(),
            release: None,
            back: None,
            stage: None,
            steps: Vec::new(),
            state: State::Begun,
            time: None,
        };
        let deployment = Some(deployment.clone());
        *self.writing() = Writing { head: Some(head), deployment, line: Some(line), ..Writing::default() };
    }

    /// The head is reached by another connection now.
    pub fn reach_by(&self, head: Arc<dyn Host>) {
        self.writing().head = Some(head);
    }

    /// What follows is of this plan; `back` says that it brings an earlier release back.
    pub fn plan(&self, plan: &Plan, back: bool) {
        if let Some(line) = &mut self.writing().line {
            if back {
                line.back = plan.release;
            } else {
                line.release = plan.release;
            }
        }
    }

    /// These stages begin.
    pub async fn begin(&self, stages: &[Stage], events: &Events) {
        let stages = stages.iter().map(|stage| {
            let steps = stage.steps.iter().map(|step| act(&step.node, &step.action));
            (stage.kind.to_string(), steps.collect::<Vec<_>>())
        });
        self.begin_with(stages.collect(), events).await;
    }

    /// The same of stages in words.
    pub async fn begin_with(&self, stages: Vec<(String, Vec<String>)>, events: &Events) {
        {
            let mut writing = self.writing();
            let Some(line) = writing.line.clone() else { return };
            if !writing.begun {
                writing.begun = true;
                writing.waiting.push(line.clone());
            }
            let lines = stages.into_iter();
            let lines = lines.map(|(stage, steps)| Entry { stage: Some(stage), steps, ..line.clone() });
            writing.waiting.extend(lines);
        }
        self.write(events, false).await;
    }

    /// These stages ended; that is written with what comes next.
    pub fn end_stages(&self, stages: &[Stage], state: State) {
        let mut writing = self.writing();
        let Some(line) = writing.line.clone() else { return };
        let ended = stages.iter();
        let ended = ended.map(|stage| Entry { stage: Some(stage.kind.to_string()), state, ..line.clone() });
        writing.waiting.extend(ended);
    }

    /// The operation ended.
    pub async fn end(&self, state: State, events: &Events) {
        {
            let mut writing = self.writing();
            let Some(line) = writing.line.clone().filter(|_| writing.begun) else { return };
            writing.waiting.push(Entry { state, ..line });
            writing.begun = false;
        }
        // Tried also where earlier lines failed: else the next command would tell of an operation that was cut off.
        self.write(events, true).await;
    }

    /// Nothing is left to do of an operation that was cut off.
    pub async fn settle(&self, found: &Unfinished, events: &Events) {
        {
            let mut writing = self.writing();
            let Some(line) = writing.line.clone() else { return };
            let (run, release) = (found.entry.run.clone(), found.entry.release);
            writing.waiting.push(Entry { run, release, state: State::Settled, ..line });
        }
        self.write(events, true).await;
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what waits. After a failure only the last lines are tried: a head that does not answer is waited for once.
    async fn write(&self, events: &Events, last: bool) {
        let (head, deployment, lines) = {
            let mut writing = self.writing();
            let (Some(head), Some(deployment)) = (writing.head.clone(), writing.deployment.clone()) else {
                return;
            };
            if writing.failed && !last {
                return;
            }
            (head, deployment, std::mem::take(&mut writing.waiting))
        };
        let Err(error) = append(head.as_ref(), &deployment, &lines).await else { return };
        let told = std::mem::replace(&mut self.writing().failed, true);
        if !told {
            let finding = Finding::warning(
                "journal-unwritten",
                Some(head.node()),
                format!("the journal could not be written: {}", in_full(&error)),
                "it changes nothing of this run; only, were it cut off, the next command could not say where",
            );
            events.tell(Event::Warning { finding }).await;
        }
    }
}

/// Appends lines to the journal on a node.
async fn append(host: &dyn Host, deployment: &DeploymentName, lines: &[Entry]) -> Result<(), HostError> {
    let json = lines.iter().map(|line| serde_json::to_string(line).expect("a line is always JSON"));
    let text = json.collect::<Vec<_>>().join("\n") + "\n";
    let script = Script::new("write-journal", include_str!("write-journal.sh"), [deployment.to_string()]);
    let what = "write the journal";
    match tokio::time::timeout(LIMIT, host.run(script.input(text).timeout(LIMIT))).await {
        Ok(output) => succeeded(host, what, &output?).map(drop),
        Err(_) => Err(HostError::Timeout { node: host.node().clone(), what: what.to_owned(), limit: LIMIT }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Entry> {
        text.lines()
            .map(|line| {
                let (run, rest) = line.split_once(' ').unwrap();
                let (command, rest) = rest.split_once(' ').unwrap();
                let (stage, state) = rest.split_once(' ').unwrap_or(("", rest));
                let stage = (!stage.is_empty()).then(|| stage.to_owned());
                let state = serde_json::from_value(state.into()).unwrap();
                Entry {
                    format: FORMAT,
                    run: run.to_owned(),
                    operator: "anna@laptop".to_owned(),
                    command: command.to_owned(),
                    release: Some(ReleaseNumber(4)),
                    back: None,
                    steps: Vec::new(),
                    stage,
                    state,
                    time: "2026-03-01T09:00:00Z".parse().ok(),
                }
            })
            .collect()
    }

    #[test]
    fn what_was_cut_off() {
        let check = |text: &str, told: Option<&str>| {
            let found = unfinished(&lines(text), Some("me"));
            let now = "2026-03-01T09:12:00Z".parse().ok();
            assert_eq!(found.map(|found| found.words(now)).as_deref(), told, "{text}");
        };
        check("", None);
        check("a deploy begun\na deploy start begun\na deploy start done\na deploy done", None);
        check(
            "a deploy begun\na deploy stop done\na deploy start begun",
            Some(
                "a deploy of release 4 by anna@laptop was cut off while it started the ranks, begun 12 min 0 s ago",
            ),
        );
        check(
            "a deploy begun\na deploy stop done",
            Some("a deploy of release 4 by anna@laptop was cut off after `stop` was done"),
        );
        check(
            "a deploy begun\na deploy weights begun\na deploy image begun",
            Some(
                "a deploy of release 4 by anna@laptop was cut off while it copied weights, and copied the image, \
                 begun 12 min 0 s ago",
            ),
        );
        // The beginning is not among the last lines.
        check(
            "a deploy dance begun",
            Some(
                "a deploy of release 4 by anna@laptop was cut off while it was at `dance`, begun 12 min 0 s ago",
            ),
        );
        // Another has taken its place, found nothing left of it, or is this very one.
        check("a deploy begun\nb stop begun\nb stop done", None);
        check("a deploy begun\na deploy settled", None);
        check("me-1 deploy begun", None);
        check(
            "a deploy begun\nb sync begun\nb sync done",
            Some("a deploy of release 4 by anna@laptop was cut off before it did anything"),
        );
        check("a sync begun\nb deploy begun\nb deploy failed", None);
        // A word of a newer sparkctl.
        check("a deploy begun\na deploy paused\na deploy done", None);
    }

    /// The script in earnest: the node's own time, and a line that a full disk cut.
    #[test]
    fn lines_are_added_on_a_node() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let home = tempfile::tempdir().unwrap();
        let journal = home.path().join(".local/state/sparkctl/demo/journal");
        let add = |line: &Entry| {
            let mut sh = Command::new("sh");
            sh.args(["-c", include_str!("write-journal.sh"), "sh", "demo"]).env("HOME", home.path());
            let mut child = sh.stdin(Stdio::piped()).spawn().unwrap();
            let json = serde_json::to_string(line).unwrap() + "\n";
            child.stdin.take().unwrap().write_all(json.as_bytes()).unwrap();
            assert!(child.wait().unwrap().success());
        };
        let mut line = lines("a deploy start begun").remove(0);
        (line.time, line.steps) = (None, vec!["say \"time\":null".to_owned()]);
        add(&line);
        std::fs::OpenOptions::new().append(true).open(&journal).unwrap().write_all(b"{\"form").unwrap();
        add(&line);
        let text = std::fs::read_to_string(&journal).unwrap();
        let read: Vec<Entry> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!((text.lines().count(), read.len()), (3, 2), "{text}");
        for mut entry in read {
            let time = entry.time.take().unwrap();
            assert!(Timestamp::now().duration_since(time).abs().as_secs() < 60, "{time}");
            assert_eq!(entry, line);
        }
    }
}
