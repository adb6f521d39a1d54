//! Where releases lie on the nodes: `~/.local/state/sparkctl/DEPLOYMENT/releases/NNNN/`, with the
//! record and the kept logs of its ranks. Reading records is part of gathering facts.

use std::time::Duration;

use super::{Release, ReleaseNumber, format};
use crate::bench::result::Report;
use crate::host::{Host, HostError, Output, Script};
use crate::profile::DeploymentName;

/// How long keeping a log may take: it is on the node's own disk, at most some hundred megabytes.
const SAVE_LOG: Duration = Duration::from_secs(15 * 60);

/// Name of a release's folder; sorts as the numbers do.
pub fn folder(number: ReleaseNumber) -> String {
    format!("{:04}", number.0)
}

/// Writes the record, whole or not at all; false where the same lies there already, or one of a newer sparkctl, which
/// stays as it is.
pub async fn write(host: &dyn Host, release: &Release) -> Result<bool, HostError> {
    if release.is_newer() {
        return Ok(false);
    }
    let json = serde_json::to_vec_pretty(release).expect("a release is always JSON");
    let script = Script::new(
        "write-release",
        include_str!("write-release.sh"),
        [release.deployment.to_string(), folder(release.number)],
    );
    let output = succeeded(host, "write the record of the release", &host.run(script.input(json)).await?)?;
    Ok(output.trim() == "changed")
}

/// Writes a benchmark beside the record, whole or not at all.
pub async fn write_bench(
    host: &dyn Host,
    deployment: &DeploymentName,
    number: ReleaseNumber,
    report: &Report,
) -> Result<(), HostError> {
    let json = serde_json::to_vec(report).expect("a report is always JSON");
    let arguments = [deployment.to_string(), folder(number), "bench.json".to_owned()];
    let script = Script::new("write-bench", include_str!("write-release.sh"), arguments);
    succeeded(host, "write the benchmark", &host.run(script.input(json)).await?).map(drop)
}

/// The benchmark of a release, where the node has one.
pub async fn read_bench(
    host: &dyn Host,
    deployment: &DeploymentName,
    number: ReleaseNumber,
) -> Result<Option<Report>, HostError> {
    let script =
        Script::new("read-bench", include_str!("read-bench.sh"), [deployment.to_string(), folder(number)]);
    let text = succeeded(host, "read the benchmark", &host.run(script).await?)?;
    if text.is_empty() {
        return Ok(None);
    }
    format::read(text.as_bytes()).map(|(report, _)| Some(report)).map_err(|why| HostError::Failed {
        node: host.node().clone(),
        what: "read the benchmark".to_owned(),
        why,
    })
}

/// Keeps the log of a rank's container beside the record.
pub async fn save_log(
    host: &dyn Host,
    deployment: &DeploymentName,
    number: ReleaseNumber,
    rank: u32,
    container: &str,
) -> Result<(), HostError> {
    let script = Script::new(
        "save-log",
        include_str!("save-log.sh"),
        [deployment.to_string(), folder(number), rank.to_string(), container.to_owned()],
    );
    succeeded(host, "keep the log", &host.run(script.timeout(SAVE_LOG)).await?).map(drop)
}

/// The kept logs of a release on a node: rank and text.
pub async fn read_logs(
    host: &dyn Host,
    deployment: &DeploymentName,
    number: ReleaseNumber,
) -> Result<Vec<(u32, String)>, HostError> {
    let script =
        Script::new("read-logs", include_str!("read-logs.sh"), [deployment.to_string(), folder(number)]);
    let text = succeeded(host, "read the kept logs", &host.run(script).await?)?;
    let mut logs: Vec<(u32, String)> = Vec::new();
    for line in text.lines() {
        let header = line.strip_prefix("== rank ");
        match (header.and_then(|rank| rank.parse().ok()), logs.last_mut()) {
            (Some(rank), _) => logs.push((rank, String::new())),
            (None, Some((_, log))) => {
                log.push_str(line);
                log.push('\n');
            }
            (None, None) => {}
        }
    }
    Ok(logs)
}

/// Standard output of a script that has to end well.
pub(crate) fn succeeded(host: &dyn Host, what: &str, output: &Output) -> Result<String, HostError> {
    if output.code == Some(0) {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let why = if stderr.is_empty() { format!("exit status {:?}", output.code) } else { stderr };
    Err(HostError::Failed { node: host.node().clone(), what: what.to_owned(), why })
}
