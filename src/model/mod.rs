//! A model: what its `config.json` and its safetensors headers say of it. Pure.
//!
//! [`config`] reads the file in the form that transformers writes, for many architectures; [`tensors`] reads the
//! headers of the weights; [`parsers`] names the right parsers of each engine for it. What it costs in memory is
//! `memory`'s business. Nothing is guessed in silence: what a file does not say stands in [`Shape::unknown`].

pub mod config;
pub mod hub;
mod layers;
pub mod manifest;
pub mod parsers;
mod quantization;
pub mod tensors;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use quantization::{Quantization, Scheme};

/// What `config.json` says of a model's language part. Numbers are as written there, never per rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Shape {
    /// First of `architectures`, e.g. `Qwen3MoeForCausalLM`.
    pub architecture: Option<String>,
    /// `model_type` of the file itself, e.g. `qwen3_5_moe`.
    pub model_type: Option<String>,
    /// What each layer keeps of the tokens it has seen, first layer first.
    pub layers: Vec<Mixer>,
    /// Attention heads: tensor parallelism has to divide them.
    pub attention_heads: Option<u64>,
    /// Width of the hidden states.
    pub hidden: Option<u64>,
    /// Width of the dense feed-forward layers.
    pub intermediate: Option<u64>,
    /// Routed experts, where the model has them.
    pub experts: Option<Experts>,
    /// Tokens of the vocabulary.
    pub vocabulary: Option<u64>,
    /// Longest context that the model was made for, in tokens.
    pub context: Option<u64>,
    /// Type of activations, and of the KV cache where nothing else is asked for.
    pub dtype: Option<Dtype>,
    /// Type of the recurrent states of linear attention and Mamba, where the file names one.
    pub state_dtype: Option<Dtype>,
    /// How the weights are quantised; `None`: they are not.
    pub quantization: Option<Quantization>,
    /// Layers that guess further tokens (multi-token prediction) in the same checkpoint.
    pub draft_layers: u64,
    /// Whether images, video or sound can come in.
    pub multimodal: bool,
    /// What the file does not say, or says in a way that is not known here; in words for people.
    pub unknown: Vec<String>,
}

impl Shape {
    /// Layers that keep something whose size is known.
    pub fn known_layers(&self) -> bool {
        !self.layers.is_empty() && !self.layers.iter().any(|layer| matches!(layer, Mixer::Unknown { .. }))
    }

    /// The KV heads of the attention layers; `None` where there are none, or where they differ.
    pub fn kv_heads(&self) -> Option<u64> {
        let mut heads = self.layers.iter().filter_map(|layer| match layer {
            Mixer::Attention { kv_heads, .. } => Some(*kv_heads),
            _ => None,
        });
        let first = heads.next()?;
        heads.all(|other| other == first).then_some(first)
    }
}

/// What a layer keeps of the tokens before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Mixer {
    /// Keys and values of each KV head, for all tokens or for the last `window`.
    Attention { kv_heads: u64, key: u64, value: u64, window: Option<u64> },
    /// One compressed vector for all heads (MLA), `rank` wide, with `rope` elements for the position. A sparse
    /// indexer keeps `index` further bytes-wide elements.
    Latent { rank: u64, rope: u64, index: Option<u64> },
    /// A state of fixed size (gated delta net), whatever the length.
    Linear { key_heads: u64, value_heads: u64, key: u64, value: u64, kernel: u64 },
    /// A state of fixed size (Mamba 2).
    Mamba { heads: u64, head: u64, state: u64, groups: u64, kernel: u64 },
    /// Nothing: a layer that looks at one token only.
    Nothing,
    /// It keeps something, and its size is not known here.
    Unknown { what: String },
}

/// Routed experts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Experts {
    pub count: u64,
    /// Experts that see a token.
    pub active: Option<u64>,
    /// Width of one expert.
    pub intermediate: Option<u64>,
}

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    Float32,
    Bfloat16,
    Float16,
    Float8,
}

impl Dtype {
    /// By the names of torch, with or without `torch.` in front.
    pub fn named(name: &str) -> Option<Self> {
        match name.strip_prefix("torch.").unwrap_or(name) {
            "float32" | "float" => Some(Self::Float32),
            "bfloat16" => Some(Self::Bfloat16),
            "float16" | "half" => Some(Self::Float16),
            name if name.starts_with("float8") || name.starts_with("fp8") => Some(Self::Float8),
            _ => None,
        }
    }

    /// Bytes of one number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Float32 => 4,
            Self::Bfloat16 | Self::Float16 => 2,
            Self::Float8 => 1,
        }
    }
}
