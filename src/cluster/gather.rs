//! Gathering: what is on a node now. Reads, changes nothing: one script's round trip and the
//! questions to the Docker Engine, at the same time.
//!
//! A node that answers gives facts, whatever of it does not work: a Docker Engine that cannot be used
//! is a fact, too. An error is only that the node cannot be asked.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::cluster::facts::{
    Clock, Container, Depth, Docker, DockerFacts, Image, Listener, NoDocker, NodeFacts, User,
};
use crate::cluster::parse::parse;
use crate::host::{Host, HostError, Script};
use crate::profile::{DeploymentName, Profile};

/// How long the Docker Engine may take for all that it is asked.
const DOCKER: Duration = Duration::from_secs(40);

/// How long the script may take. Each command that may hang is given up earlier.
const SCRIPT_LIMIT: Duration = Duration::from_secs(75);
/// The script, with the two programs that read models as functions ahead of it.
const SCRIPT: &str = concat!(
    "model_reader() {\ncat <<'PYTHON'\n",
    include_str!("../transfer/seen.py"),
    include_str!("gather/model.py"),
    "PYTHON\n}\nmodel_scanner() {\ncat <<'PYTHON'\n",
    include_str!("gather/scan.py"),
    "PYTHON\n}\n",
    include_str!("gather/gather.sh")
);

/// What is to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// How much is asked.
    pub depth: Depth,
    /// Whose releases; `None`: nobody's.
    pub deployment: Option<DeploymentName>,
    /// The model's folder; not asked for at depth `status`.
    pub model_path: Option<String>,
    /// Addresses on the fabric that should answer from every node.
    pub peers: Vec<Ipv4Addr>,
    /// Looks for models in the usual places and in these folders; `None`: no search, which takes time.
    pub scan: Option<Vec<String>>,
}

impl Request {
    /// For the deployment of a profile.
    pub fn of(profile: &Profile, depth: Depth) -> Self {
        Self {
            depth,
            deployment: Some(profile.name.clone()),
            model_path: Some(profile.model.path.clone()),
            peers: profile.cluster.nodes.iter().map(|node| node.fabric).collect(),
            scan: None,
        }
    }

    /// For a machine of which nothing is known yet: all that can be asked, and where models lie.
    pub fn machine() -> Self {
        let (deployment, model_path, peers) = (None, None, Vec::new());
        Self { depth: Depth::Check, deployment, model_path, peers, scan: Some(Vec::new()) }
    }

    /// The same with other addresses that should answer.
    #[must_use]
    pub fn peers(self, peers: Vec<Ipv4Addr>) -> Self {
        Self { peers, ..self }
    }

    /// The question to the node itself.
    pub fn script(&self) -> Script {
        Script::new("gather", SCRIPT, self.arguments()).timeout(SCRIPT_LIMIT)
    }

    /// Depth, deployment, model's folder, peers, whether to scan, and the further folders to scan.
    fn arguments(&self) -> Vec<String> {
        let depth = match self.depth {
            Depth::Status => "status",
            Depth::Plan => "plan",
            Depth::Check => "check",
        };
        let peers: Vec<_> = self.peers.iter().map(ToString::to_string).collect();
        let mut arguments = vec![
            depth.to_owned(),
            self.deployment.as_ref().map(ToString::to_string).unwrap_or_default(),
            self.model_path.clone().unwrap_or_default(),
            peers.join(" "),
            self.scan.as_ref().map_or("", |_| "scan").to_owned(),
        ];
        arguments.extend(self.scan.iter().flatten().cloned());
        arguments
    }
}

/// Gathers the facts of one node.
pub async fn gather(host: &dyn Host, request: &Request) -> Result<NodeFacts, HostError> {
    let began = Instant::now();
    let look = async {
        let asked = Timestamp::now();
        let output = host.run(request.script()).await;
        (asked, output, Timestamp::now())
    };
    let ((asked, output, answered), docker) = tokio::join!(look, docker(host, request.depth));
    let output = output?;
    let (docker, images, containers) = docker?;
    let seen = parse(request.deployment.as_ref(), &output.stdout).map_err(|why| HostError::Failed {
        node: host.node().clone(),
        what: "gathering facts".to_owned(),
        why: match String::from_utf8_lossy(&output.stderr).trim() {
            "" => why,
            stderr => format!("{why}; the script said: {stderr}"),
        },
    })?;
    let listeners = seen.listeners.into_iter().map(|listener| {
        let named = listener.container.as_deref().map(|id| container_name(id, &containers));
        let publisher =
            || containers.iter().find(|c| c.state.running && c.published.contains(&listener.port));
        let container = named.or_else(|| publisher().map(|container| container.name.clone()));
        Listener { container, ..listener }
    });
    let listeners = listeners.collect();
    let (mut processes, mut nvidia) = (seen.processes, seen.nvidia);
    let of_processes = processes.iter_mut().flatten().map(|process| &mut process.container);
    let of_gpus = nvidia.processes.iter_mut().flatten().map(|process| &mut process.container);
    for container in of_processes.chain(of_gpus) {
        *container = container.as_deref().map(|id| container_name(id, &containers));
    }
    let docker = match docker {
        DockerFacts::Running(docker) => {
            DockerFacts::Running(Box::new(Docker { disk: seen.docker_disk, ..*docker }))
        }
        unusable @ DockerFacts::Unusable(_) => unusable,
    };
    Ok(NodeFacts {
        node: host.node().clone(),
        depth: request.depth,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        gaps: seen.gaps,
        system: seen.system,
        clock: seen.clock.map(|(begun, ended)| Clock { asked, begun, ended, answered }),
        user: User { greeting: output.noise.lines().next().map(str::to_owned), ..seen.user },
        interfaces: seen.interfaces,
        routes: seen.routes,
        peers: seen.peers,
        rdma_devices: seen.rdma_devices,
        gpus: seen.gpus,
        nvidia,
        infiniband: seen.infiniband,
        listeners,
        processes,
        model: seen.model,
        model_disk: seen.model_disk,
        models: seen.models,
        tools: seen.tools,
        docker,
        toolkit: seen.toolkit,
        images,
        containers,
        sshd: seen.sshd,
        releases: seen.releases,
        unreadable_releases: seen.unreadable_releases,
        highest_release: seen.highest_release,
        kept: seen.kept,
        journal: seen.journal,
        holder: seen.holder,
    })
}

/// The name of a container; one that the engine does not tell of keeps the beginning of its ID.
fn container_name(id: &str, containers: &[Container]) -> String {
    let named = containers.iter().find(|container| container.id == id);
    named.map_or_else(|| id.chars().take(12).collect(), |container| container.name.clone())
}

/// What the Docker Engine tells. That it tells nothing is no error; that the node cannot be asked is one.
async fn docker(
    host: &dyn Host,
    depth: Depth,
) -> Result<(DockerFacts, Vec<Image>, Vec<Container>), HostError> {
    let images = async { if depth == Depth::Status { Ok(Vec::new()) } else { host.images().await } };
    let ask = async { tokio::try_join!(host.docker(), images, host.containers()) };
    let why = match tokio::time::timeout(DOCKER, ask).await {
        Ok(Ok((docker, images, containers))) => {
            return Ok((DockerFacts::Running(Box::new(docker)), images, containers));
        }
        Ok(Err(HostError::DockerAbsent { why, .. })) => why,
        Ok(Err(HostError::Docker { what, why, .. })) => {
            NoDocker::Failing { why: format!("it could not {what}: {why}") }
        }
        Ok(Err(HostError::Timeout { what, limit, .. })) => {
            NoDocker::Failing { why: format!("it did not {what} within {} s", limit.as_secs()) }
        }
        Ok(Err(error)) => return Err(error),
        Err(_) => NoDocker::Failing { why: format!("it gave no answer within {} s", DOCKER.as_secs()) },
    };
    Ok((DockerFacts::Unusable(why), Vec::new(), Vec::new()))
}
