//! The profile that follows from what was seen: its values, and what is left to do. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fabric::Chosen;
use super::pick::{ImageChoice, ModelChoice, ToDo};
use super::settings::{self, Settings};
use super::survey::NodeSurvey;
use crate::cluster::facts::{ModelContent, NodeFacts};
use crate::engine::RAY_PORT;
use crate::profile::{
    Bench, Cluster, Conflicts, DeploymentName, Engine, FormatVersion, Hooks, Image, Listen, Model, Node,
    NodeName, OnFailure, Port, Profile, Ready, Serve, Transfer, Verify,
};

/// The variable that stands for the model's folder while none is chosen.
pub const OPEN_MODEL: &str = "${MODEL_PATH}";
/// The variable that stands for the image while none is chosen.
pub const OPEN_IMAGE: &str = "${IMAGE}";

/// All that a profile is made of.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    pub facts: &'a [NodeFacts],
    pub nodes: &'a [NodeSurvey],
    /// The user that was named with the hosts.
    pub user: Option<&'a str>,
    pub fabric: &'a Chosen,
    pub model: &'a ModelChoice,
    /// What is in the model's files, where they can be read.
    pub content: Option<&'a ModelContent>,
    pub image: &'a ImageChoice,
    /// The deployment's name, where a person said it.
    pub name: Option<&'a DeploymentName>,
}

/// A profile, and what goes with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Draft {
    /// With stand-ins where nothing is chosen.
    pub profile: Profile,
    pub settings: Settings,
    /// What has to be done before a deploy.
    pub to_do: Vec<ToDo>,
    /// Whether model and image are both chosen.
    pub is_whole: bool,
}

/// Port of the endpoint, unless something listens there.
const PORT: u16 = 30000;

/// Makes the profile.
pub fn draft(seen: &Seen<'_>) -> Draft {
    let mut profile = plain(seen);
    let model_name = seen.model.name.as_deref().unwrap_or_default();
    let settings = settings::settings(&profile, model_name, seen.content, seen.facts);
    profile.engine.context_length = settings.context_length;
    profile.engine.memory_fraction = settings.memory_fraction;
    profile.engine.reasoning_parser.clone_from(&settings.reasoning_parser);
    profile.engine.tool_parser.clone_from(&settings.tool_parser);
    let mut to_do = Vec::new();
    if seen.model.path.is_none() {
        to_do.push(ToDo::new(format!(
            "choose the model ({}): write it for {OPEN_MODEL}, or set that variable",
            seen.model.because
        )));
    }
    if seen.image.reference.is_none() {
        to_do.push(ToDo::new(format!(
            "choose the image ({}): write it for {OPEN_IMAGE}, or set that variable",
            seen.image.because
        )));
    }
    to_do.extend(seen.model.to_do.iter().chain(&seen.image.to_do).cloned());
    for what in seen.nodes.iter().flat_map(in_the_way) {
        // One deployment runs on several nodes, and is stopped once.
        if !to_do.contains(&what) {
            to_do.push(what);
        }
    }
    let is_whole = seen.model.path.is_some() && seen.image.reference.is_some();
    Draft { profile, settings, to_do, is_whole }
}

/// Without what the model decides.
fn plain(seen: &Seen<'_>) -> Profile {
    let nodes = seen.nodes.iter().zip(&seen.fabric.ends);
    let nodes: Vec<_> = nodes
        .map(|(node, end)| Node { name: node.name.clone(), host: node.host.clone(), fabric: end.address })
        .collect();
    let kind = seen.image.kind;
    let name = seen.name.cloned().unwrap_or_else(|| deployment(seen.model.name.as_deref()));
    let reference = seen.image.reference.as_deref().unwrap_or("open").parse();
    Profile {
        version: FormatVersion,
        name,
        model: Model {
            path: seen.model.path.clone().unwrap_or_else(|| "/open".to_owned()),
            source: seen.model.source.clone(),
        },
        image: Image {
            reference: reference.unwrap_or_else(|_| "open".parse().expect("a plain word is a name")),
            build: None,
        },
        engine: Engine {
            kind,
            launch: None,
            tensor_parallel: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            pipeline_parallel: 1,
            data_parallel: 1,
            expert_parallel: false,
            context_length: None,
            memory_fraction: None,
            max_requests: None,
            quantization: None,
            kv_cache_type: None,
            prefix_caching: None,
            speculative: None,
            trust_remote_code: false,
            chat_template: None,
            lora: None,
            multimodal: BTreeMap::new(),
            reasoning_parser: None,
            tool_parser: None,
            before: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
        },
        cluster: Cluster { user: seen.user.map(str::to_owned), nodes, transfer: Transfer::default() },
        files: Vec::new(),
        serve: Serve {
            port: free_port(&seen.facts[0]),
            name: None,
            listen: Listen::default(),
            open: true,
            api_key: None,
        },
        ready: Ready::default(),
        verify: Verify::default(),
        bench: Bench::default(),
        on_failure: OnFailure::default(),
        conflicts: Conflicts::default(),
        hooks: Hooks::default(),
    }
}

/// The first port from 30000 on where nothing listens.
fn free_port(head: &NodeFacts) -> Port {
    let taken = |port: u16| {
        let published = head.containers.iter().any(|container| container.published.contains(&port));
        published || port == RAY_PORT || head.listeners.iter().any(|listener| listener.port == port)
    };
    let free = (PORT..PORT + 100).find(|port| !taken(*port)).unwrap_or(PORT);
    Port::try_from(u64::from(free)).expect("30000 and what follows are ports")
}

/// What runs on a node and has the GPU, and would refuse a deploy.
fn in_the_way(node: &NodeSurvey) -> Vec<ToDo> {
    let mut to_do = Vec::new();
    if let Some(why) = &node.docker {
        to_do.push(ToDo::new(format!("Docker on {} cannot be used: {why}", node.name)));
    }
    for runs in node.runs.iter().filter(|runs| runs.running) {
        to_do.push(match (&runs.deployment, runs.container) {
            (Some(deployment), _) => ToDo::by(
                format!("deployment `{deployment}` runs, and a GPU holds one: stop it"),
                format!("sparkctl stop {deployment}"),
            ),
            (None, true) => ToDo::by(
                format!("container `{}` on {} holds the GPU: stop it, for good", runs.name, node.name),
                format!("docker update --restart no {0} && docker stop {0}", runs.name),
            ),
            (None, false) => ToDo::new(format!(
                "{} on {} may hold memory that the engine needs: end it",
                runs.name, node.name
            )),
        });
    }
    to_do
}

/// A deployment's name out of a model's.
fn deployment(model: Option<&str>) -> DeploymentName {
    let name = plain_name(model.unwrap_or_default(), 48);
    name.parse().unwrap_or_else(|_| "sparks".parse().expect("a plain word is a name"))
}

/// Lower-case letters, digits, `-` and `.`, beginning and ending with a letter or a digit.
fn plain_name(text: &str, most: usize) -> String {
    let mut name = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' | '.' => name.push(c),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.truncate(most);
    name.trim_matches(['-', '.']).to_owned()
}

/// Names for nodes: their host names, where those tell them apart; else what they were named by.
pub fn node_names(hosts: &[(String, String)]) -> Vec<NodeName> {
    let own: Vec<_> = hosts
        .iter()
        .map(|(_, hostname)| plain_name(hostname.split('.').next().unwrap_or_default(), 63))
        .collect();
    let tells = |name: &String| {
        !name.is_empty() && name != "localhost" && own.iter().filter(|other| *other == name).count() == 1
    };
    let mut names: Vec<NodeName> = Vec::new();
    for ((host, _), own) in hosts.iter().zip(&own) {
        let name = if own.is_empty() || !tells(own) { plain_name(host, 63) } else { own.clone() };
        let numbered = |number: usize| format!("node{number}");
        let first = name.parse().unwrap_or_else(|_| numbered(names.len() + 1).parse().expect("a name"));
        let free = (names.len() + 1..).map(|number| numbered(number).parse().expect("a name"));
        let name =
            std::iter::once(first).chain(free).find(|name| !names.contains(name)).expect("there are more");
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_are_names_and_differ() {
        let check = |hosts: &[(&str, &str)], expected: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            let names: Vec<_> = node_names(&hosts).iter().map(ToString::to_string).collect();
            assert_eq!(names, expected, "{hosts:?}");
        };
        check(&[("10.0.0.1", "spark-1a2b"), ("10.0.0.2", "Spark_3C4D.local")], &["spark-1a2b", "spark-3c4d"]);
        check(&[("left", "spark"), ("right", "spark")], &["left", "right"]);
        check(&[("10.0.0.1", "localhost"), ("local", "")], &["10.0.0.1", "local"]);
        check(&[("fe80::1", "---"), ("b", "fe80-1")], &["fe80-1", "node2"]);
        check(&[("[", "_"), ("]", "-")], &["node1", "node2"]);
    }

    #[test]
    fn a_deployment_is_named_after_its_model() {
        let check = |model: Option<&str>, expected: &str| assert_eq!(deployment(model).as_str(), expected);
        check(Some("Qwen3.5-122B-A10B-FP8"), "qwen3.5-122b-a10b-fp8");
        check(Some("a model_of__mine."), "a-model-of-mine");
        check(Some("一"), "sparks");
        check(None, "sparks");
        check(Some(&"x".repeat(60)), &"x".repeat(48));
    }
}
