//! Guards: what every node of a group is given before its release is replaced, so that the release before comes back also
//! when nobody is left to bring it back: the operator's machine is gone, or the way to the nodes.
//!
//! A guard is a program that runs on the node by itself (`guard.py`), with data. It acts when its deadline passes; each
//! sign of life of the operation puts that off, and the operation's last word ends it. Data and words are here, pure; what is
//! done on nodes in [`store`]. [docs/restore.md](../../docs/restore.md) says what each end of it leads to.

#[cfg(test)]
mod program_tests;
pub mod store;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::check::Finding;
use crate::cluster::facts::NodeFacts;
use crate::container::Rank;
use crate::profile::{DeploymentName, NodeName};
use crate::release::ReleaseNumber;

/// Format number of what a guard is given, and of what it tells.
const FORMAT: u32 = 1;
/// How long a guard waits for a sign of life. Longer than an operation tries to reach lost nodes again, and to say its last
/// word: as long as it may still bring the release before back itself, no guard does.
pub const LEASE: Duration = Duration::from_secs(240);

/// What the guards of a group are given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guard {
    pub deployment: DeploymentName,
    /// The release that is switched to, whose containers end if it comes to that.
    pub release: ReleaseNumber,
    /// Other releases whose containers end likewise: what a deploy that was cut short had started.
    pub others: Vec<ReleaseNumber>,
    /// The release that comes back; `None` where nothing served before.
    pub before: Option<Before>,
    #[serde(rename = "lease_seconds", serialize_with = "seconds")]
    pub lease: Duration,
}

/// A release to bring back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Before {
    pub release: ReleaseNumber,
    #[serde(skip)]
    pub ranks: Vec<Rank>,
}

fn seconds<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.as_secs())
}

impl Guard {
    /// The ranks that come back on a node.
    pub fn ranks_of<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Rank> {
        self.before.iter().flat_map(|before| &before.ranks).filter(move |rank| &rank.node == node)
    }

    /// What the guard of a node is given: with the containers to make there, each by its name and the request that makes it.
    pub fn data(&self, bring: impl IntoIterator<Item = (String, Value)>) -> Value {
        let remove: Vec<_> = std::iter::once(self.release).chain(self.others.iter().copied()).collect();
        // Only what was proven comes back; and what was proven comes back with the node.
        let bring = bring
            .into_iter()
            .map(|(name, body)| json!({ "name": name, "restart": "unless-stopped", "body": body }));
        json!({
            "format": FORMAT,
            "deployment": self.deployment,
            "release": self.release,
            "before": self.before.as_ref().map(|before| before.release),
            "remove": remove,
            "bring": bring.collect::<Vec<_>>(),
            "lease_seconds": self.lease.as_secs(),
        })
    }

    /// What the nodes do by themselves, for people.
    pub fn words(&self) -> String {
        match &self.before {
            Some(before) => format!("restore release {} by themselves", before.release),
            None => format!("remove release {} by themselves", self.release),
        }
    }
}

/// What a guard did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    pub format: u32,
    /// The release whose containers it ended.
    pub failed: ReleaseNumber,
    /// The release that it brought back, if there was one.
    pub release: Option<ReleaseNumber>,
    /// When, by the node's clock: shown, never compared.
    pub at: Timestamp,
    /// Why it could not.
    pub why: Option<String>,
}

impl Outcome {
    /// What a guard tells that acted.
    pub fn new(
        failed: ReleaseNumber,
        release: Option<ReleaseNumber>,
        at: Timestamp,
        why: Option<String>,
    ) -> Self {
        Self { format: FORMAT, failed, release, at, why }
    }
}

/// What was seen of a node's guard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardFacts {
    /// The release that it watches over.
    pub armed: Option<ReleaseNumber>,
    /// Whether its program runs: a node that boots ends it.
    pub lives: bool,
    /// It brings the release before back just now.
    pub acting: bool,
    /// What the last one did, until the next is armed.
    pub outcome: Option<Outcome>,
}

impl GuardFacts {
    /// There is none, and none did anything.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Whether there is one that has not ended.
    pub fn is_there(&self) -> bool {
        self.armed.is_some() || self.acting
    }

    /// From the section `guard` of `gather.sh`.
    pub fn parse(text: &str) -> Self {
        let mut seen = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("armed") => {
                    seen.armed = words.next().and_then(|number| number.parse().ok());
                    seen.lives = words.next() == Some("lives");
                }
                Some("acting") => seen.acting = true,
                _ => seen.outcome = serde_json::from_str(line).ok().or(seen.outcome),
            }
        }
        seen
    }
}

/// What the nodes' guards did, in words; as bad as it is.
pub fn told(deployment: &DeploymentName, facts: &[NodeFacts]) -> Vec<Finding> {
    let mut found = Vec::new();
    let done = |facts: &NodeFacts| Some((facts.node.clone(), facts.guard.outcome.clone()?));
    let done: Vec<_> = facts.iter().filter_map(done).collect();
    let gone = |failed: ReleaseNumber| {
        format!("as nothing was heard any more of the operation that switched to release {failed}")
    };
    if let Some((_, last)) =
        done.iter().filter(|(_, outcome)| outcome.why.is_none()).max_by_key(|(_, o)| o.at)
    {
        let nodes: Vec<_> = done
            .iter()
            .filter(|(_, outcome)| outcome.why.is_none())
            .map(|(node, _)| node.to_string())
            .collect();
        let nodes = if nodes.len() == facts.len() { "the nodes".to_owned() } else { nodes.join(", ") };
        let at = last.at.strftime("%Y-%m-%d %H:%M:%S UTC");
        let what = match last.release {
            Some(release) => format!("restored release {release}"),
            None => format!("removed release {}", last.failed),
        };
        let message = format!("{nodes} {what} by themselves at {at}, {}", gone(last.failed));
        let hint = format!("sparkctl logs {deployment} --release {}", last.failed);
        found.push(Finding::warning("guard-acted", None, message, &hint));
    }
    for (node, outcome) in &done {
        if let Some(why) = &outcome.why {
            let message = format!("could not go back by itself, {}: {why}", gone(outcome.failed));
            let hint = format!("sparkctl deploy PROFILE, or sparkctl rollback {deployment}");
            found.push(Finding::warning("guard-failed", Some(node), message, &hint));
        }
    }
    found
}

/// That nodes cannot have guards, and what is lost by that.
pub fn absent(node: &NodeName, why: &str) -> Finding {
    let message =
        format!("no node restores anything by itself should this machine be gone in the middle: {why}");
    let hint = format!("on {node}: sudo loginctl enable-linger \"$USER\"");
    Finding::warning("guard-absent", Some(node), message, &hint)
}

/// That guards could not be told that they are not needed.
pub fn left(guard: &Guard) -> Finding {
    let within = guard.lease.as_secs() / 60;
    let message =
        format!("the nodes' guards could not be ended: the nodes {} within {within} min", guard.words());
    Finding::warning("guard-left", None, message, "sparkctl status, once they can be reached again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_of_its_guard() {
        assert!(GuardFacts::parse("").is_empty());
        let seen = GuardFacts::parse("armed 0002 lives\n");
        assert_eq!((seen.armed, seen.lives, seen.acting), (Some(ReleaseNumber(2)), true, false));
        assert!(!GuardFacts::parse("armed 0002 gone\n").lives);
        assert!(GuardFacts::parse("acting 0002\n").is_there());
        let json = r#"{"format": 1, "failed": 2, "release": 1, "at": "2026-03-01T09:00:00Z", "why": null}"#;
        let seen = GuardFacts::parse(json);
        assert!(!seen.is_there());
        let outcome = seen.outcome.expect("it is read");
        assert_eq!(
            (outcome.failed, outcome.release, outcome.why),
            (ReleaseNumber(2), Some(ReleaseNumber(1)), None)
        );
    }
}
