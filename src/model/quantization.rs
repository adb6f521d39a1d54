//! How weights are quantised, from `quantization_config` (or `compression_config`) of `config.json`.
//!
//! Only what memory and launch need: the scheme, the block of block-wise scales, and whether the checkpoint asks for
//! a KV cache of eight bits. Which layers are left out is seen in the safetensors headers.

use serde::Serialize;
use serde_json::Value;

/// The quantisation of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quantization {
    /// `quant_method` as written, e.g. `fp8`, `modelopt`, `compressed-tensors`.
    pub method: String,
    pub scheme: Scheme,
    /// Rows and columns that share a scale, e.g. 128 and 128: the part of a rank has to be a multiple of it.
    pub block: Option<(u64, u64)>,
    /// Whether the checkpoint itself asks for an FP8 KV cache.
    pub fp8_cache: bool,
}

/// The form of the bulk of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    Fp8,
    Mxfp4,
    Nvfp4,
    Int8,
    Int4,
    /// Named, and not known here.
    Other,
}

/// Reads the configuration of a quantisation; `None` where there is none.
pub(super) fn read(config: &Value) -> Option<Quantization> {
    let config = config.as_object()?;
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let method = match text("quant_method") {
        method if !method.is_empty() => method,
        _ if config.contains_key("quant_algo") => "modelopt".to_owned(),
        _ => return None,
    };
    let algorithm = text("quant_algo");
    let scheme = match method.as_str() {
        "fp8" | "fbgemm_fp8" => Scheme::Fp8,
        "mxfp4" => Scheme::Mxfp4,
        _ if algorithm.contains("nvfp4") || algorithm.contains("mixed") => Scheme::Nvfp4,
        _ if algorithm.contains("fp8") => Scheme::Fp8,
        "modelopt_fp4" => Scheme::Nvfp4,
        "awq" | "gptq" | "auto-round" | "awq_marlin" | "gptq_marlin" => match number(config.get("bits")) {
            Some(8) => Scheme::Int8,
            Some(4) | None => Scheme::Int4,
            Some(_) => Scheme::Other,
        },
        "compressed-tensors" | "modelopt" => groups(config.get("config_groups")),
        _ => Scheme::Other,
    };
    let block = config.get("weight_block_size").and_then(Value::as_array).and_then(|sizes| {
        Some((number(sizes.first())?, number(sizes.get(1))?))
            .filter(|(rows, columns)| *rows > 0 && *columns > 0)
    });
    let cache = config.get("kv_cache_scheme").filter(|scheme| !scheme.is_null());
    let fp8_cache = text("kv_cache_quant_algo").contains("fp8")
        || cache.is_some_and(|scheme| number(scheme.get("num_bits")) == Some(8));
    Some(Quantization { method, scheme, block, fp8_cache })
}

/// The scheme of the first group: number of bits and whether they are a float.
fn groups(groups: Option<&Value>) -> Scheme {
    let weights = groups
        .and_then(Value::as_object)
        .and_then(|groups| groups.values().find_map(|group| group.get("weights")));
    let Some(weights) = weights else { return Scheme::Other };
    let float = weights.get("type").and_then(Value::as_str) == Some("float");
    match (number(weights.get("num_bits")), float) {
        (Some(8), true) => Scheme::Fp8,
        (Some(8), false) => Scheme::Int8,
        (Some(4), true) => Scheme::Nvfp4,
        (Some(4), false) => Scheme::Int4,
        _ => Scheme::Other,
    }
}

fn number(value: Option<&Value>) -> Option<u64> {
    value.and_then(Value::as_u64)
}
