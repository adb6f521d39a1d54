//! What to tell about a node to somebody who is about to put a model on it: machine, memory, what runs, models, images.
//! Pure.
//!
//! Of command lines only the values of a few harmless flags are kept: the rest may hold secrets.

use serde::Serialize;

use super::engines;
use crate::cluster::facts::{Container, DockerFacts, FoundModel, Image, NodeFacts, Process};
use crate::profile::{DeploymentName, EngineKind, NodeName};

/// One node, as the screen shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeSurvey {
    pub name: NodeName,
    /// What `ssh` understands.
    pub host: String,
    /// Product, system, architecture, kernel.
    pub machine: Vec<String>,
    pub gpus: Vec<String>,
    pub memory: MemorySeen,
    /// Why its Docker Engine cannot be used; `None`: it can.
    pub docker: Option<String>,
    /// What holds a GPU or serves a model.
    pub runs: Vec<Runs>,
    pub models: Vec<FoundModel>,
    /// Whether the search for models ran out of time.
    pub models_cut: bool,
    /// Images that have an engine.
    pub images: Vec<EngineImage>,
}

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemorySeen {
    pub total: u64,
    /// Free, or taken by what the kernel gives back.
    pub available: u64,
    /// What CUDA counts as free where GPU and system share the memory.
    pub free: Option<u64>,
}

/// Something that runs, or comes back with the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Runs {
    /// The container's name; the program where it is in none.
    pub name: String,
    pub container: bool,
    pub running: bool,
    /// Seconds since 1970; `None` where that is not known.
    pub since: Option<i64>,
    pub image: Option<String>,
    /// What it serves, as far as its command line says.
    pub model: Option<String>,
    /// Docker's restart policy.
    pub restart: Option<String>,
    pub ports: Vec<u16>,
    /// Bytes of GPU memory, where the driver tells.
    pub gpu_memory: Option<u64>,
    /// The deployment of sparkctl that it belongs to.
    pub deployment: Option<DeploymentName>,
    /// Fields of a profile, as its command line would have them.
    pub says: Vec<(&'static str, String)>,
}

/// An image with an engine in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineImage {
    pub reference: String,
    pub kind: EngineKind,
    pub architecture: String,
    /// Bytes, as the node's store counts.
    pub size: u64,
}

/// What to tell about a node.
pub fn survey(facts: &NodeFacts, host: &str) -> NodeSurvey {
    let system = &facts.system;
    let gpus = facts.gpus.iter().map(|gpu| format!("{}, driver {}", gpu.name, gpu.driver)).collect();
    let machine =
        [system.product.as_deref().map(|product| product.replace('_', " ")), Some(system.os.clone())]
            .into_iter()
            .flatten()
            .chain([system.architecture.clone(), format!("kernel {}", system.kernel)])
            .filter(|word| !word.is_empty())
            .collect();
    let containers = facts.containers.iter().filter(|container| tells(container));
    let mut runs: Vec<_> = containers.map(|container| of_container(container, facts)).collect();
    runs.extend(
        facts.processes.iter().flatten().filter(|process| process.container.is_none()).map(of_process),
    );
    let mut models = facts.models.iter().flat_map(|scan| scan.models.clone()).collect::<Vec<_>>();
    models.sort_by(|one, other| (!one.complete, &one.path).cmp(&(!other.complete, &other.path)));
    NodeSurvey {
        name: facts.node.clone(),
        host: host.to_owned(),
        machine,
        gpus,
        memory: MemorySeen {
            total: system.memory_total,
            available: system.memory_available,
            free: system.memory_free,
        },
        docker: match &facts.docker {
            DockerFacts::Running(_) => None,
            DockerFacts::Unusable(why) => Some(why.to_string()),
        },
        runs,
        models,
        models_cut: facts.models.as_ref().is_some_and(|scan| scan.cut),
        images: images(facts),
    }
}

/// Images with an engine, each once, by name.
pub fn images(facts: &NodeFacts) -> Vec<EngineImage> {
    let mut images: Vec<_> = facts
        .images
        .iter()
        .filter_map(|image| {
            let kind = engines::of_image(image)?;
            let reference = name(image)?.to_owned();
            Some(EngineImage { reference, kind, architecture: image.architecture.clone(), size: image.size })
        })
        .collect();
    images.sort_by(|one, other| one.reference.cmp(&other.reference));
    images
}

/// The name that a person gave an image: sparkctl's own names for what it keeps say nothing.
fn name(image: &Image) -> Option<&str> {
    image.references.iter().map(String::as_str).filter(|name| !name.starts_with("sparkctl/kept:")).min()
}

/// Whether a container is of interest: it has the GPU or a model, and runs or comes back.
fn tells(container: &Container) -> bool {
    let engine = container.gpus || container.model.is_some() || engines::of_words(&container.argv).is_some();
    engine && (container.state.running || container.restart == "always" || container.ours.is_some())
}

fn of_container(container: &Container, facts: &NodeFacts) -> Runs {
    let held = facts.nvidia.processes.iter().flatten().filter(|process| {
        process
            .container
            .as_ref()
            .is_some_and(|name| *name == container.name || container.id.starts_with(name))
    });
    let gpu_memory = held.filter_map(|process| process.memory).reduce(|sum, memory| sum + memory);
    let says = engines::says(&container.argv);
    let mut ports = container.published.clone();
    let own: Option<u16> =
        says.iter().find(|(field, _)| *field == "serve.port").and_then(|(_, port)| port.parse().ok());
    ports.extend(own.filter(|_| container.host_network));
    ports.dedup();
    Runs {
        name: container.name.clone(),
        container: true,
        running: container.state.running,
        since: container.state.started.map(jiff::Timestamp::as_second),
        image: Some(container.image.clone()),
        model: model_of(container),
        restart: Some(container.restart.clone()),
        ports,
        gpu_memory,
        deployment: container.ours.as_ref().map(|ours| ours.deployment.clone()),
        says,
    }
}

/// The model of a container: where it is a path in the container, the path on the node.
pub fn model_of(container: &Container) -> Option<String> {
    container.serves()
}

fn of_process(process: &Process) -> Runs {
    Runs {
        name: format!("{} ({}, pid {})", process.engine, process.name, process.pid),
        container: false,
        running: true,
        since: None,
        image: None,
        model: None,
        restart: None,
        ports: Vec::new(),
        gpu_memory: None,
        deployment: None,
        says: Vec::new(),
    }
}
