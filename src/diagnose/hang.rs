//! Starts that hang without a word: every rank runs, and none gets beyond meeting the others.

use std::sync::LazyLock;

use regex::Regex;

use super::{Diagnosis, RankEvidence, lines};
use crate::engine::milestones::{StartStage, of_any};

/// What the ranks wait for, if all run and have come no further than each other.
pub(super) fn diagnose(evidence: &[RankEvidence]) -> Option<Diagnosis> {
    if evidence.iter().any(|rank| rank.end.is_some()) {
        return None;
    }
    let furthest: Vec<_> = evidence.iter().map(furthest).collect();
    let (stage, _) = furthest.iter().flatten().max()?;
    let (id, cause, hint, rank, shown) = match stage {
        StartStage::Gathering => gathering(evidence)?,
        StartStage::Rendezvous => meeting(evidence),
        StartStage::Groups => connecting(evidence),
        _ => return None,
    };
    let mut telling = Vec::new();
    for (of, (own, furthest)) in evidence.iter().zip(&furthest).enumerate() {
        let mut told: Vec<usize> =
            shown.filter(|(owner, _)| *owner == of).map(|(_, at)| at).into_iter().collect();
        told.extend(furthest.map(|(_, at)| at));
        told.extend(lines::last_words(&own.lines, 1));
        told.sort_unstable();
        told.dedup();
        telling.extend(told.into_iter().map(|at| own.tell(at, None)));
    }
    Some(Diagnosis { id: Some(id), cause: Some(cause), hint: Some(hint.to_owned()), rank, telling })
}

/// The furthest stage of a rank, and the last line that shows it.
fn furthest(rank: &RankEvidence) -> Option<(StartStage, usize)> {
    let stages = rank.lines.iter().enumerate();
    stages.filter_map(|(at, line)| Some((of_any(&line.text)?.stage, at))).max()
}

type Found = (&'static str, String, &'static str, Option<u32>, Option<(usize, usize)>);

fn gathering(evidence: &[RankEvidence]) -> Option<Found> {
    let mut figures = evidence.iter().flat_map(|rank| &rank.lines).filter_map(|line| of_any(&line.text));
    let last = figures.rfind(|milestone| milestone.stage == StartStage::Gathering)?;
    // All there: what the engine waits for is something else.
    if last.fraction.is_none_or(|fraction| fraction >= 1.0) {
        return None;
    }
    let figure = last.figure.as_deref().unwrap_or("some nodes");
    let on_ray =
        evidence.iter().flat_map(|rank| &rank.lines).any(|line| line.text.contains("sparkctl: ray has"));
    let (id, cause) = if on_ray {
        ("RAY-GATHER", format!("only {figure} joined the Ray cluster"))
    } else {
        ("NATIVE-GATHER", format!("only {figure} came to the head"))
    };
    let hint = "look into the log of the node that is missing, and check that it reaches the head's `fabric` address";
    Some((id, cause, hint, None, None))
}

fn meeting(evidence: &[RankEvidence]) -> Found {
    static PLACE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"distributed_init_method=(?:tcp://)?(\S+)").expect("a regex"));
    let place = evidence.iter().flat_map(|rank| &rank.lines).find_map(|line| PLACE.captures(&line.text));
    let place = place.map_or(String::new(), |place| format!(" at {}", &place[1]));
    let cause = format!("the ranks never met{place}: one never came, or the address is out of its reach");
    let hint = "check that the nodes reach each other's `fabric` address on any port, and that no firewall is in the way";
    ("RENDEZVOUS-HANG", cause, hint, None, None)
}

fn connecting(evidence: &[RankEvidence]) -> Found {
    static LEADER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"DP group leader: .*master_addr=([^\s,]+).*mq_connect_ip=([^\s,]+)").expect("a regex")
    });
    let announced = evidence.iter().enumerate().find_map(|(of, rank)| {
        rank.lines.iter().enumerate().find_map(|(at, line)| Some((of, at, LEADER.captures(&line.text)?)))
    });
    let hint = "remove `VLLM_HOST_IP` from `engine.env`: sparkctl sets it for each node";
    if let Some((of, at, leader)) = announced
        && leader[1] != leader[2]
    {
        let rank = evidence[of].rank;
        let cause = format!(
            "the message queue of rank {rank} announces {}, and the ranks meet at {}: `VLLM_HOST_IP` is not that node's `fabric` address",
            &leader[2], &leader[1]
        );
        return ("MQ-HANG", cause, hint, Some(rank), Some((of, at)));
    }
    let cause = "the ranks met, but do not get connected: a rank announces an address out of the others' reach, or a firewall is in the way";
    ("MQ-HANG", cause.to_owned(), hint, None, None)
}
