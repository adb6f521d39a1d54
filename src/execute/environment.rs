//! Whether the ranks' processes have the environment that their containers were given: asked of the processes themselves,
//! as an image's start-up script, a command of `engine.before` or Ray may have changed it on the way. Warnings only, and
//! none about what could not be asked.

use std::time::Duration;

use futures_util::future::join_all;

use super::Hosts;
use crate::check::Finding;
use crate::container::{Rank, container_name};
use crate::engine::env::{self, Process};
use crate::host::{Host, Script};
use crate::profile::DeploymentName;

/// How long a node may take to tell.
const LIMIT: Duration = Duration::from_secs(30);

/// What differs, rank by rank.
pub async fn differences(deployment: &DeploymentName, ranks: &[Rank], hosts: &Hosts) -> Vec<Finding> {
    let asked = ranks.iter().filter_map(|rank| Some((rank, hosts.get(&rank.node)?)));
    let all = asked.map(|(rank, host)| async move {
        let processes = processes(host.as_ref(), deployment, rank).await.unwrap_or_default();
        (rank, env::differences(&rank.spec.env, &processes))
    });
    let mut findings = Vec::new();
    for (rank, differences) in join_all(all).await {
        findings.extend(differences.into_iter().map(|difference| {
            Finding::warning(
                "environment",
                Some(&rank.node),
                format!("rank {} does not run with the environment of `plan --env`: {difference}", rank.rank),
                "look at the image's start-up scripts and at `engine.before`; what steers the network has to be the node's own",
            )
        }));
    }
    findings
}

async fn processes(host: &dyn Host, deployment: &DeploymentName, rank: &Rank) -> Option<Vec<Process>> {
    let set = rank.spec.env.keys().map(String::as_str);
    let steering = env::STEERING.iter().copied().filter(|name| !rank.spec.env.contains_key(*name));
    let container = container_name(deployment, rank.rank);
    let arguments = std::iter::once(container.as_str()).chain(set).chain(steering);
    let script = Script::new("rank-environ", include_str!("../engine/environ.sh"), arguments);
    let asked = host.run(script.timeout(LIMIT));
    // What hangs now hangs after everything is done: nobody is to wait for it.
    let output = tokio::time::timeout(LIMIT, asked).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    (output.code == Some(0))
        .then(|| text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
