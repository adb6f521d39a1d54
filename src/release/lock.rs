//! The lock of the nodes: one operation at a time on each, wherever the operators sit and as whoever they log in.
//!
//! It is a kernel lock on every node of the group, held by a process that lives as long as the connection, and as the
//! holder gives signs of life. It needs no breaking: when sparkctl dies, its connections close and the lock is free;
//! when its whole machine is gone, the signs stop, and it is free [`LEASE`] later. A holder that wakes up after that
//! finds its lock lost, and stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::store::succeeded;
use crate::event::Events;
use crate::execute::Hosts;
use crate::guard::store::Beats;
use crate::host::{Host, HostError, Running, Script};
use crate::profile::{DeploymentName, NodeName};

/// How long the lock outlives its holder's last sign of life.
const LEASE: Duration = Duration::from_secs(18);
/// How often the holder gives one.
const BEAT: Duration = Duration::from_secs(3);
/// How many may be under way at once.
const BEATS: usize = 3;
/// How long a node may take to answer.
const LIMIT: Duration = Duration::from_secs(30);

/// Who asks for the lock.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What tells this operation, and what it runs in its hooks, from every other. Nobody's secret: it is no more than a
    /// promise not to be in each other's way.
    pub token: String,
    /// How long to wait while another operation holds it.
    pub wait: Duration,
}

impl Claim {
    /// A claim of its own, that does not wait.
    pub fn new() -> Self {
        let token = crate::transfer::ends::secret().unwrap_or_else(|_| std::process::id().to_string());
        Self { token: token.chars().take(32).collect(), wait: Duration::ZERO }
    }
}

impl Default for Claim {
    fn default() -> Self {
        Self::new()
    }
}

/// The held lock; dropping it frees it.
#[derive(Debug)]
pub struct Lock {
    tasks: Vec<JoinHandle<()>>,
    lost: watch::Receiver<Option<NodeName>>,
    /// Signs of life to what waits on the nodes for the end of this operation.
    beats: Vec<Beats>,
}

impl Lock {
    /// The node whose lock is not held any more, if there is one.
    pub fn lost(&self) -> Option<NodeName> {
        self.lost.borrow().clone()
    }

    /// Gives these signs of life as long as it is held.
    pub(crate) fn keep(&mut self, beats: Beats) {
        self.beats.push(beats);
    }

    /// The same as something to wait for.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<NodeName>> {
        self.lost.clone()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The lock was not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another operation holds the lock of {node}: {holder}")]
    Held { node: NodeName, holder: String },
    #[error(transparent)]
    Host(#[from] HostError),
}

/// What one node answered.
enum Held {
    Ours(Running),
    /// By an operation that this one is part of.
    Inherited,
}

/// Takes the lock of all nodes, the head's first; `holder` says who, with what, since when. `events` tell at which step
/// the holder is.
pub async fn acquire(
    hosts: &Hosts,
    head: &NodeName,
    deployment: &DeploymentName,
    holder: &str,
    claim: &Claim,
    events: &Events,
) -> Result<Lock, LockError> {
    let ask = |node: &NodeName| {
        let host = hosts[node].clone();
        async move { Ok::<_, LockError>((host.clone(), one(&host, deployment, holder, claim).await?)) }
    };
    // Who has the head has won: two that start at once do not take half of the nodes each.
    let mut answers = vec![ask(head).await?];
    answers.extend(try_join_all(hosts.keys().filter(|node| *node != head).map(ask)).await?);
    let (tell, lost) = watch::channel(None);
    let tell = Arc::new(tell);
    let mut tasks = Vec::new();
    for (host, answer) in answers {
        if let Held::Ours(running) = answer {
            tasks.push(beat(host.clone(), events.clone()));
            tasks.push(hold(host.node().clone(), running, tell.clone()));
        }
    }
    Ok(Lock { tasks, lost, beats: Vec::new() })
}

async fn one(
    host: &Arc<dyn Host>,
    deployment: &DeploymentName,
    holder: &str,
    claim: &Claim,
) -> Result<Held, LockError> {
    let seconds = LEASE.as_secs().to_string();
    let args = [deployment.to_string(), holder.to_owned(), seconds, claim.token.clone()];
    let mut running = host.start(Script::new("lock", include_str!("lock.sh"), args)).await?;
    let what = || "take the lock".to_owned();
    match tokio::time::timeout(LIMIT, running.lines.recv()).await {
        Ok(Some(line)) if line == "locked" => Ok(Held::Ours(running)),
        Ok(Some(line)) if line == "inherited" => Ok(Held::Inherited),
        Ok(Some(line)) => {
            let holder = line.strip_prefix("held").unwrap_or(&line).trim().to_owned();
            Err(LockError::Held { node: host.node().clone(), holder })
        }
        Ok(None) => {
            let why = match running.end.await {
                Ok(Ok(output)) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Ok(Err(error)) => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            Err(HostError::Failed { node: host.node().clone(), what: what(), why }.into())
        }
        Err(_) => Err(HostError::Timeout { node: host.node().clone(), what: what(), limit: LIMIT }.into()),
    }
}

/// What became of a node's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlocked {
    /// Nobody held it.
    Free,
    /// Its holder lives; it was left alone.
    Held(String),
    /// Its holder gave no sign of life any more.
    Freed(String),
}

/// Frees a node's lock where its holder gives no sign of life. Needed only where the process that watches for such signs
/// hangs itself.
pub async fn unlock(host: &dyn Host) -> Result<Unlocked, HostError> {
    let script = Script::new("unlock", include_str!("unlock.sh"), [LEASE.as_secs().to_string()]);
    let said = succeeded(host, "free the lock", &host.run(script).await?)?;
    let said = said.trim();
    Ok(match said.split_once(' ') {
        Some(("held", holder)) => Unlocked::Held(holder.to_owned()),
        Some(("freed", holder)) => Unlocked::Freed(holder.to_owned()),
        _ => Unlocked::Free,
    })
}

/// Keeps the process that holds the lock, and tells where it ended. What ends with the connection is told by whatever
/// else needs the node, and goes on once that is back.
fn hold(node: NodeName, running: Running, lost: Arc<watch::Sender<Option<NodeName>>>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let Running { mut lines, end } = running;
        while lines.recv().await.is_some() {}
        if matches!(end.await, Ok(Ok(_))) {
            lost.send_replace(Some(node));
        }
    })
}

/// Signs of life, until it is aborted. One that cannot be given is told by whatever else needs the node. A node that is
/// busy may take long over one: the next does not wait for it.
fn beat(host: Arc<dyn Host>, events: Events) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut under_way = JoinSet::new();
        let mut tick = tokio::time::interval(BEAT);
        loop {
            tick.tick().await;
            while under_way.try_join_next().is_some() {}
            if under_way.len() < BEATS {
                let step = events.stage().map_or_else(String::new, |stage| stage.to_string());
                let script = Script::new("refresh-lock", include_str!("refresh-lock.sh"), [step]);
                let host = host.clone();
                under_way.spawn(async move { drop(host.run(script).await) });
            }
        }
    })
}
