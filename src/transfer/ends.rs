//! What programs on two nodes that talk over the fabric share: a secret, the port that the listening
//! end prints, and words for how an end failed.

use std::fmt::Write as _;
use std::io::Read as _;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::container::hex;
use crate::host::{Host, HostError, Output, Running, Script};

/// A transfer takes as long as it takes; who wants less drops it.
pub(super) const NO_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long the listening end may take to listen.
const LISTEN: Duration = Duration::from_secs(30);

/// 256 random bits in hexadecimal, good for one transfer or one probe.
pub(crate) fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// An error of the transfer as a whole.
pub(super) fn failed(host: &dyn Host, what: &str, why: impl Into<String>) -> HostError {
    HostError::Failed { node: host.node().clone(), what: what.to_owned(), why: why.into() }
}

/// Starts the end that listens; it says `port NUMBER` first.
pub(super) async fn listen(
    host: &dyn Host,
    script: Script,
    what: &str,
) -> Result<(Running, String), HostError> {
    let mut running = host.start(script).await?;
    let first = tokio::time::timeout(LISTEN, running.lines.recv()).await;
    match first {
        Ok(Some(line)) if line.starts_with("port ") => Ok((running, line[5..].trim().to_owned())),
        Ok(Some(line)) => Err(failed(host, what, format!("instead of a port it said `{line}`"))),
        Ok(None) => {
            Err(failed(host, what, ended(running).await?.unwrap_or_else(|| "it ended at once".to_owned())))
        }
        Err(_) => Err(failed(host, what, format!("it did not listen within {} s", LISTEN.as_secs()))),
    }
}

/// How an end failed, in its own words; `None` where it did not. Waits for its end.
pub(crate) async fn ended(running: Running) -> Result<Option<String>, HostError> {
    // Its lines may not be wanted, but it has to be able to write them.
    let Running { mut lines, end } = running;
    let drain = async { while lines.recv().await.is_some() {} };
    tokio::join!(outcome(end), drain).0
}

/// The same, where its lines were taken or are not wanted.
pub(super) async fn outcome(end: JoinHandle<Result<Output, HostError>>) -> Result<Option<String>, HostError> {
    match end.await {
        Ok(output) => Ok(words(&output?)),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// The words of an end that failed.
pub(crate) fn words(output: &Output) -> Option<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut text = String::new();
    for line in stderr.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let separator = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{separator}{line}");
    }
    match output.code {
        Some(0) => None,
        _ if !text.is_empty() => Some(text),
        Some(code) => Some(format!("it ended with {code}")),
        None => Some("it was killed".to_owned()),
    }
}
