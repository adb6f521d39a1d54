//! The profiles that come with sparkctl: each can be read and planned, names the right parsers, and says what it takes
//! of the nodes' memory.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod desk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use desk::{operator, recorded_sparks};
use sparkctl::check::Severity;
use sparkctl::cluster::facts::{ModelContent, NodeFacts, ShardIndex};
use sparkctl::config;
use sparkctl::delivery::Delivery;
use sparkctl::fabric::Links;
use sparkctl::memory::{Asked, Memory, Verdict, budget, gib, render};
use sparkctl::model::tensors::Weights;
use sparkctl::model::{Shape, parsers};
use sparkctl::plan::planner;
use sparkctl::profile::Profile;

/// Profile, its model in `tests/data/models`, nodes.
const PROFILES: &[(&str, &str, usize)] = &[
    ("qwen3-coder-30b", "qwen3-coder-30b-a3b-fp8", 1),
    ("gpt-oss-120b", "gpt-oss-120b", 1),
    ("glm-4.7-flash", "glm-4.7-flash", 1),
    ("nemotron-3-nano", "nemotron-3-nano-nvfp4", 1),
    ("nemotron-3-super", "nemotron-3-super-nvfp4", 1),
    ("qwen35-122b", "qwen3.5-122b-a10b-fp8", 2),
    ("qwen3-coder-next", "qwen3-coder-next-fp8", 2),
    ("llama-3.3-70b", "llama-3.3-70b-fp8", 2),
    ("deepseek-v4-flash", "deepseek-v4-flash", 2),
    ("minimax-m2.7-awq", "minimax-m2.7-awq", 2),
    ("minimax-m2.5", "minimax-m2", 4),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn path(name: &str) -> PathBuf {
    root().join(format!("profiles/{name}.yaml"))
}

fn load(name: &str) -> Profile {
    config::load(&path(name), &config::Given::NOTHING)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .profile
}

fn model_text(model: &str) -> String {
    std::fs::read_to_string(root().join(format!("tests/data/models/{model}/config.json"))).unwrap()
}

fn shape(model: &str) -> Shape {
    sparkctl::model::config::read(&model_text(model)).unwrap()
}

fn bytes(model: &str) -> u64 {
    let all = std::fs::read_to_string(root().join("tests/data/models/weights.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    all[model]["bytes"].as_u64().unwrap()
}

/// The line that a profile has to have: its budget on a DGX Spark, in short.
fn estimate(profile: &Profile, model: &str) -> String {
    let shape = shape(model);
    let asked = Asked::of(profile, &shape);
    let budget = budget(&shape, Some(&Weights::of_bytes(bytes(model))), &asked, Memory::spark());
    let weights = gib(budget.weights.unwrap());
    let (Some(token), Some(request)) = (budget.per_token, budget.per_request) else {
        return format!("# Estimated for each node: weights {weights}; cache not estimated.");
    };
    let at = |requests| budget.longest.iter().find(|longest| longest.requests == requests).unwrap().context;
    format!(
        "# Estimated for each node: weights {weights}; cache {} a token, {} a request; context {} alone, {} for 8.",
        render::small(token),
        render::small(request),
        at(1),
        at(8)
    )
}

#[test]
fn every_profile_is_tested() {
    let files: BTreeSet<_> = std::fs::read_dir(root().join("profiles"))
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().path().file_name()?.to_str()?.strip_suffix(".yaml").map(str::to_owned)
        })
        .filter(|name| !name.starts_with("rig-"))
        .collect();
    let tested: BTreeSet<_> = PROFILES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(files, tested);
    let readme = std::fs::read_to_string(root().join("profiles/README.md")).unwrap();
    for name in tested {
        assert!(readme.contains(&format!("[{name}]({name}.yaml)")), "profiles/README.md lacks {name}");
    }
}

#[test]
fn each_says_what_it_takes() {
    let mut wrong = Vec::new();
    for (name, model, nodes) in PROFILES {
        let profile = load(name);
        assert_eq!(profile.cluster.nodes.len(), *nodes, "{name}");
        let expected = estimate(&profile, model);
        let text = std::fs::read_to_string(path(name)).unwrap();
        if !text.lines().any(|line| line == expected) {
            wrong.push(format!("{name}: {expected}"));
        }
    }
    assert!(wrong.is_empty(), "these lines are not in the profiles:\n{}", wrong.join("\n"));
}

#[test]
fn each_fits_its_sparks() {
    for (name, model, _) in PROFILES {
        let profile = load(name);
        let shape = shape(model);
        let asked = Asked::of(&profile, &shape);
        assert_eq!(asked.assumed, Vec::<String>::new(), "{name} leaves something open");
        let budget = budget(&shape, Some(&Weights::of_bytes(bytes(model))), &asked, Memory::spark());
        let fits = matches!(budget.verdict, Verdict::Fits { .. });
        let unknown = matches!(budget.verdict, Verdict::NotEstimated) && *name == "deepseek-v4-flash";
        assert!(fits || unknown, "{name}: {}", render::verdict(&budget));
        // What people saw at best: of 121.69 GiB, 101.3 are free at the start.
        assert!(profile.engine.memory_fraction.unwrap() <= 0.83, "{name}: more than a Spark ever has free");
    }
}

#[test]
fn each_has_the_parsers_of_its_model() {
    for (name, model, _) in PROFILES {
        let profile = load(name);
        let family = parsers::family(&shape(model), profile.model.source.as_ref().unwrap()).unwrap();
        let right = family.parsers(profile.engine.kind);
        let written = (profile.engine.reasoning_parser.as_deref(), profile.engine.tool_parser.as_deref());
        assert_eq!(written, (right.reasoning, right.tools), "{name}");
        if let Some(speculative) = &profile.engine.speculative {
            assert_eq!(Some(speculative.method.as_str()), parsers::own_drafts(&shape(model)), "{name}");
        }
    }
}

/// The recorded Sparks, with the profile's model on the head.
fn sparks(profile: &Profile, model: &str) -> Vec<NodeFacts> {
    let mut facts = recorded_sparks(profile);
    let folder = facts[0].model.as_mut().unwrap();
    folder.content = Some(ModelContent {
        config: Some(model_text(model)),
        index: Some(ShardIndex { total_size: Some(bytes(model)), ..ShardIndex::default() }),
        ..ModelContent::default()
    });
    facts
}

#[test]
fn each_can_be_planned() {
    for (name, model, nodes) in PROFILES {
        let profile = load(name);
        let facts = sparks(&profile, model);
        match planner::deploy(&profile, &Delivery::default(), &facts, &Links::default(), &operator()) {
            Ok(planned) => {
                let warnings = planned.warnings.iter().filter(|finding| finding.severity > Severity::Note);
                let warnings: Vec<_> = warnings.map(ToString::to_string).collect();
                assert_eq!(warnings, Vec::<String>::new(), "{name}");
                assert_eq!(planned.plan.nodes.len(), *nodes, "{name}");
            }
            Err(refused) => panic!("{name}: {:#?}", refused.0),
        }
    }
}
