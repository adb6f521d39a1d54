//! How many nodes a recipe needs, and how its engine spreads over them.

use crate::profile::{EngineKind, Launch};

use super::draft::Draft;
use super::recipe::{Format, Recipe};
use super::report::Report;

/// Ranks along each axis, one GPU each, and the launch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Topology {
    pub(super) tensor: u32,
    pub(super) pipeline: u32,
    pub(super) data: u32,
    /// None: as the engine does it.
    pub(super) launch: Option<Launch>,
}

impl Topology {
    pub(super) fn nodes(&self) -> u32 {
        self.tensor.saturating_mul(self.pipeline).saturating_mul(self.data)
    }
}

pub(super) fn choose(kind: EngineKind, recipe: &Recipe, draft: &Draft, report: &mut Report) -> Topology {
    // sparkrun counts nodes by its defaults, whether the command uses them or not.
    let default = |key| match recipe.format {
        Format::Sparkrun => recipe.default(key).and_then(|value| value.text.parse().ok()).filter(|n| *n > 0),
        Format::SparkVllmDocker => None,
    };
    let mut topology = Topology {
        tensor: draft.tensor.or_else(|| default("tensor_parallel")).unwrap_or(1),
        pipeline: draft.pipeline.or_else(|| default("pipeline_parallel")).unwrap_or(1),
        data: draft
            .data
            .or_else(|| default("data_parallel").filter(|_| kind == EngineKind::Vllm))
            .unwrap_or(1),
        launch: None,
    };
    let asked = topology.nodes();
    let (least, most) = (recipe.min_nodes.unwrap_or(1), recipe.max_nodes.unwrap_or(u32::MAX));
    let fit = asked.max(least).min(most);
    if fit != asked {
        let others = topology.pipeline.saturating_mul(topology.data);
        if fit % others == 0 {
            topology.tensor = fit / others;
        } else {
            (topology.tensor, topology.pipeline, topology.data) = (fit, 1, 1);
        }
        let (is, word) = if asked > fit { ("at most", "cut") } else { ("at least", "raised") };
        let nodes = if fit == 1 { "node" } else { "nodes" };
        let ranks = if asked == 1 { "rank" } else { "ranks" };
        report.ask(format!(
            "the command has {asked} {ranks}, and the recipe is for {is} {fit} {nodes}: `engine.tensor_parallel` was {word} to {}",
            topology.tensor
        ));
    }
    topology.launch = launch(kind, recipe, draft, &topology, report);
    topology
}

fn launch(
    kind: EngineKind,
    recipe: &Recipe,
    draft: &Draft,
    topology: &Topology,
    report: &mut Report,
) -> Option<Launch> {
    let runtime = recipe.runtime.as_ref().map_or("", |runtime| &runtime.text);
    let backend = draft.backend.as_ref().or_else(|| recipe.default("distributed_executor_backend"));
    if let Some(backend) = &draft.backend {
        let what = format!("--distributed-executor-backend {}", backend.text);
        report.spare(backend.line, what, "`engine.launch` says how ranks find each other");
    }
    if kind == EngineKind::Sglang || topology.nodes() == 1 {
        return None;
    }
    let on_ray = match backend {
        Some(backend) => backend.text == "ray",
        None => ["vllm-ray", "eugr-vllm", "eugr-vllm-ray"].contains(&runtime),
    };
    // vLLM has copies of a model on several nodes by its own launch only.
    Some(if on_ray && topology.data == 1 { Launch::Ray } else { Launch::Native })
}
