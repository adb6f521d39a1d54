//! The budget of one rank: what it needs, what it may take, and what follows for context, requests and fraction.

use serde::Serialize;

use super::asked::Asked;
use super::cache::Pool;
use super::measured::Measured;
use super::{GIB, part, weights};
use crate::model::Shape;
use crate::model::tensors::Weights;
use crate::profile::EngineKind;

/// The memory of a node's GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Bytes that CUDA sees in all.
    pub total: u64,
    /// Bytes that CUDA calls free now; `None`: not asked. On unified memory it is the kernel's `MemFree`, in which the
    /// page cache counts as used.
    pub free: Option<u64>,
    /// Bytes that would be free without the page cache (`MemAvailable`); the same as `free` on a GPU with its own.
    pub reclaimable: Option<u64>,
    /// Whether the GPU shares the memory of the system.
    pub unified: bool,
}

impl Memory {
    /// A DGX Spark with nothing running on it, for questions without nodes.
    pub fn spark() -> Self {
        Self { total: super::SPARK, free: None, reclaimable: None, unified: true }
    }
}

/// What is needed besides weights and cache, in bytes. None of it is in any file: these are allowances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Allowance {
    /// Results between layers, of the largest step.
    pub activations: u64,
    /// CUDA graphs.
    pub graphs: u64,
    /// CUDA itself, and NCCL where ranks talk.
    pub communication: u64,
}

impl Allowance {
    /// All of it.
    pub fn sum(self) -> u64 {
        self.activations + self.graphs + self.communication
    }
}

/// Whether it fits, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// With bytes to spare for further requests.
    Fits { spare: u64 },
    /// It lacks bytes only if what is counted for activations, graphs and NCCL is right; it may start.
    Unsure { lacking: u64 },
    /// It lacks bytes even with nothing at all for activations, graphs and NCCL.
    TooBig { lacking: u64 },
    /// The context is longer than the `limit` that the model is made for, so the engine refuses to start.
    TooLong { limit: u64 },
    /// What the model's files say is not enough to tell.
    NotEstimated,
}

/// One rank's memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    pub memory: Memory,
    pub fraction: f64,
    /// What the engine may take.
    pub limit: u64,
    /// As a release measured it, else as estimated; `None` where the size of the model is not known.
    pub weights: Option<u64>,
    /// Activations, graphs, CUDA and NCCL: as a release measured it, else the sum of what is allowed for them.
    pub beside: u64,
    /// By the model's files.
    pub weights_estimated: Option<u64>,
    pub allowance: Allowance,
    /// What a release of the same model, image and cut took.
    pub measured: Option<Measured>,
    /// Cache of one request of the whole context; `None` where the model's layers are not known.
    pub request: Option<u64>,
    /// What is left for the cache; 0 where nothing is.
    pub cache: Option<u64>,
    /// Growth of the cache with each token of a request.
    pub per_token: Option<u64>,
    /// Bytes of a request that do not grow with it.
    pub per_request: Option<u64>,
    /// Tokens in all, counted as the engine's start-up line does.
    pub tokens: Option<u64>,
    /// The longest context of a single request, and of each of `requests`.
    pub longest: Vec<Longest>,
    /// How many requests of the whole context fit, in hundredths.
    pub concurrency: Option<u64>,
    /// The largest fraction, in hundredths, that passes the engine's check of free memory at its start: now, and with
    /// the page cache dropped.
    pub largest_fraction: Option<[u64; 2]>,
    pub verdict: Verdict,
    /// What is not known of the model, and what was assumed.
    pub notes: Vec<String>,
}

impl Budget {
    /// Whether another differs in nothing but what is free now.
    pub fn is_like(&self, other: &Self) -> bool {
        let still = |budget: &Self| Self {
            memory: Memory { free: None, reclaimable: None, ..budget.memory },
            largest_fraction: None,
            ..budget.clone()
        };
        still(self) == still(other)
    }
}

/// The longest context at a number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Longest {
    pub requests: u64,
    pub context: u64,
}

/// The budget of the fullest rank on a node of this memory, as estimated. `sizes` is `None` where those of the weights
/// are not known.
pub fn budget(shape: &Shape, sizes: Option<&Weights>, asked: &Asked, memory: Memory) -> Budget {
    budget_with(shape, sizes, asked, memory, None)
}

/// The same, where what was `measured` holds instead of an estimate.
pub fn budget_with(
    shape: &Shape,
    sizes: Option<&Weights>,
    asked: &Asked,
    memory: Memory,
    measured: Option<Measured>,
) -> Budget {
    // A cache of fixed size is taken whatever the fraction says.
    let limit = if asked.cache_bytes.is_some() { memory.total } else { part(memory.total, asked.fraction) };
    let estimated = sizes.filter(|sizes| sizes.total > 0).map(|sizes| weights::per_rank(shape, sizes, asked));
    let allowance = allowance(shape, asked, estimated);
    let weights = measured.map(|measured| measured.weights).or(estimated);
    let beside = measured.and_then(|measured| measured.beside).unwrap_or_else(|| allowance.sum());
    let pools = Pool::of(shape, asked);
    let mut notes = asked.assumed.clone();
    if weights.is_none() {
        notes.push("the size of the weights is not known, so whether they fit is not estimated".to_owned());
    } else if measured.is_none() && sizes.is_some_and(|sizes| sizes.tensors.is_empty()) {
        notes
            .push("only the sum of the weights is known: counted as if all of it were cut evenly".to_owned());
    }
    let pools = pools.unwrap_or_else(|what| {
        notes.push(format!("the cache is not estimated: {what}"));
        Vec::new()
    });
    notes.extend(shape.unknown.iter().filter(|what| !what.starts_with("the size of a layer")).cloned());

    // SGLang's fraction holds weights and cache; vLLM's holds everything.
    if asked.engine == EngineKind::Sglang {
        notes.push(
            "the part is for weights and cache: SGLang takes activations, graphs and NCCL from the rest"
                .to_owned(),
        );
    }
    let within = if asked.engine == EngineKind::Vllm { beside } else { 0 };
    let taken = weights.map(|weights| weights.saturating_add(within));
    let cache = match (asked.cache_bytes, taken) {
        (Some(bytes), _) => Some(bytes),
        (None, Some(taken)) if !pools.is_empty() => Some(limit.saturating_sub(taken)),
        _ => None,
    };
    let least = |value: &dyn Fn(&Pool) -> u64| pools.iter().map(value).min();
    let most = |value: &dyn Fn(&Pool) -> u64| pools.iter().map(value).max();
    let request = most(&|pool| pool.bytes(asked.context, 1));
    let with = |value: &dyn Fn(&Pool, u64) -> u64| cache.and_then(|cache| least(&|pool| value(pool, cache)));
    let longest = [1, 2, 4, 8, 16]
        .into_iter()
        .filter_map(|requests| {
            let context = with(&|pool, cache| pool.longest(cache, requests, asked.limit))?;
            Some(Longest { requests, context })
        })
        .collect();
    Budget {
        memory,
        fraction: asked.fraction,
        limit,
        weights,
        beside,
        weights_estimated: estimated,
        allowance,
        measured,
        request,
        cache,
        per_token: most(&Pool::per_token),
        per_request: most(&Pool::fixed),
        tokens: with(&|pool, cache| pool.tokens(cache, asked.context)),
        longest,
        concurrency: with(&|pool, cache| pool.hundredths(cache, asked.context)),
        largest_fraction: largest_fraction(memory),
        verdict: verdict(memory.total, weights, request, beside, limit, asked),
        notes,
    }
}

fn verdict(
    total: u64,
    weights: Option<u64>,
    request: Option<u64>,
    beside: u64,
    limit: u64,
    asked: &Asked,
) -> Verdict {
    let too_long = (asked.context > asked.limit).then_some(Verdict::TooLong { limit: asked.limit });
    let Some(weights) = weights else { return too_long.unwrap_or(Verdict::NotEstimated) };
    if let (Some(fixed), Some(request)) = (asked.cache_bytes, request)
        && request > fixed
    {
        return Verdict::TooBig { lacking: request - fixed };
    }
    let cache = asked.cache_bytes.or(request);
    let sure = weights.saturating_add(cache.unwrap_or(0));
    if sure > limit {
        return Verdict::TooBig { lacking: sure - limit };
    }
    if let Some(too_long) = too_long {
        return too_long;
    }
    if cache.is_none() {
        return Verdict::NotEstimated;
    }
    // SGLang takes what is allowed for from beside its part.
    let further = match asked.engine {
        EngineKind::Vllm => beside,
        EngineKind::Sglang => beside.saturating_sub(total.saturating_sub(limit)),
    };
    let likely = sure.saturating_add(further);
    if likely > limit {
        Verdict::Unsure { lacking: likely - limit }
    } else {
        Verdict::Fits { spare: limit - likely }
    }
}

/// vLLM refuses to start where less is free than `fraction` of the total: so the largest that passes, rounded down.
fn largest_fraction(memory: Memory) -> Option<[u64; 2]> {
    let hundredths = |free: u64| free.min(memory.total).saturating_mul(100).checked_div(memory.total);
    let dropped = memory.reclaimable.or(memory.free)?;
    Some([hundredths(memory.free.unwrap_or(dropped))?, hundredths(dropped)?])
}

/// See `docs/memory.md` for where the numbers come from, and how far off they may be.
fn allowance(shape: &Shape, asked: &Asked, weights: Option<u64>) -> Allowance {
    // What is usual for models of many gigabytes; a small one needs no more than it weighs.
    let usual = |bytes: u64| weights.map_or(bytes, |weights| weights.min(bytes));
    let hidden = shape.hidden.unwrap_or(4096);
    let feed_forward = match &shape.experts {
        Some(experts) => {
            let width = experts.intermediate.unwrap_or(hidden).div_ceil(asked.tensor);
            experts.active.unwrap_or(8).saturating_mul(hidden + 2 * width)
        }
        None => 2 * shape.intermediate.unwrap_or(4 * hidden).div_ceil(asked.tensor),
    };
    let step = asked.batched.saturating_mul(12 * hidden + feed_forward).saturating_mul(2);
    // The sampler's scores, in 32 bits, twice.
    let scores = asked.requests.min(asked.batched).saturating_mul(shape.vocabulary.unwrap_or(0)) * 8;
    let drafts = 1 + u64::from(asked.draft_tokens > 0);
    Allowance {
        activations: step.saturating_add(scores).min(16 * GIB).max(usual(GIB)),
        graphs: if asked.graphs { usual(GIB * drafts) } else { 0 },
        communication: usual(GIB / 2 + if asked.tensor * asked.pipeline > 1 { GIB } else { 0 }),
    }
}
