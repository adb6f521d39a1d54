//! The lock of a deployment: one operation at a time, wherever the operators sit.
//!
//! It is a kernel lock on the head, held by a process that lives as long as the connection. It needs
//! no breaking: when its holder dies, sshd ends the process and the lock is free.

use std::time::Duration;

use crate::host::{Host, HostError, Running, Script};
use crate::profile::DeploymentName;

/// The held lock; dropping it frees it.
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] Running);

/// The lock was not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another operation holds the lock of `{deployment}`: {holder}")]
    Held { deployment: DeploymentName, holder: String },
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Takes the lock on the head; `holder` says who, with what, since when.
pub async fn acquire(head: &dyn Host, deployment: &DeploymentName, holder: &str) -> Result<Lock, LockError> {
    let script = Script::new("lock", include_str!("lock.sh"), [deployment.to_string(), holder.to_owned()]);
    let mut running = head.start(script).await?;
    let limit = Duration::from_secs(30);
    let first = tokio::time::timeout(limit, running.lines.recv()).await;
    match first {
        Ok(Some(line)) if line == "locked" => Ok(Lock(running)),
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
