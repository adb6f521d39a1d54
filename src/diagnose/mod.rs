//! Why a start failed, from what the ranks wrote and how they ended. Pure.
//!
//! One root cause is named, by a row of the catalogue, and the few lines that show it. Where no
//! row matches nothing is made up: the last lines that say something are all there is.
//!
//! Of several causes the earliest counts, as what follows is mostly its consequence. Within one
//! second, which is as well as the nodes' clocks agree, the one nearer to the machine counts.
//! Lines that only say that something failed elsewhere are never a cause.

mod hang;
mod lines;
pub mod signatures;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::profile::NodeName;
pub use hang::Stuck;
pub use lines::only_waits;
use signatures::{Class, Severity, Signature};

/// Most lines told.
const MOST_TOLD: usize = 20;

/// What is known of one rank.
#[derive(Debug, Clone)]
pub struct RankEvidence {
    /// The node it runs on.
    pub node: NodeName,
    /// Its number.
    pub rank: u32,
    /// Its container's log, in order.
    pub lines: Vec<LogLine>,
    /// How it ended; none while it runs.
    pub end: Option<End>,
    /// What was seen of it when nothing had moved for too long; none where something else failed.
    pub stuck: Option<Stuck>,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When Docker got it.
    pub time: Option<Timestamp>,
    /// The line as the engine wrote it, with all colours.
    pub text: String,
}

impl LogLine {
    /// Reads a line as Docker gives it when asked for time stamps; a line without one is taken as
    /// it is.
    pub fn parse(line: &str) -> Self {
        let line = line.trim_end_matches(['\n', '\r']);
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first.parse() {
            Ok(time) => Self { time: Some(time), text: rest.to_owned() },
            Err(_) => Self { time: None, text: line.to_owned() },
        }
    }
}

/// How a container ended, in Docker's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Exit code; above 128 it is 128 and a signal.
    pub code: i64,
    /// Whether the kernel killed a process of it for want of memory.
    pub oom_killed: bool,
    /// Why Docker could not start it; empty if it could.
    pub error: String,
}

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Diagnosis {
    /// The catalogue's name of the failure.
    pub id: Option<&'static str>,
    /// What went wrong; none if nothing in the catalogue fits.
    pub cause: Option<String>,
    /// What to do, in one line.
    pub hint: Option<String>,
    /// The rank that failed first.
    pub rank: Option<u32>,
    /// The lines that show it, at most 20 over all ranks; those of the failed rank come first.
    pub telling: Vec<Telling>,
}

/// A line that shows what happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Telling {
    /// The node whose log it stands in.
    pub node: NodeName,
    /// When it was written.
    pub time: Option<Timestamp>,
    /// The line, without colours and cut to 200 characters.
    pub text: String,
}

/// Why the start failed whose ranks left this evidence.
pub fn diagnose(evidence: &[RankEvidence]) -> Diagnosis {
    let findings = findings(evidence);
    let sure = first(findings.iter().filter(|finding| finding.class < Class::Waiting));
    let mut diagnosis = match sure {
        Some(finding) => finding.explain(evidence),
        None => hang::diagnose(evidence)
            .or_else(|| first(findings.iter()).map(|finding| finding.explain(evidence)))
            .unwrap_or_else(|| unknown(evidence)),
    };
    diagnosis.telling.truncate(MOST_TOLD);
    diagnosis
}

/// Something that may be the cause.
struct Finding {
    class: Class,
    time: Option<Timestamp>,
    /// Whose evidence: its place in the list.
    of: usize,
    what: What,
}

enum What {
    /// A line of the log.
    Line(usize, &'static Signature),
    /// Docker could not start the container, for a known reason.
    Refused(&'static Signature),
    /// Docker could not start the container.
    NotStarted,
    /// The kernel killed it.
    OutOfMemory,
    /// It ended without a word, with this code.
    Ended(i64),
}

fn findings(evidence: &[RankEvidence]) -> Vec<Finding> {
    let mut all = Vec::new();
    for (of, rank) in evidence.iter().enumerate() {
        let before = all.len();
        let mut time = None;
        let mut ended_itself = false;
        for (index, line) in rank.lines.iter().enumerate() {
            time = line.time.or(time);
            let read = lines::read(line);
            let Some(row) = signatures::find(&read.text) else { continue };
            // SGLang kills itself with its children when one of them fails.
            ended_itself |= row.id == "SGL-SIGQUIT";
            let Severity::Root(class) = row.severity else { continue };
            // What the engine takes for mere information can be a reason to wait, but no failure.
            let counts = !read.informs || class == Class::Waiting;
            if row.id == signatures::BEFORE_FAILED {
                // All that was said until then is the command's own: a part of this cause, not another one.
                all.truncate(before);
            }
            if counts {
                all.push(Finding { class, time, of, what: What::Line(index, row) });
            }
        }
        let spoke = ended_itself || all[before..].iter().any(|finding| finding.class < Class::Waiting);
        let Some(end) = &rank.end else { continue };
        if let Some((class, what)) = ended(end, spoke) {
            all.push(Finding { class, time: None, of, what });
        }
    }
    all
}

/// What the end itself says; `spoke` if the rank's log names a cause.
fn ended(end: &End, spoke: bool) -> Option<(Class, What)> {
    if end.oom_killed {
        return Some((Class::Kernel, What::OutOfMemory));
    }
    if !end.error.trim().is_empty() {
        return Some(match signatures::find(&end.error) {
            Some(row @ Signature { severity: Severity::Root(class), .. }) => (*class, What::Refused(row)),
            _ => (Class::Container, What::NotStarted),
        });
    }
    match end.code {
        134 | 135 | 137 | 139 if !spoke => Some((Class::Death, What::Ended(end.code))),
        143 => Some((Class::Waiting, What::Ended(143))),
        _ => None,
    }
}

/// The earliest; within a second of it the one nearest to the machine.
fn first<'a>(findings: impl Iterator<Item = &'a Finding> + Clone) -> Option<&'a Finding> {
    let earliest = findings.clone().filter_map(|finding| finding.time).min();
    let early = |finding: &&Finding| match (finding.time, earliest) {
        (Some(time), Some(earliest)) => time.duration_since(earliest) <= SignedDuration::from_secs(1),
        // Without times: of each rank's lines the first.
        _ => true,
    };
    let mut seen = Vec::new();
    findings
        .filter(early)
        .filter(|finding| {
            let later = finding.time.is_none()
                && matches!(finding.what, What::Line(..))
                && seen.contains(&finding.of);
            seen.push(finding.of);
            !later
        })
        .min_by_key(|finding| (finding.class, finding.time.is_none(), finding.time))
}

impl Finding {
    fn explain(&self, evidence: &[RankEvidence]) -> Diagnosis {
        let own = &evidence[self.of];
        let mut rank = own.rank;
        let (id, cause, hint) = match self.what {
            What::Line(index, row) => {
                let read = lines::read(&own.lines[index]);
                let named = worker(&read.text).or_else(|| dead_worker(own).filter(|_| row.id == "RAY-OOM"));
                rank =
                    named.filter(|named| evidence.iter().any(|other| other.rank == *named)).unwrap_or(rank);
                (row.id, row.cause_in(&read.text), Some(row.hint_in(&read.text)))
            }
            What::Refused(row) => {
                let error = &self.end(evidence).error;
                (row.id, row.cause_in(error), Some(row.hint_in(error)))
            }
            What::NotStarted => {
                let error = LogLine { time: None, text: self.end(evidence).error.clone() };
                let cause =
                    format!("Docker could not start the container: {}", lines::read(&error).shown(None));
                ("DOCKER-START", cause, None)
            }
            What::OutOfMemory => (
                "MEM-KILL",
                format!("the kernel of `{}` killed the engine because memory was used up", own.node),
                Some("lower `engine.memory_fraction`, or stop what else uses memory on that node".to_owned()),
            ),
            What::Ended(code) => exit(code, own),
        };
        Diagnosis { id: Some(id), cause: Some(cause), hint, rank: Some(rank), telling: self.tell(evidence) }
    }

    fn end<'a>(&self, evidence: &'a [RankEvidence]) -> &'a End {
        evidence[self.of].end.as_ref().expect("only an end is found at an end")
    }

    /// The line itself with its exception; of the other ranks the last words.
    fn tell(&self, evidence: &[RankEvidence]) -> Vec<Telling> {
        let own = &evidence[self.of];
        let mut told = match self.what {
            What::Line(index, row) => {
                let start = row.place_in(&lines::read(&own.lines[index]).text);
                let head = lines::exception_before(&own.lines, index).map(|at| own.tell(at, None));
                let raised = own.exception().filter(|at| *at > index).map(|at| own.tell(at, None));
                // Of a command that ran ahead of the engine all words are its own: its last ones say what was wrong.
                let said = if row.id == signatures::BEFORE_FAILED {
                    own.words_before(index, MOST_TOLD / 2)
                } else {
                    Vec::new()
                };
                let line = own.tell(index, Some(start));
                said.into_iter().chain(head).chain([line]).chain(raised).collect()
            }
            What::Refused(_) | What::NotStarted => {
                let error = LogLine { time: None, text: self.end(evidence).error.clone() };
                vec![Telling { node: own.node.clone(), time: None, text: lines::read(&error).shown(None) }]
            }
            What::OutOfMemory | What::Ended(_) => own.last_words(4),
        };
        let others = evidence.iter().enumerate().filter(|(of, _)| *of != self.of);
        told.extend(others.flat_map(|(_, rank)| match rank.exception() {
            Some(at) => vec![rank.tell(at, None)],
            None => rank.last_words(1),
        }));
        told
    }
}

fn exit(code: i64, own: &RankEvidence) -> (&'static str, String, Option<String>) {
    let node = &own.node;
    let (id, cause, hint) = match code {
        137 => (
            "EXIT-137",
            format!(
                "the engine on `{node}` was killed (SIGKILL, exit 137), mostly a sign that the node's memory was used up"
            ),
            "look for `Out of memory` in that node's kernel log (`journalctl -k`), and lower `engine.memory_fraction`",
        ),
        143 => (
            "EXIT-143",
            format!("the engine on `{node}` was stopped from outside (SIGTERM, exit 143)"),
            "find out what stopped it: a person, a restart of Docker or of the node",
        ),
        134 => (
            "EXIT-134",
            format!("the engine on `{node}` gave up in native code (SIGABRT, exit 134)"),
            "look for `Xid` in that node's kernel log, or name another image in `image.reference`",
        ),
        135 => (
            "SHM-FULL",
            format!(
                "the engine on `{node}` met a bus error (SIGBUS, exit 135), mostly a sign that `/dev/shm` is full"
            ),
            "free `/dev/shm` on that node: leftovers of earlier engines lie there",
        ),
        _ => (
            "EXIT-139",
            format!("the engine on `{node}` crashed in native code (SIGSEGV, exit 139)"),
            "look for `Xid` in that node's kernel log, or name another image in `image.reference`",
        ),
    };
    (id, cause, Some(hint.to_owned()))
}

/// No row fits: what the ended ranks said last, or all of them if none has ended.
fn unknown(evidence: &[RankEvidence]) -> Diagnosis {
    let ended: Vec<_> = evidence.iter().filter(|rank| rank.end.is_some()).collect();
    let tellers = if ended.is_empty() { evidence.iter().collect() } else { ended.clone() };
    let each = (MOST_TOLD / tellers.len().max(1)).clamp(1, 8);
    let telling = tellers.iter().flat_map(|rank| {
        let exception = lines::first_exception(&rank.lines);
        let rest = lines::last_words(&rank.lines, each - usize::from(exception.is_some() && each > 1));
        let rest = rest.into_iter().filter(move |at| Some(*at) != exception);
        exception.into_iter().chain(rest).map(|at| rank.tell(at, None))
    });
    let pointer = evidence.iter().flat_map(|rank| &rank.lines).find_map(|line| {
        let text = lines::read(line).text;
        let row = signatures::find(&text).filter(|row| row.severity == Severity::Wrapper)?;
        Some(row.hint_in(&text))
    });
    let failed = ended.iter().filter(|rank| rank.end.as_ref().is_some_and(|end| end.code != 0));
    let earliest = failed.min_by_key(|rank| {
        let last = rank.lines.iter().rev().find_map(|line| line.time);
        (last.is_none(), last)
    });
    let dead = evidence.iter().find_map(dead_worker);
    let dead = dead.filter(|dead| evidence.iter().any(|rank| rank.rank == *dead));
    Diagnosis {
        id: None,
        cause: None,
        hint: pointer,
        rank: dead.or(earliest.map(|rank| rank.rank)),
        telling: telling.collect(),
    }
}

impl RankEvidence {
    fn tell(&self, index: usize, start: Option<usize>) -> Telling {
        let line = &self.lines[index];
        Telling { node: self.node.clone(), time: line.time, text: lines::read(line).shown(start) }
    }

    /// The first traceback's exception, unless that only points elsewhere.
    fn exception(&self) -> Option<usize> {
        let points = |at: &usize| {
            signatures::find(&self.lines[*at].text).is_some_and(|row| row.severity == Severity::Wrapper)
        };
        lines::first_exception(&self.lines).filter(|at| !points(at))
    }

    /// What was said last before the line at `index`.
    fn words_before(&self, index: usize, most: usize) -> Vec<Telling> {
        lines::last_words(&self.lines[..index], most).into_iter().map(|at| self.tell(at, None)).collect()
    }

    fn last_words(&self, most: usize) -> Vec<Telling> {
        lines::last_words(&self.lines, most).into_iter().map(|at| self.tell(at, None)).collect()
    }
}

/// The rank whose worker wrote the line: Ray brings the lines of all to the head. Right where each
/// node has one GPU and all ranks are of one tensor-parallel group.
fn worker(text: &str) -> Option<u32> {
    let rest = &text[text.find("(Worker_TP")? + "(Worker_TP".len()..];
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The rank that the executor found dead.
fn dead_worker(of: &RankEvidence) -> Option<u32> {
    of.lines.iter().find_map(|line| {
        let rest = line.text.split_once("RayWorkerProc rank=")?.1.trim_start_matches('[');
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    })
}
