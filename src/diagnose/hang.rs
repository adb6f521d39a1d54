//! Starts that hang without a word: every rank runs, and none gets any further. Which hang it is shows in how far the
//! ranks have come, in the connections that nobody answers, and in where their processes are, as far as that was seen.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::{Diagnosis, LogLine, RankEvidence, Telling, lines};
use crate::engine::milestones::{StartStage, of_any};
use crate::plan::render::people;

/// What was seen of a rank when nothing had moved for too long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stuck {
    /// For how long nothing of the whole group had moved.
    #[serde(rename = "silent_seconds", serialize_with = "seconds")]
    pub silence: std::time::Duration,
    /// How far the rank had come.
    pub stage: Option<StartStage>,
    /// Its address on the fabric.
    pub fabric: Ipv4Addr,
    /// All addresses of its node.
    pub addresses: Vec<Ipv4Addr>,
    /// Where connections are being made to that nobody answers.
    pub connecting: Vec<SocketAddrV4>,
    /// Where its Python processes are; empty where the image has no py-spy. Goes to a file.
    #[serde(skip)]
    pub stacks: String,
}

fn seconds<S: serde::Serializer>(value: &std::time::Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.as_secs())
}

/// What the ranks wait for, if all run and have come no further than each other.
pub(super) fn diagnose(evidence: &[RankEvidence]) -> Option<Diagnosis> {
    if evidence.iter().any(|rank| rank.end.is_some()) {
        return None;
    }
    let furthest: Vec<_> = evidence.iter().map(furthest).collect();
    let (stage, of, at) =
        furthest.iter().enumerate().filter_map(|(of, at)| at.map(|(stage, at)| (stage, of, at))).max()?;
    let found = match stage {
        StartStage::Gathering => gathering(evidence)?,
        StartStage::Rendezvous => meeting(evidence),
        StartStage::Groups => connecting(evidence),
        later => standing(evidence, later, &evidence[of].lines[at])?,
    };
    let mut telling = Vec::new();
    for (of, (own, furthest)) in evidence.iter().zip(&furthest).enumerate() {
        let mut told: Vec<usize> =
            found.shown.filter(|(owner, _)| *owner == of).map(|(_, at)| at).into_iter().collect();
        told.extend(furthest.map(|(_, at)| at));
        told.extend(lines::last_words(&own.lines, 1));
        told.sort_unstable();
        told.dedup();
        telling.extend(told.into_iter().map(|at| own.tell(at, None)));
        telling.extend(own.stuck.iter().filter_map(|stuck| unanswered(own, stuck)));
    }
    Some(Diagnosis {
        id: Some(found.id),
        cause: Some(found.cause),
        hint: Some(found.hint.to_owned()),
        rank: found.rank,
        telling,
    })
}

/// The furthest stage of a rank, and the last line that shows it.
fn furthest(rank: &RankEvidence) -> Option<(StartStage, usize)> {
    let stages = rank.lines.iter().enumerate();
    stages.filter_map(|(at, line)| Some((of_any(&line.text)?.stage, at))).max()
}

/// The connections of a rank that nobody answers, as lines beside those of its log.
fn unanswered(rank: &RankEvidence, stuck: &Stuck) -> Option<Telling> {
    let to: Vec<_> = stuck.connecting.iter().take(3).map(ToString::to_string).collect();
    (!to.is_empty()).then(|| Telling {
        node: rank.node.clone(),
        time: None,
        text: format!("(nobody answers its connection to {}: SYN-SENT)", to.join(", ")),
    })
}

struct Found {
    id: &'static str,
    cause: String,
    hint: &'static str,
    rank: Option<u32>,
    /// A line that shows it: of which evidence, and where in it.
    shown: Option<(usize, usize)>,
}

impl Found {
    fn new(id: &'static str, cause: impl Into<String>, hint: &'static str) -> Self {
        Self { id, cause: cause.into(), hint, rank: None, shown: None }
    }
}

fn gathering(evidence: &[RankEvidence]) -> Option<Found> {
    let mut figures = evidence.iter().flat_map(|rank| &rank.lines).filter_map(|line| of_any(&line.text));
    let last = figures.rfind(|milestone| milestone.stage == StartStage::Gathering)?;
    // All there: what the engine waits for is something else.
    if last.fraction.is_none_or(|fraction| fraction >= 1.0) {
        return None;
    }
    let figure = last.figure.as_deref().unwrap_or("some nodes");
    let (id, cause) = if says(evidence, "sparkctl: ray has") {
        ("RAY-GATHER", format!("only {figure} joined the Ray cluster"))
    } else {
        ("NATIVE-GATHER", format!("only {figure} came to the head"))
    };
    let hint = "look into the log of the node that is missing, and check that it reaches the head's `fabric` address";
    Some(Found::new(id, cause, hint))
}

const GLOO_HINT: &str = "take `GLOO_SOCKET_IFNAME` out of the image, `engine.before` and `engine.env`: sparkctl sets each node's own";
const NCCL_HINT: &str = "take NCCL's variables out of the image, `engine.before` and `engine.env`, and look at the fabric by `sparkctl check`";
const HOST_IP_HINT: &str =
    "take `VLLM_HOST_IP` out of the image, `engine.before` and `engine.env`: sparkctl sets it for each node";

fn meeting(evidence: &[RankEvidence]) -> Found {
    static PLACE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"distributed_init_method=(?:tcp://)?(\S+)").expect("a regex"));
    if let Some((of, address)) = stray(evidence) {
        let cause = format!(
            "{} is told to connect to {address} by Gloo, which is no `fabric` address: a rank announces it",
            place(evidence, of)
        );
        return Found { rank: announcer(evidence, of), ..Found::new("GLOO-HANG", cause, GLOO_HINT) };
    }
    let place = evidence.iter().flat_map(|rank| &rank.lines).find_map(|line| PLACE.captures(&line.text));
    let place = place.map_or(String::new(), |place| format!(" at {}", &place[1]));
    let cause = format!("the ranks never met{place}: one never came, or the address is out of its reach");
    let hint = "check that the nodes reach each other's `fabric` address on any port, and that no firewall is in the way";
    Found::new("RENDEZVOUS-HANG", cause, hint)
}

fn connecting(evidence: &[RankEvidence]) -> Found {
    static LEADER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"DP group leader: .*master_addr=([^\s,]+).*mq_connect_ip=([^\s,]+)").expect("a regex")
    });
    let announced = evidence.iter().enumerate().find_map(|(of, rank)| {
        rank.lines.iter().enumerate().find_map(|(at, line)| Some((of, at, LEADER.captures(&line.text)?)))
    });
    if let Some((of, at, leader)) = announced
        && leader[1] != leader[2]
    {
        let rank = evidence[of].rank;
        let cause = format!(
            "the message queue of rank {rank} announces {}, and the ranks meet at {}: `VLLM_HOST_IP` is not that node's `fabric` address",
            &leader[2], &leader[1]
        );
        return Found {
            rank: Some(rank),
            shown: Some((of, at)),
            ..Found::new("MQ-HANG", cause, HOST_IP_HINT)
        };
    }
    let stray = stray(evidence);
    let to = stray.map_or_else(String::new, |(of, address)| {
        format!(": {} connects to {address}, which is no `fabric` address", place(evidence, of))
    });
    let rank = stray.and_then(|(of, _)| announcer(evidence, of));
    let found = match waits_in(evidence).or_else(|| nccl_began(evidence).then_some(Wait::Nccl)) {
        Some(Wait::Nccl) => {
            Found::new("NCCL-HANG", format!("NCCL does not get the ranks connected{to}"), NCCL_HINT)
        }
        Some(Wait::Gloo) => {
            Found::new("GLOO-HANG", format!("Gloo does not get the ranks connected{to}"), GLOO_HINT)
        }
        _ if stray.is_some() => {
            let cause = format!("the message queue of a rank announces a wrong address{to}");
            Found::new("MQ-HANG", cause, HOST_IP_HINT)
        }
        _ => {
            let cause = "the ranks met, but do not get connected: a rank announces an address out of the others' reach, or a firewall is in the way";
            Found::new("MQ-HANG", cause, HOST_IP_HINT)
        }
    };
    Found { rank, ..found }
}

/// Beyond the meeting of the ranks; told only where it was seen that nothing moves.
fn standing(evidence: &[RankEvidence], stage: StartStage, last: &LogLine) -> Option<Found> {
    let silence = evidence.iter().filter_map(|rank| rank.stuck.as_ref()).map(|stuck| stuck.silence).max()?;
    let silence = people(silence);
    let loads = stage == StartStage::LoadingWeights || waits_in(evidence) == Some(Wait::Load);
    if loads {
        let figure = of_any(&last.text).and_then(|milestone| milestone.figure);
        let figure = figure.map_or_else(String::new, |figure| format!(" at {figure}"));
        let cause =
            format!("loading the weights stood still{figure}: for {silence} nothing was read or computed");
        let hint = if says(evidence, "Fastsafetensor") {
            "take `--load-format fastsafetensors` out of `engine.args`: it may stand still on unified memory"
        } else {
            "look for errors of the disk in that node's kernel log (`journalctl -k`)"
        };
        return Some(Found::new("LOAD-HANG", cause, hint));
    }
    let cause = match stage {
        StartStage::Warming | StartStage::Serving => {
            format!(
                "the engine is up and answers no request: for {silence} it neither wrote nor computed anything"
            )
        }
        _ => format!("the engine stood still at `{stage}`: for {silence} no rank wrote or computed anything"),
    };
    let hint = "look where its processes are (`stacks` in the record, if the image has py-spy), and try `--enforce-eager` in `engine.args`";
    Some(Found::new("ENGINE-HANG", cause, hint))
}

/// What a process waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Nccl,
    Queue,
    Gloo,
    Load,
}

/// What the processes are at, where that was seen; the innermost counts.
fn waits_in(evidence: &[RankEvidence]) -> Option<Wait> {
    const SIGNS: [(Wait, &[&str]); 4] = [
        (Wait::Nccl, &["ncclCommInitRank", "pynccl"]),
        (Wait::Queue, &["wait_until_ready"]),
        (Wait::Gloo, &["init_process_group", "new_group", "TCPStore"]),
        (Wait::Load, &["load_weights", "load_model"]),
    ];
    let stacks = || evidence.iter().filter_map(|rank| rank.stuck.as_ref()).map(|stuck| stuck.stacks.as_str());
    let seen = |signs: &[&str]| stacks().any(|stack| signs.iter().any(|sign| stack.contains(sign)));
    SIGNS.iter().find(|(_, signs)| seen(signs)).map(|(wait, _)| *wait)
}

/// Whether NCCL began to connect the ranks, and did not end.
fn nccl_began(evidence: &[RankEvidence]) -> bool {
    let count = |rank: &RankEvidence, word: &str| {
        rank.lines
            .iter()
            .filter(|line| line.text.contains("ncclCommInitRank") && line.text.contains(word))
            .count()
    };
    if evidence.iter().any(|rank| count(rank, "Init START") > count(rank, "Init COMPLETE")) {
        return true;
    }
    // Without NCCL's own lines: what comes after it in the engine's log is missing.
    let after = ["llreduce is disabled", "ollectives are disabled", "all-reduce backends"];
    says(evidence, "vLLM is using nccl==") && !after.iter().any(|after| says(evidence, after))
}

fn says(evidence: &[RankEvidence], words: &str) -> bool {
    evidence.iter().flat_map(|rank| &rank.lines).any(|line| line.text.contains(words))
}

/// A connection that nobody answers, to where no rank has its fabric address: of which evidence, and where to. A node may
/// have others, as to servers in the internet, that are nobody's business here.
fn stray(evidence: &[RankEvidence]) -> Option<(usize, SocketAddrV4)> {
    let seen = || evidence.iter().enumerate().filter_map(|(of, rank)| Some((of, rank.stuck.as_ref()?)));
    let fabric: BTreeSet<_> = seen().map(|(_, stuck)| stuck.fabric).collect();
    let of_nodes: BTreeSet<_> = seen().flat_map(|(_, stuck)| stuck.addresses.iter().copied()).collect();
    let all = seen().flat_map(|(of, stuck)| stuck.connecting.iter().map(move |to| (of, *to)));
    let mut all: Vec<_> = all.filter(|(_, to)| !fabric.contains(to.ip())).collect();
    all.sort_by_key(|(_, to)| !of_nodes.contains(to.ip()));
    all.into_iter().find(|(_, to)| of_nodes.contains(to.ip()) || (to.ip().is_private() && to.port() > 1023))
}

/// Of two ranks the one that does not connect is the one that announces.
fn announcer(evidence: &[RankEvidence], connects: usize) -> Option<u32> {
    (evidence.len() == 2).then(|| evidence[1 - connects].rank)
}

fn place(evidence: &[RankEvidence], of: usize) -> String {
    format!("rank {} on {}", evidence[of].rank, evidence[of].node)
}
