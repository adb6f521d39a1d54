//! Findings about the model itself: whether it fits the nodes, and whether it can be cut as the profile asks. Pure.
//!
//! An error only where it surely cannot work. A model that is not understood is not judged. What has served
//! before is only asked for free memory.

use super::Finding;
use crate::cluster::facts::NodeFacts;
use crate::memory::{Asked, Budget, Verdict, gib, lifts_limit, seen};
use crate::model::{Mixer, Scheme, Shape};
use crate::plan::is_of;
use crate::profile::{EngineKind, NodeName, Profile};
use crate::release::Outcome;

/// What can be told of the model in the head's folder.
pub(super) fn check(profile: &Profile, facts: &[NodeFacts]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Ok((shape, budgets)) = seen::budgets(profile, facts) else { return findings };
    if !has_served(profile, facts) {
        divides(profile, &shape, &mut findings);
        findings.extend(too_long(profile, &shape));
        for (node, budget) in &budgets {
            fits(profile, &shape, node, budget, &mut findings);
        }
    }
    for facts in facts {
        if let Some((_, budget)) = budgets.iter().find(|(node, _)| *node == facts.node) {
            free(profile, facts, budget, &mut findings);
        }
    }
    findings
}

/// Whether a release of the same files with the same engine was proven on these nodes.
fn has_served(profile: &Profile, facts: &[NodeFacts]) -> bool {
    let Some(model) = facts.first().and_then(|head| head.model.as_ref()) else { return false };
    let nodes = |profile: &Profile| -> Vec<_> {
        profile.cluster.nodes.iter().map(|node| (node.name.clone(), node.fabric)).collect()
    };
    facts.iter().flat_map(|facts| &facts.releases).any(|release| {
        release.outcome == Outcome::Deployed
            && is_of(release, &model.files)
            && nodes(&release.profile) == nodes(profile)
            && release.profile.engine == profile.engine
            && release.profile.model == profile.model
    })
}

fn fits(profile: &Profile, shape: &Shape, node: &NodeName, budget: &Budget, findings: &mut Vec<Finding>) {
    let hint = "add nodes (`engine.tensor_parallel`), take weights of fewer bits, a larger `engine.memory_fraction` or a \
                shorter `engine.context_length`; `sparkctl fit` shows the whole budget";
    let of = format!("{} of {}", budget.fraction, gib(budget.memory.total));
    match budget.verdict {
        Verdict::TooBig { lacking } => {
            let by =
                budget.measured.map_or(String::new(), |it| format!(", measured by release {}", it.release));
            let parts = match (budget.weights, budget.request) {
                (Some(weights), Some(request)) => {
                    let context = Asked::of(profile, shape).context;
                    format!(
                        "weights ({}{by}) and cache for {context} tokens ({})",
                        gib(weights),
                        gib(request)
                    )
                }
                (weights, _) => format!("weights ({}{by})", gib(weights.unwrap_or(0))),
            };
            let message = format!("{parts} do not fit: {} more than {of}", gib(lacking));
            let found = if is_sure(profile, shape) { Finding::error } else { Finding::warning };
            findings.push(found("memory-fit", Some(node), message, hint).at(cause(profile, budget)));
        }
        Verdict::Unsure { lacking } => {
            let by = budget.measured.filter(|measured| measured.beside.is_some());
            let by = by.map_or(String::new(), |it| format!(", as release {} did", it.release));
            let message = format!(
                "the model may not fit: {} more than {of}, if activations, CUDA graphs and NCCL take {}{by}",
                gib(lacking),
                gib(budget.beside)
            );
            findings
                .push(Finding::warning("memory-fit", Some(node), message, hint).at(cause(profile, budget)));
        }
        Verdict::Fits { .. } | Verdict::TooLong { .. } | Verdict::NotEstimated => {}
    }
}

/// The field that is to be changed first where memory lacks.
fn cause(profile: &Profile, budget: &Budget) -> &'static str {
    let engine = &profile.engine;
    let weights = budget.weights.unwrap_or(0);
    if weights > budget.memory.total {
        "model.path"
    } else if weights > budget.limit && engine.memory_fraction.is_some() {
        "engine.memory_fraction"
    } else if engine.speculative.is_some() && budget.per_request.is_some_and(|bytes| bytes > budget.limit) {
        "engine.speculative.tokens"
    } else if engine.context_length.is_some() {
        "engine.context_length"
    } else if engine.memory_fraction.is_some() {
        "engine.memory_fraction"
    } else {
        "model.path"
    }
}

/// Engines refuse a context that is longer than what the model is made for.
fn too_long(profile: &Profile, shape: &Shape) -> Option<Finding> {
    let (asked, own) = (profile.engine.context_length?, shape.context?);
    if u64::from(asked) <= own {
        return None;
    }
    let lifted = lifts_limit(profile);
    let found = if lifted { Finding::warning } else { Finding::error };
    let hint = if lifted {
        "ask about something far back in a long prompt before you rely on it".to_owned()
    } else {
        format!(
            "set `engine.context_length` to {own} or less, or stretch the model with RoPE scaling in `engine.args`"
        )
    };
    let message =
        format!("`engine.context_length` is {asked}, more than the {own} tokens that the model is made for");
    Some(found("context-model", None, message, &hint).at("engine.context_length"))
}

/// Whether nothing in the profile makes the weights of a rank smaller than the files say, or the limit another.
fn is_sure(profile: &Profile, shape: &Shape) -> bool {
    let engine = &profile.engine;
    let offloads = engine.args.iter().any(|arg| arg.contains("offload"));
    let quantised_at_load = engine.quantization.is_some() && shape.quantization.is_none();
    // How far experts of four bits are filled up depends on the kernel that the engine takes.
    let filled_up = shape.quantization.as_ref().is_some_and(|it| it.scheme == Scheme::Mxfp4);
    engine.memory_fraction.is_some()
        && engine.data_parallel == 1
        && !offloads
        && !quantised_at_load
        && !filled_up
}

/// vLLM refuses to start where less memory is free than it may take. What engines hold now is free by then, so this
/// is only told where none runs.
fn free(profile: &Profile, facts: &NodeFacts, budget: &Budget, findings: &mut Vec<Finding>) {
    let busy = facts.containers.iter().any(|container| container.gpus && container.state.running);
    let Some([_, largest]) = budget.largest_fraction else { return };
    let free = budget.memory.reclaimable.unwrap_or(0);
    if busy || profile.engine.memory_fraction.is_none() || budget.limit <= free {
        return;
    }
    let found = Finding::warning(
        "memory-free",
        Some(&facts.node),
        format!(
            "engine.memory_fraction {} is {}, but only {} are free, also without the page cache",
            budget.fraction,
            gib(budget.limit),
            gib(free)
        ),
        &format!(
            "end what holds memory there, or lower it: {}.{:02} is the largest that passes now",
            largest / 100,
            largest % 100
        ),
    );
    findings.push(found.at("engine.memory_fraction"));
}

/// Heads are cut by whole heads. Fewer KV heads than GPUs are copied, as long as that comes out even.
fn divides(profile: &Profile, shape: &Shape, findings: &mut Vec<Finding>) {
    let tensor = u64::from(profile.engine.tensor_parallel.max(1));
    let even = |heads: u64| heads.is_multiple_of(tensor);
    let wrong =
        shape.attention_heads.filter(|heads| !even(*heads)).map(|heads| (heads, "attention heads")).or_else(
            || {
                shape.layers.iter().find_map(|layer| match layer {
                    Mixer::Attention { kv_heads, .. }
                        if !even(*kv_heads) && !tensor.is_multiple_of(*kv_heads) =>
                    {
                        Some((*kv_heads, "KV heads"))
                    }
                    Mixer::Linear { key_heads, .. } if !even(*key_heads) => {
                        Some((*key_heads, "key heads of linear attention"))
                    }
                    Mixer::Linear { value_heads, .. } if !even(*value_heads) => {
                        Some((*value_heads, "value heads of linear attention"))
                    }
                    Mixer::Mamba { heads, .. } if !even(*heads) => Some((*heads, "Mamba heads")),
                    _ => None,
                })
            },
        );
    let Some((heads, what)) = wrong else { return };
    // SGLang can give each GPU attention of its own; vLLM refuses every such cut.
    let found = if profile.engine.kind == EngineKind::Vllm { Finding::error } else { Finding::warning };
    let possible: Vec<_> = (1..=8_u64)
        .filter(|count| shape.attention_heads.is_some_and(|heads| heads.is_multiple_of(*count)))
        .map(|count| count.to_string())
        .collect();
    let hint = format!(
        "take another engine.tensor_parallel ({}), and engine.pipeline_parallel for further nodes",
        possible.join(", ")
    );
    let found = found(
        "heads-divide",
        None,
        format!("engine.tensor_parallel is {tensor}, which does not divide the model's {heads} {what}"),
        &hint,
    );
    findings.push(found.at("engine.tensor_parallel"));
}
