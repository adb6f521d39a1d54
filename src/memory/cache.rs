//! The KV cache and the states of one rank, as the engines allot them.
//!
//! vLLM cuts its cache into blocks of one size. Layers of a kind form groups of equal length; a block is one page in
//! each layer of a group, so a request takes, of every group, as many blocks as that kind needs: one for each
//! `block` tokens, only those of the last window, or a fixed number for a state. Where a model has states, attention
//! pages are made as large as a state, so blocks become hundreds to thousands of tokens long.
//!
//! SGLang has a pool of tokens; states have a part of it of their own.

use std::collections::BTreeMap;

use super::asked::{Asked, CacheType};
use super::weights;
use crate::model::{Dtype, Mixer, Shape};
use crate::profile::EngineKind;

/// Tokens of a block, where no state asks for more. Also what a longer block has to be a multiple of.
const BLOCK: u64 = 16;

/// How one rank's cache is cut.
#[derive(Debug, Clone, PartialEq)]
pub enum Pool {
    /// vLLM's blocks.
    Blocks { block_bytes: u64, groups: Vec<Group>, batched: u64 },
    /// SGLang's tokens and states.
    Tokens { token_bytes: u64, state_bytes: u64, states: u64 },
}

/// Groups of layers of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub count: u64,
    pub need: Need,
}

/// Blocks that one request needs of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// One for each `block` tokens.
    All { block: u64 },
    /// Those of the last `window` tokens and of the step under way.
    Window { block: u64, window: u64 },
    /// So many, whatever the length.
    Fixed { blocks: u64 },
}

impl Pool {
    /// The pool of a rank of the stage that has the least room for tokens; an error says what is not known.
    pub fn of(shape: &Shape, asked: &Asked) -> Result<Vec<Self>, String> {
        if !shape.known_layers() {
            return Err(shape.unknown.first().cloned().unwrap_or_else(|| "the model's layers".to_owned()));
        }
        let stages = weights::stages(shape.layers.len() as u64, asked.pipeline);
        let last = stages.len() - 1;
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(shape.layers.len());
        let pools = stages.iter().enumerate().map(|(number, (begin, end))| {
            let mut kinds: BTreeMap<&Mixer, u64> = BTreeMap::new();
            for layer in &shape.layers[index(*begin)..index(*end)] {
                *kinds.entry(layer).or_default() += 1;
            }
            if asked.own_drafts && number == last {
                // The layers that guess keep keys and values as the model's own attention does.
                let full = |kind: &&Mixer| is_full(kind);
                if let Some(kind) = shape.layers.iter().find(full) {
                    *kinds.entry(kind).or_default() += shape.draft_layers;
                }
            }
            kinds.remove(&Mixer::Nothing);
            Self::of_kinds(&kinds, asked)
        });
        Ok(pools.collect())
    }

    fn of_kinds(kinds: &BTreeMap<&Mixer, u64>, asked: &Asked) -> Self {
        match asked.engine {
            EngineKind::Vllm => blocks(kinds, asked),
            EngineKind::Sglang => tokens(kinds, asked),
        }
    }

    /// Bytes that `requests` of `context` tokens need.
    pub fn bytes(&self, context: u64, requests: u64) -> u64 {
        match self {
            Self::Blocks { block_bytes, .. } => product([self.blocks_of(context), *block_bytes, requests]),
            Self::Tokens { token_bytes, state_bytes, states } => product([*token_bytes, context, requests])
                .saturating_add(product([*state_bytes, *states, requests])),
        }
    }

    /// Blocks that one request of `context` tokens takes.
    fn blocks_of(&self, context: u64) -> u64 {
        let Self::Blocks { groups, batched, .. } = self else { return 0 };
        groups.iter().fold(0, |sum: u64, group| {
            let blocks = match group.need {
                Need::All { block } => context.div_ceil(block),
                // One more, as a window seldom begins where a block does.
                Need::Window { block, window } => {
                    (window - 1).saturating_add(*batched).min(context).div_ceil(block) + 1
                }
                Need::Fixed { blocks } => blocks,
            };
            sum.saturating_add(blocks.saturating_mul(group.count))
        })
    }

    /// Requests of `context` tokens that `bytes` hold, in whole and in hundredths: 208 blocks for 90 are 231.
    pub fn hundredths(&self, bytes: u64, context: u64) -> u64 {
        match self {
            Self::Blocks { block_bytes, .. } => {
                let each = self.blocks_of(context).max(1);
                bytes.checked_div(*block_bytes).unwrap_or(0).saturating_mul(100) / each
            }
            Self::Tokens { .. } => {
                let each = self.bytes(context, 1).max(1);
                u64::try_from(u128::from(bytes) * 100 / u128::from(each)).unwrap_or(u64::MAX)
            }
        }
    }

    /// Tokens that `bytes` hold, counted as the engine's start-up line counts them: in requests of `context` tokens.
    pub fn tokens(&self, bytes: u64, context: u64) -> u64 {
        match self {
            Self::Blocks { block_bytes, .. } => {
                let each = u128::from(self.blocks_of(context).max(1));
                let blocks = u128::from(bytes.checked_div(*block_bytes).unwrap_or(0));
                u64::try_from(blocks * u128::from(context) / each).unwrap_or(u64::MAX)
            }
            Self::Tokens { token_bytes, state_bytes, .. } => {
                // The share that states have where there are some: `--mamba-full-memory-ratio` 0.9, so 9 of 19 parts.
                let rest = if *state_bytes > 0 { bytes / 19 * 10 } else { bytes };
                rest.checked_div(*token_bytes).unwrap_or(0)
            }
        }
    }

    /// The longest context, up to `most`, of which `bytes` hold `requests`; 0: none.
    pub fn longest(&self, bytes: u64, requests: u64, most: u64) -> u64 {
        let (mut fits, mut fails) = (0, most.saturating_add(1));
        while fits + 1 < fails {
            let middle = fits + (fails - fits) / 2;
            if self.bytes(middle, requests) <= bytes {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        fits
    }

    /// Bytes by which the cache grows with each token of a long request.
    pub fn per_token(&self) -> u64 {
        match self {
            Self::Blocks { block_bytes, groups, .. } => {
                groups.iter().fold(0, |sum: u64, group| match group.need {
                    Need::All { block } => sum.saturating_add(product([*block_bytes, group.count]) / block),
                    _ => sum,
                })
            }
            Self::Tokens { token_bytes, .. } => *token_bytes,
        }
    }

    /// Bytes of a request that do not grow with it: states, and the pages of windows.
    pub fn fixed(&self) -> u64 {
        match self {
            Self::Blocks { block_bytes, groups, batched } => groups.iter().fold(0, |sum: u64, group| {
                let blocks = match group.need {
                    Need::All { .. } => 0,
                    Need::Window { block, window } => {
                        (window - 1).saturating_add(*batched).div_ceil(block) + 1
                    }
                    Need::Fixed { blocks } => blocks,
                };
                sum.saturating_add(product([*block_bytes, blocks, group.count]))
            }),
            Self::Tokens { state_bytes, states, .. } => product([*state_bytes, *states]),
        }
    }
}

fn is_full(kind: &Mixer) -> bool {
    matches!(kind, Mixer::Attention { window: None, .. } | Mixer::Latent { .. })
}

/// vLLM's groups and blocks.
fn blocks(kinds: &BTreeMap<&Mixer, u64>, asked: &Asked) -> Pool {
    let batched = asked.batched;
    let token = |kind: &Mixer| per_token(kind, asked);
    // Attention over all tokens, whatever its shape, is one group whose block is the sum of its layers' pages.
    if kinds.keys().all(|kind| is_full(kind)) {
        let bytes = kinds
            .iter()
            .fold(0, |sum: u64, (kind, count)| sum.saturating_add(product([token(kind), *count])));
        let groups = vec![Group { count: 1, need: Need::All { block: BLOCK } }];
        return Pool::Blocks { block_bytes: product([bytes, BLOCK]), groups, batched };
    }
    let widest = kinds.keys().map(|kind| token(kind)).max().unwrap_or(0);
    let state = kinds.keys().map(|kind| state(kind, asked)).max().unwrap_or(0);
    // A page holds a state, or sixteen tokens of the widest attention.
    let long = state.div_ceil(widest.max(1)).max(1).next_multiple_of(BLOCK);
    let page = if widest > 0 { product([long, widest]) } else { state };
    let (fewest, most) =
        (kinds.values().min().copied().unwrap_or(1), kinds.values().max().copied().unwrap_or(1));
    // Where the kinds are nearly as many, a few pages are left empty instead of making more groups.
    let length = if most * 2 < fewest * 3 { most } else { fewest };
    let groups = kinds
        .iter()
        .map(|(kind, count)| {
            let block = if token(kind) > 0 && widest.is_multiple_of(token(kind)) {
                product([long, widest / token(kind)])
            } else {
                long
            };
            let need = match kind {
                Mixer::Attention { window: Some(window), .. } => Need::Window { block, window: *window },
                kind if is_full(kind) => Need::All { block },
                // Two where prompts share their cache: the one at a block's border, and the one that runs on.
                _ => Need::Fixed { blocks: states(asked) },
            };
            Group { count: count.div_ceil(length), need }
        })
        .collect();
    Pool::Blocks { block_bytes: product([page, length]), groups, batched }
}

/// SGLang's pool. Windowed layers have room for 80 % of the tokens (`--swa-full-tokens-ratio`).
fn tokens(kinds: &BTreeMap<&Mixer, u64>, asked: &Asked) -> Pool {
    let (mut full, mut windowed, mut state_bytes) = (0_u64, 0_u64, 0_u64);
    for (kind, count) in kinds {
        let sum = product([per_token(kind, asked), *count]);
        match kind {
            kind if is_full(kind) => full = full.saturating_add(sum),
            Mixer::Attention { .. } => windowed = windowed.saturating_add(sum),
            kind => state_bytes = state_bytes.saturating_add(product([state(kind, asked), *count])),
        }
    }
    let token_bytes = full.saturating_add(if full > 0 { windowed / 5 * 4 } else { windowed });
    Pool::Tokens { token_bytes, state_bytes, states: 1 + asked.draft_tokens }
}

/// States that a request keeps in each layer that has them.
fn states(asked: &Asked) -> u64 {
    1 + u64::from(asked.prefix_caching) + asked.draft_tokens
}

/// Bytes that a layer keeps of each token on one rank.
fn per_token(kind: &Mixer, asked: &Asked) -> u64 {
    match kind {
        Mixer::Attention { kv_heads, key, value, .. } => {
            let heads = kv_heads.div_ceil(asked.tensor).max(1);
            product([heads, asked.cache.bytes(*key).saturating_add(asked.cache.bytes(*value))])
        }
        // One vector for all heads, so every rank keeps it whole.
        Mixer::Latent { rank, rope, index } => {
            let sparse = index.is_some() && asked.cache == CacheType::Eight;
            // Sparse attention keeps the latent part in eight bits with four scales, the rotary part in sixteen.
            let latent = if sparse { rank + 16 + rope * 2 } else { asked.cache.bytes(rank + rope) };
            latent + index.map_or(0, |index| index + index.div_ceil(128) * 4)
        }
        _ => 0,
    }
}

/// Bytes of a layer's state on one rank: what goes into its convolution, and the recurrent state itself.
fn state(kind: &Mixer, asked: &Asked) -> u64 {
    let tensor = asked.tensor;
    let (width, kernel, recurrent) = match kind {
        Mixer::Linear { key_heads, value_heads, key, value, kernel } => {
            let width = product([2, *key_heads, *key]).saturating_add(product([*value_heads, *value]));
            (width, kernel, product([value_heads.div_ceil(tensor), *key, *value]))
        }
        Mixer::Mamba { heads, head, state, groups, kernel } => {
            // Groups that do not divide are copied until they do.
            let groups = groups.next_multiple_of(tensor);
            let width = product([*heads, *head]).saturating_add(product([2, groups, *state]));
            (width, kernel, product([heads.div_ceil(tensor), *head, *state]))
        }
        _ => return 0,
    };
    let bytes = |numbers: u64, dtype: Dtype| numbers.saturating_mul(dtype.bytes());
    let steps = kernel.saturating_sub(1).saturating_add(asked.draft_tokens);
    bytes(product([width.div_ceil(tensor), steps]), asked.conv).saturating_add(bytes(recurrent, asked.state))
}

fn product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}
