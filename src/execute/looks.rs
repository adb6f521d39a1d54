//! Looking at the ranks' nodes while a group starts: what they use, again and again; and what they are at, once, when
//! nothing moves. What cannot be looked at is no failure: the containers are watched as well.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::mpsc;

use super::readiness::Seen;
use crate::host::{Host, Script};
use crate::transfer::python;

/// How long the evidence of one rank may take: the stacks of a few processes, each under a limit of its own.
const EVIDENCE_LIMIT: Duration = Duration::from_secs(90);

/// Sends on what a rank uses, until nobody wants to know or `limit` has passed.
pub(super) async fn go_on(
    host: Arc<dyn Host>,
    arguments: [String; 3],
    rank: usize,
    limit: Duration,
    tell: mpsc::Sender<Seen>,
) {
    let script = Script::new("look", python!("../pulse/look.py"), arguments);
    // Somewhat longer than it is waited for: that it ends is no news then.
    let script = script.timeout(limit + EVIDENCE_LIMIT);
    let Ok(mut running) = host.start(script).await else { return };
    while let Some(line) = running.lines.recv().await {
        let Ok(look) = serde_json::from_str(&line) else { continue };
        if tell.send(Seen::Look(rank, look)).await.is_err() {
            return;
        }
    }
}

/// What a rank that stands still is at.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Evidence {
    pub addresses: Vec<Ipv4Addr>,
    pub connecting: Vec<SocketAddrV4>,
    pub stacks: String,
}

/// Sees what a rank is at; `None` where that cannot be seen.
pub(super) async fn evidence(host: &dyn Host, container: &str) -> Option<Evidence> {
    let script = Script::new("evidence", python!("../pulse/evidence.py"), [container]);
    let output = host.run(script.timeout(EVIDENCE_LIMIT)).await.ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

#[cfg(test)]
#[path = "looks_tests.rs"]
mod tests;
