//! Guards on the nodes: giving them, signs of life, and their end.

use std::time::Duration;

use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::Guard;
use crate::execute::Hosts;
use crate::host::{Host, HostError, Script};
use crate::profile::DeploymentName;
use crate::release::ReleaseNumber;
use crate::release::store::{folder, succeeded};

/// How often a sign of life is given.
const BEAT: Duration = Duration::from_secs(10);
/// How many may be under way at once on one node.
const BEATS: usize = 3;
/// How long a guard that acts is waited for: it may have to wait for the Docker Engine.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_secs(2);

const ARM: &str = concat!(
    "program() {\ncat <<'END OF PROGRAM'\n",
    include_str!("guard.py"),
    "END OF PROGRAM\n}\n",
    include_str!("arm.sh")
);

/// As what a guard runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Armed {
    /// As a unit of the system.
    System,
    /// As a unit of the user, who lingers; `now`: from now on.
    User { now: bool },
    /// Not at all, and why.
    Not(String),
}

/// What a guard is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Armed,
    /// It was ended just now.
    Ended,
    Acting,
    Acted,
    /// There is none.
    Gone,
}

/// Gives a node its guard.
pub async fn arm(host: &dyn Host, guard: &Guard, data: &Value) -> Result<Armed, HostError> {
    let arguments = [guard.deployment.to_string(), folder(guard.release)];
    let script = Script::new("guard-arm", ARM, arguments).input(data.to_string());
    let said = succeeded(host, "take a guard", &host.run(script.timeout(Duration::from_secs(120))).await?)?;
    match said.trim().split_once(' ') {
        Some(("armed", "system")) => Ok(Armed::System),
        Some(("armed", way)) => Ok(Armed::User { now: way == "lingering" }),
        Some(("absent", why)) => Ok(Armed::Not(why.to_owned())),
        _ => Err(unexpected(host, "take a guard", &said)),
    }
}

/// Gives a guard a sign of life; what it is at.
pub async fn beat(
    host: &dyn Host,
    deployment: &DeploymentName,
    release: ReleaseNumber,
) -> Result<State, HostError> {
    let script =
        Script::new("guard-beat", include_str!("beat.sh"), [deployment.to_string(), folder(release)]);
    state(host, "ask its guard", script).await
}

/// Ends a guard, of a release or whichever there is, unless it has decided to act.
pub async fn end(
    host: &dyn Host,
    deployment: &DeploymentName,
    release: Option<ReleaseNumber>,
) -> Result<State, HostError> {
    let which = release.map_or_else(|| "any".to_owned(), folder);
    let script = Script::new("guard-end", include_str!("end.sh"), [deployment.to_string(), which]);
    state(host, "end its guard", script).await
}

async fn state(host: &dyn Host, what: &str, script: Script) -> Result<State, HostError> {
    let said = succeeded(host, what, &host.run(script).await?)?;
    Ok(match said.trim() {
        "armed" => State::Armed,
        "ended" => State::Ended,
        "acting" => State::Acting,
        "acted" => State::Acted,
        "gone" => State::Gone,
        _ => return Err(unexpected(host, what, &said)),
    })
}

fn unexpected(host: &dyn Host, what: &str, said: &str) -> HostError {
    let why = format!("it said `{}`", said.trim());
    HostError::Failed { node: host.node().clone(), what: what.to_owned(), why }
}

/// Ends the guards of all nodes, and waits for the end of those that act: from then on nothing changes by itself. Whether
/// any acted.
pub async fn settle(hosts: &Hosts, deployment: &DeploymentName) -> Result<bool, HostError> {
    let began = Instant::now();
    let mut acted = false;
    for host in hosts.values() {
        loop {
            match end(host.as_ref(), deployment, None).await? {
                State::Acting if began.elapsed() < PATIENCE => {
                    acted = true;
                    tokio::time::sleep(PAUSE).await;
                }
                State::Acting => {
                    let what = "end what its guard does".to_owned();
                    return Err(HostError::Timeout { node: host.node().clone(), what, limit: PATIENCE });
                }
                State::Acted => {
                    acted = true;
                    break;
                }
                State::Armed | State::Ended | State::Gone => break,
            }
        }
    }
    Ok(acted)
}

/// Signs of life to the guards of all nodes, until it is dropped.
#[derive(Debug)]
pub struct Beats(Vec<JoinHandle<()>>);

impl Drop for Beats {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Begins to give signs of life. One that cannot be given is told by whatever else needs the node.
pub fn beats(hosts: &Hosts, deployment: &DeploymentName, release: ReleaseNumber) -> Beats {
    let tasks = hosts.values().map(|host| {
        let (host, deployment) = (host.clone(), deployment.clone());
        tokio::spawn(async move {
            let mut under_way = JoinSet::new();
            let mut tick = tokio::time::interval(BEAT);
            loop {
                tick.tick().await;
                while under_way.try_join_next().is_some() {}
                if under_way.len() < BEATS {
                    let (host, deployment) = (host.clone(), deployment.clone());
                    under_way.spawn(async move { drop(beat(host.as_ref(), &deployment, release).await) });
                }
            }
        })
    });
    Beats(tasks.collect())
}
