//! What a release that served took, by its engine's own words: it holds instead of the estimate for another start of the
//! same model from the same image, cut the same way. Pure.
//!
//! Left out: the KV cache. The engine takes for it what is left, so it follows from the rest.

use serde::Serialize;

use super::{GIB, part};
use crate::cluster::facts::NodeFacts;
use crate::container::ImageContent;
use crate::plan::weights_digest;
use crate::profile::{Engine, EngineKind, Profile};
use crate::release::{Outcome, Release, ReleaseNumber};

/// What the fullest rank took besides its KV cache, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// The release whose start it was.
    pub release: ReleaseNumber,
    pub weights: u64,
    /// Activations, graphs, CUDA and NCCL together: what the engine was allowed less weights and KV cache. `None` where
    /// its words do not tell: SGLang takes these from beside its part.
    pub beside: Option<u64>,
}

impl Measured {
    /// Of the newest such release of the profile's nodes; `total` are bytes of a node's GPU memory.
    pub fn of(profile: &Profile, facts: &[NodeFacts], total: u64) -> Option<Self> {
        let model = weights_digest(&facts.first()?.model.as_ref()?.files);
        let reference = profile.image.reference.with_tag();
        let image = &facts.iter().find_map(|facts| facts.image_named(&reference))?.content;
        let releases = facts.iter().flat_map(|facts| &facts.releases);
        let alike = releases.filter(|release| is_alike(release, profile, &model, image));
        alike.filter_map(|release| Self::read(release, total)).max_by_key(|measured| measured.release)
    }

    fn read(release: &Release, total: u64) -> Option<Self> {
        let figures = &release.figures.engine;
        let weights = bytes(figures.weights_gib?)?;
        let engine = &release.profile.engine;
        let beside = || {
            let fixed = engine.args.iter().any(|arg| arg.starts_with("--kv-cache-memory"));
            let fraction = engine.memory_fraction.filter(|_| engine.kind == EngineKind::Vllm && !fixed)?;
            part(total, fraction).checked_sub(weights)?.checked_sub(bytes(figures.kv_cache_gib?)?)
        };
        Some(Self { release: release.number, weights, beside: beside() })
    }
}

/// GiB as bytes; figures that make no sense are none.
fn bytes(gib: f64) -> Option<u64> {
    #[expect(clippy::cast_precision_loss, reason = "2^30 is exact")]
    let bytes = gib * GIB as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: not negative, and small"
    )]
    (bytes > 0.0 && bytes < 1e16).then_some(bytes as u64)
}

/// Whether a start of the profile takes what the release took, whatever its context and its part of the memory.
fn is_alike(release: &Release, profile: &Profile, model: &str, image: &ImageContent) -> bool {
    let places = |profile: &Profile| -> Vec<_> {
        profile.cluster.nodes.iter().map(|node| (node.name.clone(), node.fabric)).collect()
    };
    // These only say how the rest of the memory is used, and how answers are read.
    let cut = |engine: &Engine| Engine {
        context_length: None,
        memory_fraction: None,
        kv_cache_type: None,
        prefix_caching: None,
        chat_template: None,
        reasoning_parser: None,
        tool_parser: None,
        ..engine.clone()
    };
    release.outcome == Outcome::Deployed
        && release.weights == model
        && &release.image.content == image
        && places(&release.profile) == places(profile)
        && cut(&release.profile.engine) == cut(&profile.engine)
}
