//! What is found about a model before a deploy, and what `fit` shows of it.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod desk;

use std::process::Command;

use desk::{Desk, operator};
use sparkctl::check::{Finding, Severity};
use sparkctl::cluster::facts::{ModelContent, NodeFacts, ShardIndex};
use sparkctl::delivery::Delivery;
use sparkctl::fabric::Links;
use sparkctl::memory::{GIB, render, seen};
use sparkctl::operation;
use sparkctl::plan::planner;
use sparkctl::profile::{Profile, Speculative};
use sparkctl::release::Outcome;

fn config(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/data/models/{name}/config.json", env!("CARGO_MANIFEST_DIR")))
        .unwrap()
}

/// The two Sparks of the seed, with this `config.json` and so many GiB of weights in the model's folder.
async fn facts(config: String, gib: u64) -> (Profile, Vec<NodeFacts>) {
    let desk = Desk::seed();
    let mut facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    facts[0].model.as_mut().unwrap().content = Some(ModelContent {
        config: Some(config),
        index: Some(ShardIndex { total_size: Some(gib * GIB), ..ShardIndex::default() }),
        ..ModelContent::default()
    });
    (desk.profile, facts)
}

/// The findings about the model.
fn found(profile: &Profile, facts: &[NodeFacts]) -> Vec<Finding> {
    let all = match planner::deploy(profile, &Delivery::default(), facts, &Links::default(), &operator()) {
        Ok(planned) => planned.warnings,
        Err(refused) => refused.0,
    };
    let about = ["memory-fit", "memory-free", "heads-divide", "context-model"];
    all.into_iter().filter(|finding| about.contains(&finding.id)).collect()
}

fn briefly(findings: &[Finding]) -> Vec<(&str, Severity)> {
    findings.iter().map(|finding| (finding.id, finding.severity)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fits_is_no_finding() {
    let (profile, facts) = facts(config("qwen3.5-122b-a10b-fp8"), 119).await;
    assert_eq!(found(&profile, &facts), []);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_cannot_fit_is_refused() {
    let (mut profile, facts) = facts(config("qwen3.5-122b-a10b-fp8"), 240).await;
    let findings = found(&profile, &facts);
    assert_eq!(briefly(&findings), [("memory-fit", Severity::Error), ("memory-fit", Severity::Error)]);
    let node = findings[0].node.as_ref().unwrap();
    assert_eq!(node.as_str(), "spark1");
    insta::assert_snapshot!("too-big", findings[0].to_string());

    // Where something may make the weights smaller than the files say, nothing is sure.
    profile.engine.args = vec!["--cpu-offload-gb".to_owned(), "40".to_owned()];
    assert_eq!(briefly(&found(&profile, &facts))[0], ("memory-fit", Severity::Warning));
    profile.engine.args.clear();
    profile.engine.memory_fraction = None;
    assert_eq!(briefly(&found(&profile, &facts))[0], ("memory-fit", Severity::Warning));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_near_the_limit_is_told() {
    // 0.8 of 119.7 GiB are 95.76 GiB: 94 GiB a node leave too little for activations.
    let (profile, facts) = facts(config("qwen3.5-122b-a10b-fp8"), 188).await;
    let findings = found(&profile, &facts);
    assert_eq!(briefly(&findings), [("memory-fit", Severity::Warning), ("memory-fit", Severity::Warning)]);
    insta::assert_snapshot!("near", findings[0].to_string());
}

#[tokio::test(start_paused = true)]
async fn what_has_served_before_is_not_judged() {
    let desk = Desk::seed();
    let deployed = desk.deployed().await;
    let mut facts = operation::look(&deployed.profile, &deployed.hosts()).await.unwrap();
    facts[0].model.as_mut().unwrap().content = Some(ModelContent {
        config: Some(config("qwen3.5-122b-a10b-fp8")),
        index: Some(ShardIndex { total_size: Some(500 * GIB), ..ShardIndex::default() }),
        ..ModelContent::default()
    });
    assert_eq!(found(&desk.profile, &facts), []);
    let longer = desk::changed(&desk.profile);
    assert_eq!(briefly(&found(&longer, &facts))[0], ("memory-fit", Severity::Error));
    // Other files under the same path, and another place in the fabric, have not served.
    let mut other = facts.clone();
    other[0].model.as_mut().unwrap().files[0].size += 1;
    assert_eq!(briefly(&found(&desk.profile, &other))[0], ("memory-fit", Severity::Error));
    let mut moved = desk.profile.clone();
    moved.cluster.nodes.swap(0, 1);
    let mut swapped = facts.clone();
    for node in &mut swapped {
        node.model.clone_from(&facts[0].model);
    }
    swapped.swap(0, 1);
    assert_eq!(briefly(&found(&moved, &swapped))[0], ("memory-fit", Severity::Error));
    // How much is free now is told all the same, where no engine runs.
    let mut full = facts.clone();
    for facts in &mut full {
        facts.containers.clear();
        facts.system.memory_available = 10 * GIB;
        facts.system.memory_free = Some(10 * GIB);
    }
    assert!(
        briefly(&found(&desk.profile, &full)).iter().all(|told| *told == ("memory-free", Severity::Warning))
    );
    assert_ne!(found(&desk.profile, &full), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_understood_is_not_judged() {
    for config in ["{}", "not JSON", r#"{"architectures": ["MyOwnForCausalLM"], "model_type": "my_own"}"#] {
        let (profile, facts) = facts(config.to_owned(), 119).await;
        assert_eq!(found(&profile, &facts), [], "{config}");
    }
}

/// The test rig's model on a machine whose `nvidia-smi` reports a GPU without memory.
#[tokio::test(start_paused = true)]
async fn a_tiny_model_on_a_small_machine_is_no_finding() {
    let tiny =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny-model/config.json"));
    let (mut profile, mut facts) = facts(tiny.unwrap(), 0).await;
    profile.engine.memory_fraction = Some(0.3);
    profile.engine.context_length = Some(2048);
    facts[0].model.as_mut().unwrap().content.as_mut().unwrap().index.as_mut().unwrap().total_size =
        Some(5_500_000);
    for facts in &mut facts {
        facts.system.memory_total = 4 * GIB;
        facts.system.memory_available = 2 * GIB;
    }
    assert_eq!(found(&profile, &facts), []);
}

#[tokio::test(start_paused = true)]
async fn heads_that_cannot_be_cut_are_refused() {
    let cases = [
        // attention heads, KV heads, GPUs
        (32, 2, 2, true),
        (32, 2, 1, true),
        // fewer KV heads than GPUs are copied
        (32, 1, 2, true),
        (31, 31, 2, false),
        // but only where that comes out even
        (32, 3, 2, false),
    ];
    for (heads, kv_heads, tensor, works) in cases {
        let config = serde_json::json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 1024,
            "head_dim": 64, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        });
        let (mut profile, facts) = facts(config.to_string(), 1).await;
        profile.engine.tensor_parallel = tensor;
        let findings = found(&profile, &facts);
        let expected: &[_] = if works { &[] } else { &[("heads-divide", Severity::Error)] };
        assert_eq!(briefly(&findings), expected, "{heads} heads, {kv_heads} KV heads, TP={tensor}");
        if let Some(finding) = findings.first() {
            assert!(finding.message.starts_with("engine.tensor_parallel is 2"), "{}", finding.message);
            assert_eq!(finding.path.as_deref(), Some("engine.tensor_parallel"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_context_beyond_the_model_is_refused_unless_it_is_lifted() {
    let (mut profile, facts) = facts(config("qwen3.5-122b-a10b-fp8"), 119).await;
    profile.engine.context_length = Some(262_144);
    assert_eq!(found(&profile, &facts), []);
    profile.engine.context_length = Some(262_145);
    let findings = found(&profile, &facts);
    assert_eq!(briefly(&findings), [("context-model", Severity::Error)]);
    assert_eq!(findings[0].path.as_deref(), Some("engine.context_length"));
    assert!(findings[0].message.contains("262145, more than the 262144"), "{}", findings[0].message);
    profile.engine.args = vec!["--hf-overrides={}".to_owned()];
    assert_eq!(briefly(&found(&profile, &facts)), [("context-model", Severity::Warning)]);
}

/// The field that is wrong is marked, and no figure that a sum ended at is shown.
#[tokio::test(start_paused = true)]
async fn absurd_settings_are_marked_where_they_stand() {
    let (seed, facts) = facts(config("qwen3.5-122b-a10b-fp8"), 119).await;
    let check = |path: &str, change: &dyn Fn(&mut Profile)| {
        let mut profile = seed.clone();
        change(&mut profile);
        let findings = found(&profile, &facts);
        let finding = findings.iter().find(|finding| finding.id == "memory-fit").unwrap();
        assert_eq!(finding.path.as_deref(), Some(path), "{}", finding.message);
        assert!(finding.message.len() < 160, "{}", finding.message);
        assert!(!finding.message.contains("17179869184"), "{}", finding.message);
    };
    let guess = |profile: &mut Profile| {
        profile.engine.speculative =
            Some(Speculative { method: "mtp".to_owned(), tokens: u32::MAX, model: None });
    };
    check("engine.context_length", &|it| it.engine.context_length = Some(u32::MAX));
    check("engine.memory_fraction", &|it| it.engine.memory_fraction = Some(0.0001));
    check("engine.speculative.tokens", &guess);
}

/// vLLM's own check at its start, where something else holds memory: 0.8 of 119.7 GiB are not free.
#[tokio::test(start_paused = true)]
async fn a_fraction_that_is_not_free_is_told() {
    let (profile, mut facts) = facts(config("qwen3.5-122b-a10b-fp8"), 119).await;
    facts[1].system.memory_available = 90 * GIB;
    let findings = found(&profile, &facts);
    assert_eq!(briefly(&findings), [("memory-free", Severity::Warning)]);
    assert!(findings[0].hint.as_ref().unwrap().contains("0.75 is the largest"), "{:?}", findings[0].hint);
}

#[tokio::test(start_paused = true)]
async fn a_gpu_with_memory_of_its_own_is_counted_by_that() {
    let (profile, mut facts) = facts(config("qwen3.5-122b-a10b-fp8"), 119).await;
    for facts in &mut facts {
        facts.gpus[0].memory_total = Some(48 * GIB);
        facts.gpus[0].memory_used = Some(GIB);
    }
    assert_eq!(briefly(&found(&profile, &facts))[0], ("memory-fit", Severity::Error));
    let (_, budgets) = seen::budgets(&profile, &facts).unwrap();
    assert_eq!(budgets[0].1.largest_fraction, Some([97, 97]));
}

/// Runs `sparkctl fit` on the seed's profile, without nodes.
fn fit(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sparkctl"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["fit", "profiles/qwen35-122b.yaml", "--model"])
        .args(args)
        .output()
        .unwrap();
    let told = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    (output.status.code(), String::from_utf8(told).unwrap())
}

#[test]
fn fit_shows_the_budget() {
    let config = "tests/data/models/qwen3.5-122b-a10b-fp8/config.json";
    let (code, text) = fit(&[config, "--weights", "118.4"]);
    assert_eq!(code, Some(0));
    insta::assert_snapshot!("fit", text);

    let (code, text) = fit(&[config, "--weights", "118.4", "--memory", "64"]);
    assert_eq!(code, Some(3), "does not fit");
    insta::assert_snapshot!("fit-too-big", text);

    let (code, text) = fit(&[config, "--weights", "118.4", "--output", "json"]);
    assert_eq!(code, Some(0));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["format"], 1);
    assert_eq!(json["fit"]["nodes"][1]["node"], "spark2");
    assert_eq!(json["fit"]["nodes"][1]["budget"]["verdict"]["verdict"], "fits");
    assert_eq!(json["fit"]["nodes"][0]["budget"]["per_token"], 12 * 1024);
    assert_eq!(json["fit"]["model"]["architecture"], "Qwen3_5MoeForConditionalGeneration");
}

#[test]
fn fit_reads_a_model_on_this_machine() {
    let (code, text) =
        fit(&["tests/data/tiny-model", "--memory", "8", "--set", "engine.context_length=4096"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("fits, with"), "{text}");
    assert!(!text.contains("not estimated"), "the headers tell the weights: {text}");

    let (code, text) = fit(&["tests/data"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cannot read tests/data/config.json"), "{text}");
}

#[test]
fn fit_promises_no_context_beyond_the_model() {
    let config = "tests/data/models/qwen3.5-122b-a10b-fp8/config.json";
    let (code, text) = fit(&[config, "--weights", "118.4", "--set", "engine.context_length=1000000"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("more than the 262144 tokens that the model is made for"), "{text}");
    let longest = text.lines().find(|line| line.contains("longest context")).unwrap();
    assert!(longest.contains("262144") && !longest.contains("1000000"), "{longest}");
}

#[test]
fn fit_refuses_what_is_no_models_config() {
    for file in ["schema/profile.schema.json", "tests/data/models/weights.json"] {
        let (code, text) = fit(&[file]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("is no model's config.json"), "{text}");
    }
}

/// The pair of Sparks after a deploy whose engine told these figures of its start; the profile asks for more context now.
async fn measured(weights: f64, cache: f64) -> (Profile, Vec<NodeFacts>) {
    let desk = Desk::seed();
    desk.deployed().await;
    let mut facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    for facts in &mut facts {
        let engine = &mut facts.releases[0].figures.engine;
        (engine.weights_gib, engine.kv_cache_gib) = (Some(weights), Some(cache));
    }
    facts[0].model.as_mut().unwrap().content = Some(ModelContent {
        config: Some(config("qwen3.5-122b-a10b-fp8")),
        index: Some(ShardIndex { total_size: Some(119 * GIB), ..ShardIndex::default() }),
        ..ModelContent::default()
    });
    (desk::changed(&desk.profile), facts)
}

#[tokio::test(start_paused = true)]
async fn what_a_release_measured_holds_instead_of_the_estimate() {
    let (profile, facts) = measured(60.5, 28.0).await;
    let (_, budgets) = seen::budgets(&profile, &facts).unwrap();
    let budget = &budgets[1].1;
    // 0.8 of 119.70 GiB are 95.76: what is neither weights nor cache is 7.26 GiB, and the cache is what it was.
    assert_eq!(budget.measured.unwrap().release.0, 1);
    assert_eq!(budget.weights.map(sparkctl::memory::gib).as_deref(), Some("60.50 GiB"));
    assert_eq!(budget.cache.map(sparkctl::memory::gib).as_deref(), Some("28.00 GiB"));
    assert_eq!(sparkctl::memory::gib(budget.beside), "7.26 GiB");
    assert!(budget.weights_estimated.unwrap() < 60 * GIB, "the estimate is kept beside it: {budget:?}");
    insta::assert_snapshot!("measured", render::text("qwen35-122b", 65_536, &budgets));
    assert_eq!(found(&profile, &facts), []);

    // A larger part of the memory changes what is left, not what was measured.
    let mut more = profile.clone();
    more.engine.memory_fraction = Some(0.9);
    let (_, budgets) = seen::budgets(&more, &facts).unwrap();
    assert_eq!(sparkctl::memory::gib(budgets[0].1.beside), "7.26 GiB");
    assert!(budgets[0].1.cache > budget.cache);
}

#[tokio::test(start_paused = true)]
async fn findings_say_what_was_measured() {
    let (profile, facts) = measured(95.0, 0.4).await;
    let findings = found(&profile, &facts);
    assert_eq!(briefly(&findings)[0], ("memory-fit", Severity::Error));
    assert!(findings[0].message.starts_with("weights (95.00 GiB, measured by release 1)"), "{}", findings[0]);
    let (profile, facts) = measured(90.0, 0.5).await;
    let findings = found(&profile, &facts);
    assert_eq!(briefly(&findings)[0], ("memory-fit", Severity::Warning));
    assert!(findings[0].message.ends_with("take 5.26 GiB, as release 1 did"), "{}", findings[0]);
}

/// Only what took the same is used: another image, cut, argument, folder or place says nothing.
#[tokio::test(start_paused = true)]
async fn what_was_measured_otherwise_is_not_used() {
    let (profile, facts) = measured(60.5, 28.0).await;
    let is_measured = |profile: &Profile, facts: &[NodeFacts]| {
        let (_, budgets) = seen::budgets(profile, facts).unwrap();
        budgets.iter().map(|(_, budget)| budget.measured.map(|it| it.beside.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(is_measured(&profile, &facts), [Some(true); 2]);
    let changed = |change: &dyn Fn(&mut Profile)| {
        let mut other = profile.clone();
        change(&mut other);
        is_measured(&other, &facts)
    };
    assert_eq!(changed(&|p| p.engine.context_length = Some(1000)), [Some(true); 2]);
    assert_eq!(changed(&|p| p.engine.reasoning_parser = None), [Some(true); 2]);
    assert_eq!(changed(&|p| p.engine.tensor_parallel = 1), [None; 2]);
    assert_eq!(changed(&|p| p.engine.args.push("--enforce-eager".to_owned())), [None; 2]);
    assert_eq!(changed(&|p| p.engine.quantization = Some("fp8".to_owned())), [None; 2]);
    assert_eq!(changed(&|p| p.cluster.nodes.swap(0, 1)), [None; 2]);
    let with = |change: &dyn Fn(&mut NodeFacts)| {
        let mut facts = facts.clone();
        facts.iter_mut().for_each(change);
        is_measured(&profile, &facts)
    };
    assert_eq!(with(&|f| f.releases[0].outcome = Outcome::Failed("it hung".to_owned())), [None; 2]);
    assert_eq!(with(&|f| f.releases[0].image.content.0.push('x')), [None; 2]);
    assert_eq!(with(&|f| f.releases[0].weights.push('x')), [None; 2]);
    assert_eq!(with(&|f| f.releases[0].figures.engine.weights_gib = None), [None; 2]);
    // Weights alone are used alone.
    assert_eq!(with(&|f| f.releases[0].figures.engine.kv_cache_gib = None), [Some(false); 2]);
    assert_eq!(with(&|f| f.releases[0].figures.engine.weights_gib = Some(f64::NAN)), [None; 2]);
    // The newest one that tells.
    let newer = |f: &mut NodeFacts| {
        let mut newer = f.releases[0].clone();
        (newer.number.0, newer.figures.engine.weights_gib) = (7, Some(61.0));
        f.releases.push(newer);
    };
    let mut both = facts.clone();
    both.iter_mut().for_each(newer);
    let (_, budgets) = seen::budgets(&profile, &both).unwrap();
    assert_eq!(budgets[0].1.measured.unwrap().release.0, 7);
}
