//! Gathering: what is on a node now. Reads, changes nothing: one script's round trip and the
//! questions to the Docker Engine, at the same time.

use crate::cluster::facts::{Docker, NodeFacts};
use crate::cluster::parse::parse;
use crate::host::{Host, HostError, Script};
use crate::profile::DeploymentName;

/// What is to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whose releases.
    pub deployment: DeploymentName,
    /// The model's folder.
    pub model_path: String,
}

/// Gathers the facts of one node.
pub async fn gather(host: &dyn Host, request: &Request) -> Result<NodeFacts, HostError> {
    let arguments = [request.deployment.as_str(), &request.model_path];
    let script = Script::new("gather", include_str!("gather.sh"), arguments);
    let (output, docker, images, containers) =
        tokio::join!(host.run(script), host.docker(), host.images(), host.containers());
    let output = output?;
    let seen = parse(&request.deployment, &output.stdout).map_err(|why| HostError::Failed {
        node: host.node().clone(),
        what: "gathering facts".to_owned(),
        why: match String::from_utf8_lossy(&output.stderr).trim() {
            "" => why,
            stderr => format!("{why}; the script said: {stderr}"),
        },
    })?;
    Ok(NodeFacts {
        node: host.node().clone(),
        system: seen.system,
        interfaces: seen.interfaces,
        gpus: seen.gpus,
        infiniband: seen.infiniband,
        listeners: seen.listeners,
        model: seen.model,
        model_disk: seen.model_disk,
        tools: seen.tools,
        docker: Docker { disk: seen.docker_disk, ..docker? },
        images: images?,
        containers: containers?,
        releases: seen.releases,
        unreadable_releases: seen.unreadable_releases,
        highest_release: seen.highest_release,
    })
}
