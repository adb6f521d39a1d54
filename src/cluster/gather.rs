//! Gathering: what is on a node now. Reads, changes nothing: one script's round trip and the
//! questions to the Docker Engine, at the same time.

use std::net::Ipv4Addr;

use crate::cluster::facts::{Docker, NodeFacts};
use crate::cluster::parse::parse;
use crate::host::{Host, HostError, Script};
use crate::profile::{DeploymentName, Profile};

/// What is to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whose releases.
    pub deployment: DeploymentName,
    /// The model's folder.
    pub model_path: String,
    /// Addresses on the fabric that should answer from every node.
    pub peers: Vec<Ipv4Addr>,
}

impl Request {
    /// For the deployment of a profile.
    pub fn of(profile: &Profile) -> Self {
        Self {
            deployment: profile.name.clone(),
            model_path: profile.model.path.clone(),
            peers: profile.cluster.nodes.iter().map(|node| node.fabric).collect(),
        }
    }
}

/// Gathers the facts of one node.
pub async fn gather(host: &dyn Host, request: &Request) -> Result<NodeFacts, HostError> {
    let peers = request.peers.iter().map(ToString::to_string);
    let arguments = [request.deployment.to_string(), request.model_path.clone()].into_iter().chain(peers);
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
        lost_peers: seen.lost_peers,
        model: seen.model,
        model_disk: seen.model_disk,
        tools: seen.tools,
        docker: Docker { disk: seen.docker_disk, ..docker? },
        images: images?,
        containers: containers?,
        releases: seen.releases,
        unreadable_releases: seen.unreadable_releases,
        highest_release: seen.highest_release,
        kept: seen.kept,
    })
}
