//! The bytes of weights that the fullest rank holds.
//!
//! Tensor parallelism cuts nearly every matrix; what is not cut (routers, norms, the down-projections of latent
//! attention, KV projections with fewer heads than GPUs) is on every GPU. Pipeline stages hold their own layers, the
//! first also the embedding, the last the head. Layers that guess further tokens are only loaded where they are used.

use super::asked::Asked;
use crate::model::tensors::{Tensor, Weights, only_guesses};
use crate::model::{Mixer, Scheme, Shape};

/// Bytes of weights on the fullest rank.
pub fn per_rank(shape: &Shape, weights: &Weights, asked: &Asked) -> u64 {
    let cut = if weights.tensors.is_empty() {
        let drafts = if asked.own_drafts { 0 } else { weights.drafts };
        weights.total.saturating_sub(drafts).div_ceil(asked.tensor * asked.pipeline)
    } else {
        by_tensors(shape, weights, asked)
    };
    cut.saturating_add(padding(shape, asked))
}

fn by_tensors(shape: &Shape, weights: &Weights, asked: &Asked) -> u64 {
    let stages = stages(shape.layers.len() as u64, asked.pipeline);
    let mut bytes = vec![0_u64; stages.len()];
    for tensor in &weights.tensors {
        let own = if is_draft(&tensor.name, shape) {
            if !asked.own_drafts {
                continue;
            }
            stages.len() - 1
        } else {
            stage(&tensor.name, &stages)
        };
        bytes[own] = bytes[own].saturating_add(share(tensor, shape, asked));
    }
    bytes.into_iter().max().unwrap_or(0)
}

/// The layers of each stage, as first and last but one, by vLLM's rule: what does not divide goes to the later
/// stages, but not to the last.
pub(super) fn stages(layers: u64, count: u64) -> Vec<(u64, u64)> {
    let (each, rest) = (layers / count, layers % count);
    let mut begin = 0;
    (0..count)
        .map(|index| {
            // The `rest` stages before the last one take one more each.
            let more = u64::from(index + 1 < count && index + 1 + rest >= count);
            let end = if index + 1 == count { layers } else { begin + each + more };
            let stage = (begin, end);
            begin = end;
            stage
        })
        .collect()
}

/// The stage that loads a tensor.
fn stage(name: &str, stages: &[(u64, u64)]) -> usize {
    let last = stages.len() - 1;
    match layer_of(name) {
        Some(layer) => stages.iter().position(|(begin, end)| (*begin..*end).contains(&layer)).unwrap_or(last),
        None if name.contains("lm_head") || name.ends_with("model.norm.weight") => last,
        None => 0,
    }
}

/// The number of the language model's layer that a tensor belongs to.
fn layer_of(name: &str) -> Option<u64> {
    const OTHER: &[&str] = &["visual", "vision", "audio", "encoder"];
    if OTHER.iter().any(|part| name.contains(part)) {
        return None;
    }
    let (_, rest) = name.split_once("layers.")?;
    rest.split('.').next()?.parse().ok()
}

/// Whether a tensor belongs to layers that guess further tokens: named so, or numbered past the model's own layers.
fn is_draft(name: &str, shape: &Shape) -> bool {
    only_guesses(name)
        || (shape.draft_layers > 0
            && layer_of(name)
                .is_some_and(|layer| !shape.layers.is_empty() && layer >= shape.layers.len() as u64))
}

/// The bytes of a tensor that one GPU of its stage holds.
fn share(tensor: &Tensor, shape: &Shape, asked: &Asked) -> u64 {
    const WHOLE: &[&str] = &[
        ".gate.weight",
        ".router.weight",
        ".router.bias",
        ".shared_expert_gate.weight",
        ".q_a_proj.",
        ".kv_a_proj_with_mqa.",
        ".indexer.",
        ".fc1_latent_proj.",
        ".fc2_latent_proj.",
    ];
    if asked.tensor == 1 || tensor.dimensions <= 1 || WHOLE.iter().any(|part| tensor.name.contains(part)) {
        return tensor.bytes;
    }
    if tensor.name.contains(".k_proj.") || tensor.name.contains(".v_proj.") {
        let heads = shape.kv_heads().unwrap_or(asked.tensor).max(1);
        return tensor.bytes.div_ceil(heads).saturating_mul(heads.div_ceil(asked.tensor));
    }
    tensor.bytes.div_ceil(asked.tensor)
}

/// What vLLM's kernels add to experts in MXFP4: the hidden width is filled up to a multiple of 256, each rank's part
/// of an expert to a multiple of 128. A number takes 17/32 of a byte: four bits, and eight for each 32 as a scale.
fn padding(shape: &Shape, asked: &Asked) -> u64 {
    let (Some(quantization), Some(experts), Some(hidden)) =
        (&shape.quantization, &shape.experts, shape.hidden)
    else {
        return 0;
    };
    let Some(width) = experts.intermediate.filter(|_| quantization.scheme == Scheme::Mxfp4) else { return 0 };
    let (count, width) = if asked.expert_parallel {
        (experts.count.div_ceil(asked.tensor), width)
    } else {
        (experts.count, width.div_ceil(asked.tensor))
    };
    let more = u128::from(hidden.next_multiple_of(256)) * u128::from(width.next_multiple_of(128))
        - u128::from(hidden) * u128::from(width);
    let layers = shape.layers.iter().filter(|layer| **layer != Mixer::Nothing).count() as u64;
    let layers = layers.div_ceil(asked.pipeline);
    let bytes = more * u128::from(count) * 3 * u128::from(layers) * 17 / 32;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
