//! What the engine is told: parsers by the model's own configuration, context and part of the memory so that it fits.
//! Pure.
//!
//! The numbers are estimates ([`crate::memory`]); what the model's files do not say is left to the engine.

use serde::Serialize;

use crate::cluster::facts::{ModelContent, NodeFacts};
use crate::memory::{Asked, Budget, Memory, Verdict, budget, gib, seen};
use crate::model::tensors::Weights;
use crate::model::{Shape, parsers};
use crate::profile::Profile;

/// The engine's part of the profile, as far as the model decides it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Settings {
    pub context_length: Option<u32>,
    pub memory_fraction: Option<f64>,
    pub reasoning_parser: Option<String>,
    pub tool_parser: Option<String>,
    /// The engine's word for guessing tokens with the model's own further layers: worth a try, and not set.
    pub drafts: Option<String>,
    /// Why context and memory are as they are; `None` where nothing could be estimated.
    pub memory_note: Option<String>,
    /// Why the parsers are as they are.
    pub parser_note: Option<String>,
    pub warnings: Vec<String>,
}

/// Part of unified memory that the engine gets, as system, Ray and page cache live in it as well.
const UNIFIED: f64 = 0.80;
/// Part of a GPU's own memory.
const OWN: f64 = 0.90;
/// More than this of unified memory has frozen Sparks: their free memory tops out at 101 of 121.7 GiB.
const MOST_UNIFIED: f64 = 0.83;
/// Contexts that are tried below the model's own, the longest first.
const CONTEXTS: [u32; 7] = [262_144, 131_072, 65_536, 32_768, 16_384, 8_192, 4_096];
/// Requests of the whole context that should fit at once.
const REQUESTS: u64 = 2;

/// What to tell the engine of `profile`, whose model has this content. Without content nothing is known.
pub fn settings(
    profile: &Profile,
    name: &str,
    content: Option<&ModelContent>,
    facts: &[NodeFacts],
) -> Settings {
    let memory = memory(facts);
    let usual = memory.map(|memory| if memory.unified { UNIFIED } else { OWN });
    let (shape, weights) = match content.and_then(seen::model) {
        Some(Ok(model)) => model,
        Some(Err(error)) => {
            let warnings = vec![error.to_string()];
            return Settings { memory_fraction: usual, warnings, ..Settings::default() };
        }
        None => return Settings { memory_fraction: usual, ..Settings::default() },
    };
    let kind = profile.engine.kind;
    let family = parsers::family(&shape, name);
    let parsers = family.map(|family| family.parsers(kind));
    let word = |name: Option<&str>| name.map(str::to_owned);
    let mut settings = Settings {
        memory_fraction: usual,
        reasoning_parser: word(parsers.and_then(|parsers| parsers.reasoning)),
        tool_parser: word(parsers.and_then(|parsers| parsers.tools)),
        drafts: word(parsers::own_drafts(&shape)),
        parser_note: family.map(|family| format!("as models of the family {} write", family.name)),
        ..Settings::default()
    };
    if let Some(heads) = shape.attention_heads
        && heads % u64::from(profile.engine.tensor_parallel.max(1)) != 0
    {
        settings.warnings.push(format!(
            "the model has {heads} attention heads, which {} nodes cannot share evenly: engine.tensor_parallel will not \
             start",
            profile.engine.tensor_parallel
        ));
    }
    if let Some(memory) = memory {
        let weights = weights.filter(|weights| weights.total > 0);
        fit(profile, &shape, weights.as_ref(), memory, &mut settings);
    }
    settings
}

/// The memory of the smallest node, with nothing of an engine on it; `None` where no node has a GPU.
fn memory(facts: &[NodeFacts]) -> Option<Memory> {
    let all = facts.iter().filter_map(seen::memory);
    let bare = all.map(|memory| Memory { free: None, reclaimable: None, ..memory });
    bare.min_by_key(|memory| memory.total)
}

/// The longest context of which some requests fit, with the usual part of the memory, else with more of it.
fn fit(profile: &Profile, shape: &Shape, weights: Option<&Weights>, memory: Memory, settings: &mut Settings) {
    let own = shape.context.and_then(|context| u32::try_from(context).ok());
    let Some(own) = own.filter(|_| weights.is_some() && shape.known_layers()) else {
        return;
    };
    let usual = settings.memory_fraction.unwrap_or(OWN);
    let most = if memory.unified { MOST_UNIFIED } else { 0.95 };
    let contexts = || std::iter::once(own).chain(CONTEXTS.into_iter().filter(|context| *context < own));
    let tries = [(usual, REQUESTS), (most, REQUESTS), (usual, 1), (most, 1)];
    let of = |fraction: f64, context: u32| {
        let mut asking = profile.clone();
        asking.engine.memory_fraction = Some(fraction);
        asking.engine.context_length = Some(context);
        budget(shape, weights, &Asked::of(&asking, shape), memory)
    };
    let fits = |budget: &Budget, requests: u64| {
        matches!(budget.verdict, Verdict::Fits { .. })
            && budget.concurrency.is_some_and(|times| times >= requests * 100)
    };
    // Two requests of a short context are worth less than one of a long one: 32k is enough for two.
    let enough = |context: u32, requests: u64| requests == 1 || context >= own.min(32_768);
    let found = tries.into_iter().find_map(|(fraction, requests)| {
        contexts().filter(|context| enough(*context, requests)).find_map(|context| {
            let budget = of(fraction, context);
            fits(&budget, requests).then_some((fraction, context, budget))
        })
    });
    if let Some((fraction, context, budget)) = found {
        settings.memory_fraction = Some(fraction);
        settings.context_length = Some(context);
        let at_once = budget.concurrency.unwrap_or(0) / 100;
        settings.memory_note = Some(format!(
            "weights {} of {} a node; {at_once} requests of the whole context at once (estimated)",
            gib(budget.weights.unwrap_or(0)),
            gib(budget.limit),
        ));
    } else {
        let budget = of(most, contexts().last().unwrap_or(own));
        let why = match budget.verdict {
            Verdict::TooBig { lacking } | Verdict::Unsure { lacking } => {
                format!(": {} are lacking", gib(lacking))
            }
            _ => String::new(),
        };
        settings.memory_fraction = Some(most);
        settings.warnings.push(format!(
            "the model does not seem to fit on {} node{}, even with a short context{why}",
            profile.cluster.nodes.len(),
            if profile.cluster.nodes.len() == 1 { "" } else { "s" },
        ));
    }
}
