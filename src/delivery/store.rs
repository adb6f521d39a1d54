//! Writing, reading and comparing what is kept on nodes: `~/.local/state/sparkctl/DEPLOYMENT/{files,secrets}/`.

use std::time::Duration;

use super::kept::Kept;
use super::redact::Redactor;
use super::{Content, Secrets, secret};
use crate::host::{Host, HostError, Script};
use crate::profile::DeploymentName;
use crate::release::store::succeeded;

/// How long a file may travel: the way from the operator to the nodes may be slow.
const TRAVEL: Duration = Duration::from_secs(15 * 60);

/// Puts a file on a node, whole or not at all; false where the same lies there already.
pub async fn put(host: &dyn Host, kept: &Kept, content: &Content) -> Result<bool, HostError> {
    let script = Script::new("put-kept", include_str!("put-kept.sh"), arguments(kept));
    let output = host.run(script.input(content.bytes()).timeout(TRAVEL)).await?;
    let said = succeeded(host, &format!("write into the folder `{}`", kept.kind.folder()), &output)?;
    Ok(said.trim() == "changed")
}

/// What a node has kept.
pub async fn take(host: &dyn Host, kept: &Kept) -> Result<Content, HostError> {
    let script = Script::new("take-kept", include_str!("take-kept.sh"), arguments(kept));
    let output = host.run(script.timeout(TRAVEL)).await?;
    succeeded(host, &format!("read from the folder `{}`", kept.kind.folder()), &output)?;
    Ok(Content::from(output.stdout))
}

/// The kept secrets that hold the value of `secrets`: name of the file, and variable.
pub async fn compare(
    host: &dyn Host,
    deployment: &DeploymentName,
    secrets: &Secrets,
) -> Result<Vec<(String, String)>, HostError> {
    let script = Script::new("compare-secrets", include_str!("compare-secrets.sh"), [deployment.to_string()]);
    let output = host.run(script.input(secrets.file().bytes())).await?;
    let said = succeeded(host, "compare the secrets", &output)?;
    let pair = |line: &str| line.split_once(' ').map(|(id, name)| (id.to_owned(), name.to_owned()));
    Ok(said.lines().filter_map(pair).collect())
}

/// What takes out of a node's logs every secret that it keeps for the deployment.
pub async fn redactor(host: &dyn Host, deployment: &DeploymentName) -> Result<Redactor, HostError> {
    let script = Script::new("read-secrets", include_str!("read-secrets.sh"), [deployment.to_string()]);
    let said = succeeded(host, "read the secrets", &host.run(script).await?)?;
    Ok(Redactor::of(secret::read_files(&said)))
}

fn arguments(kept: &Kept) -> [String; 3] {
    [kept.deployment.to_string(), kept.kind.folder().to_owned(), kept.id.clone()]
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
