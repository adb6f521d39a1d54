//! What an engine says of its own start: how large the weights are, how much room the KV cache got.
//! Read from its log lines, kept with the release, and used for the next start's estimate.

use serde::{Deserialize, Serialize};

/// Figures of one start; those that the engine did not print are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineFigures {
    /// The engine's version, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// GiB that the model's weights take on the rank that takes most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_gib: Option<f64>,
    /// Seconds that reading the weights took on the slowest rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_seconds: Option<f64>,
    /// Seconds of compiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile_seconds: Option<f64>,
    /// GiB of the KV cache on the rank that has least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_gib: Option<f64>,
    /// Tokens that the KV cache holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_tokens: Option<u64>,
    /// GiB that the CUDA graphs take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphs_gib: Option<f64>,
}
