//! The lock of a deployment: one operation at a time, wherever the operators sit.
//!
//! It is a kernel lock on the head, held by a process that lives as long as the connection, and as the
//! holder gives signs of life. It needs no breaking: when sparkctl dies, its connection closes and the
//! lock is free; when its whole machine is gone, the signs stop, and it is free [`LEASE`] later.
//! Left out: two users of one head have homes, and so locks, of their own.

use std::sync::Arc;
use std::time::Duration;

use crate::host::{Host, HostError, Running, Script};
use crate::profile::DeploymentName;

/// How long the lock outlives its holder's last sign of life.
const LEASE: Duration = Duration::from_secs(30);
/// How often the holder gives one.
const BEAT: Duration = Duration::from_secs(8);

/// The held lock; dropping it frees it.
pub struct Lock {
    _held: Running,
    beat: tokio::task::JoinHandle<()>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.beat.abort();
    }
}

/// The lock was not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another operation holds the lock of `{deployment}`: {holder}")]
    Held { deployment: DeploymentName, holder: String },
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Takes the lock on the head; `holder` says who, with what, since when.
pub async fn acquire(
    head: &Arc<dyn Host>,
    deployment: &DeploymentName,
    holder: &str,
) -> Result<Lock, LockError> {
    let seconds = LEASE.as_secs().to_string();
    let script =
        Script::new("lock", include_str!("lock.sh"), [deployment.to_string(), holder.to_owned(), seconds]);
    let mut running = head.start(script).await?;
    let limit = Duration::from_secs(30);
    let first = tokio::time::timeout(limit, running.lines.recv()).await;
    match first {
        Ok(Some(line)) if line == "locked" => {
            Ok(Lock { _held: running, beat: beat(head.clone(), deployment) })
        }
        Ok(Some(line)) => {
            let holder = line.strip_prefix("held").unwrap_or(&line).trim().to_owned();
            Err(LockError::Held { deployment: deployment.clone(), holder })
        }
        Ok(None) => {
            let why = match running.end.await {
                Ok(Ok(output)) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Ok(Err(error)) => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            let what = "take the lock".to_owned();
            Err(HostError::Failed { node: head.node().clone(), what, why }.into())
        }
        Err(_) => {
            let what = "take the lock".to_owned();
            Err(HostError::Timeout { node: head.node().clone(), what, limit }.into())
        }
    }
}

/// Signs of life, until it is aborted. One that cannot be given is told by whatever else needs the node.
fn beat(head: Arc<dyn Host>, deployment: &DeploymentName) -> tokio::task::JoinHandle<()> {
    let script = Script::new("refresh-lock", include_str!("refresh-lock.sh"), [deployment.to_string()]);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(BEAT).await;
            let _ = head.run(script.clone()).await;
        }
    })
}
