//! What was seen on the nodes, as questions to the budget: the model in the head's folder, the memory of a node's GPU.

use super::budget::budget_with;
use super::{Asked, Budget, Measured, Memory};
use crate::cluster::facts::{ModelContent, NodeFacts};
use crate::model::tensors::{Weights, only_guesses};
use crate::model::{Shape, config};
use crate::profile::{NodeName, Profile};

/// The model's configuration and the size of its weights, from what was read of its files; `None` where there is
/// no `config.json`, and in the error why it cannot be read.
pub fn model(content: &ModelContent) -> Option<Result<(Shape, Option<Weights>), config::Unreadable>> {
    let shape = config::read(content.config.as_deref()?);
    Some(shape.map(|shape| (shape, weights(content))))
}

/// Bytes of the tensors by the files' headers, where every one was read; else by the index; else by the files' sizes.
fn weights(content: &ModelContent) -> Option<Weights> {
    let by_headers = || {
        let all = content.safetensors.iter().all(|file| file.expected.is_some());
        let parts = content.bytes_by_part();
        let total = parts.values().sum();
        let drafts = parts.iter().filter(|(part, _)| only_guesses(part)).map(|(_, bytes)| bytes).sum();
        (all && total > 0).then(|| Weights { total, drafts, tensors: Vec::new() })
    };
    let by_index = || content.index.as_ref()?.total_size.map(Weights::of_bytes);
    let by_size = || {
        let total: u64 = content.safetensors.iter().map(|file| file.size).sum();
        (total > 0).then(|| Weights::of_bytes(total))
    };
    // Headers of half a download say too little.
    if content.missing_shards().is_empty() {
        by_headers().or_else(by_index).or_else(by_size)
    } else {
        by_index()
    }
}

/// The memory of a node's GPU; `None` where there is no GPU.
pub fn memory(facts: &NodeFacts) -> Option<Memory> {
    let gpu = facts.gpus.first()?;
    let system = &facts.system;
    Some(match gpu.memory_total {
        Some(total) => {
            let free = gpu.memory_used.map(|used| total.saturating_sub(used));
            Memory { total, free, reclaimable: free, unified: false }
        }
        // GB10 has no memory of its own, so `nvidia-smi` reports none.
        None => Memory {
            total: system.memory_total,
            free: system.memory_free,
            reclaimable: Some(system.memory_available),
            unified: true,
        },
    })
}

/// The budget of each node that has a GPU, for the model in the head's folder, with what a release measured where one
/// was alike; an error says what is missing.
pub fn budgets(profile: &Profile, facts: &[NodeFacts]) -> Result<(Shape, Vec<(NodeName, Budget)>), String> {
    let folder = facts.first().and_then(|head| head.model.as_ref());
    let Some(folder) = folder else {
        return Err(format!("there is no folder `{}` on the head", profile.model.path));
    };
    let model = folder.content.as_ref().and_then(model);
    let (shape, weights) = model
        .ok_or_else(|| format!("`{}` has no config.json that could be read", profile.model.path))?
        .map_err(|error| error.to_string())?;
    let asked = Asked::of(profile, &shape);
    let each = |node: &NodeFacts| {
        let memory = memory(node)?;
        let measured = Measured::of(profile, facts, memory.total);
        Some((node.node.clone(), budget_with(&shape, weights.as_ref(), &asked, memory, measured)))
    };
    let budgets = facts.iter().filter_map(each).collect();
    Ok((shape, budgets))
}
