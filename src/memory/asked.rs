//! What a profile asks of the memory: how the model is cut, how long and how many its requests are.

use serde::Serialize;

use crate::model::{Dtype, Shape};
use crate::profile::{EngineKind, Profile};

/// Type of the numbers in the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheType {
    Float32,
    /// Sixteen bits, of either kind.
    Sixteen,
    /// Eight bits, of any kind.
    Eight,
    /// Four bits with a scale of eight bits for each sixteen numbers.
    Nvfp4,
}

impl CacheType {
    /// Bytes of `numbers` numbers of one head.
    pub fn bytes(self, numbers: u64) -> u64 {
        match self {
            Self::Float32 => numbers * 4,
            Self::Sixteen => numbers * 2,
            Self::Eight => numbers,
            Self::Nvfp4 => numbers / 2 + numbers / 16,
        }
    }

    fn of(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Float32 => Self::Float32,
            Dtype::Bfloat16 | Dtype::Float16 => Self::Sixteen,
            Dtype::Float8 => Self::Eight,
        }
    }
}

/// What is asked of the memory of each rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "switches that have nothing to do with each other")]
pub struct Asked {
    pub engine: EngineKind,
    /// GPUs that share each layer.
    pub tensor: u64,
    /// Stages.
    pub pipeline: u64,
    pub expert_parallel: bool,
    /// Part of a GPU's memory that the engine may take.
    pub fraction: f64,
    /// Longest context.
    pub context: u64,
    /// The longest that the engine takes at all: what the model is made for, unless the profile lifts that.
    pub limit: u64,
    /// Requests at once.
    pub requests: u64,
    /// Tokens that one step computes at most: it sizes the activations.
    pub batched: u64,
    pub cache: CacheType,
    /// Bytes of the KV cache that are fixed by an argument, instead of what is left.
    pub cache_bytes: Option<u64>,
    /// Type of the recurrent states.
    pub state: Dtype,
    /// Type of what goes into the convolutions of the recurrent layers.
    pub conv: Dtype,
    /// Whether prompts that begin alike share their cache: each request then keeps two states instead of one.
    pub prefix_caching: bool,
    /// Tokens that are guessed at a time; 0: none.
    pub draft_tokens: u64,
    /// Whether the model's own further layers guess them.
    pub own_drafts: bool,
    /// Whether CUDA graphs are captured.
    pub graphs: bool,
    /// What the profile leaves open, and what is assumed for it; in words for people.
    pub assumed: Vec<String>,
}

/// vLLM's own default since 0.20, from its source: 0.92; 0.90 before.
const VLLM_FRACTION: f64 = 0.92;
/// SGLang computes its default from many things; on a GPU of this size it leaves about an eighth.
const SGLANG_FRACTION: f64 = 0.87;
/// vLLM's default on GPUs of 70 GiB and more: 8192 (2048 below, and on GB10 from 0.33 on).
const BATCHED: u64 = 8192;
/// The usual default for requests at once.
const REQUESTS: u64 = 256;

impl Asked {
    /// What `profile` asks for a model of this shape.
    pub fn of(profile: &Profile, shape: &Shape) -> Self {
        let engine = &profile.engine;
        let mut assumed = Vec::new();
        let dtype = shape.dtype.unwrap_or(Dtype::Bfloat16);
        let fraction = engine.memory_fraction.unwrap_or_else(|| {
            let default = match engine.kind {
                EngineKind::Vllm => VLLM_FRACTION,
                EngineKind::Sglang => SGLANG_FRACTION,
            };
            assumed.push(format!("`engine.memory_fraction` is left to the engine: counted as {default}"));
            default
        });
        let context = engine.context_length.map(u64::from).or(shape.context).unwrap_or_else(|| {
            assumed.push("no context length is known: counted as 8192 tokens".to_owned());
            8192
        });
        let limit = match shape.context {
            Some(own) if !lifts_limit(profile) => own,
            own => own.unwrap_or(context).max(context),
        };
        let batched = argument(&engine.args, &["--max-num-batched-tokens", "--chunked-prefill-size"])
            .and_then(|text| text.parse().ok())
            .filter(|tokens| (1..=1 << 24).contains(tokens))
            .unwrap_or(BATCHED);
        let speculative = engine.speculative.as_ref();
        let own = |method: &str| {
            method == "mtp" || method.ends_with("_mtp") || method.eq_ignore_ascii_case("nextn")
        };
        Self {
            engine: engine.kind,
            tensor: u64::from(engine.tensor_parallel.max(1)),
            pipeline: u64::from(engine.pipeline_parallel.max(1)),
            expert_parallel: engine.expert_parallel,
            fraction,
            context,
            limit,
            requests: engine.max_requests.map_or(REQUESTS, u64::from),
            batched,
            cache: cache_type(profile, shape, dtype, &mut assumed),
            cache_bytes: argument(&engine.args, &["--kv-cache-memory-bytes", "--kv-cache-memory"])
                .and_then(|text| text.parse().ok()),
            state: argument(&engine.args, &["--mamba-ssm-cache-dtype", "--mamba-ssm-dtype"])
                .and_then(Dtype::named)
                .or(shape.state_dtype)
                // vLLM takes the model's type where nothing else is said, SGLang 32 bits.
                .unwrap_or(if engine.kind == EngineKind::Vllm { dtype } else { Dtype::Float32 }),
            conv: dtype,
            prefix_caching: engine.prefix_caching != Some(false),
            draft_tokens: speculative.map_or(0, |speculative| u64::from(speculative.tokens)),
            own_drafts: speculative.is_some_and(|it| {
                own(&it.method) || (it.model.is_none() && it.method.eq_ignore_ascii_case("eagle"))
            }),
            graphs: !engine.args.iter().any(|arg| arg == "--enforce-eager" || arg == "--disable-cuda-graph"),
            assumed,
        }
    }
}

/// Whether the profile lets the engine go beyond the context that the model is made for.
pub fn lifts_limit(profile: &Profile) -> bool {
    /// Each makes another limit of the model's configuration, as `--rope-scaling` does.
    const FLAGS: &[&str] =
        &["--hf-overrides", "--rope-scaling", "--json-model-override-args", "--hf-config-path"];
    /// The engines' own switches for it.
    const NAMES: &[&str] = &["VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"];
    let engine = &profile.engine;
    let overrides = |arg: &String| {
        let flag = arg.split(['=', '.']).next().unwrap_or_default().replace('_', "-");
        FLAGS.contains(&flag.as_str())
    };
    engine.args.iter().any(overrides) || NAMES.iter().any(|name| engine.env.contains_key(*name))
}

fn cache_type(profile: &Profile, shape: &Shape, dtype: Dtype, assumed: &mut Vec<String>) -> CacheType {
    let own = || {
        let eight = shape.quantization.as_ref().is_some_and(|quantization| quantization.fp8_cache);
        if eight { CacheType::Eight } else { CacheType::of(dtype) }
    };
    match profile.engine.kv_cache_type.as_deref() {
        None | Some("auto") => own(),
        Some(name) if name.starts_with("fp8") || name.starts_with("int8") => CacheType::Eight,
        Some("nvfp4") => CacheType::Nvfp4,
        Some(name) => Dtype::named(name).map_or_else(
            || {
                assumed.push(format!("`engine.kv_cache_type: {name}` is not known here: counted as 16 bits"));
                CacheType::Sixteen
            },
            CacheType::of,
        ),
    }
}

/// The value of the first of `flags` in a list of arguments, written as one word or as two.
fn argument<'a>(args: &'a [String], flags: &[&str]) -> Option<&'a str> {
    args.iter().enumerate().find_map(|(index, arg)| match arg.split_once('=') {
        Some((flag, value)) if flags.contains(&flag) => Some(value),
        _ if flags.contains(&arg.as_str()) => args.get(index + 1).map(String::as_str),
        _ => None,
    })
}
