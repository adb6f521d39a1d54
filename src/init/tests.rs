//! What `init` tells of two Sparks, and the profiles that it writes for them.

use jiff::Timestamp;

use super::draft::{Draft, Seen, draft};
use super::fabric::choose;
use super::pick::{self, ImageChoice, ModelChoice};
use super::test_nodes::{add_model, cluster, content, found, image, pair, serving};
use super::{render, survey, write};
use crate::cluster::facts::{FoundModel, ModelContent, ModelForm, NodeFacts};
use crate::config;
use crate::profile::EngineKind;

/// All that is written for these facts: the profile's text, and what goes with it.
struct Written {
    text: String,
    draft: Draft,
    model: ModelChoice,
    image: ImageChoice,
}

fn written(
    facts: &[NodeFacts],
    model: Option<&str>,
    image: Option<&str>,
    content: Option<&ModelContent>,
) -> Written {
    let nodes: Vec<_> =
        facts.iter().map(|facts| survey::survey(facts, &format!("{}.lan", facts.node))).collect();
    let fabric = choose(facts, None);
    let (model, image) = (pick::model(facts, model), pick::image(facts, image));
    let seen = Seen {
        facts,
        nodes: &nodes,
        user: Some("aurora"),
        fabric: fabric.chosen.as_ref().unwrap(),
        model: &model,
        content,
        image: &image,
        name: None,
    };
    let draft = draft(&seen);
    let text = write::yaml(&seen, &draft, "profile.schema.json", "a.yaml");
    Written { text, draft, model, image }
}

fn qwen() -> ModelContent {
    content("qwen3.5-122b-a10b-fp8", 127_132_647_696)
}

#[test]
fn two_sparks_from_nothing_to_a_profile() {
    let mut facts = pair();
    let mut container = serving(
        "vllm_node",
        "hellohal2064/vllm-qwen3.5-gb10:latest",
        &[
            "vllm",
            "serve",
            "/weights/Qwen3.5-122B-A10B-FP8",
            "--max-model-len",
            "65536",
            "--api-key",
            "sk-123",
            "--port",
            "8000",
        ],
    );
    container.model = Some("/weights/Qwen3.5-122B-A10B-FP8".to_owned());
    container.mounts.insert("/weights".to_owned(), "/home/aurora/models".to_owned());
    container.host_network = true;
    container.state.started = Some(Timestamp::from_second(1_772_355_600).unwrap());
    facts[0].containers.push(container);
    let nodes: Vec<_> =
        facts.iter().map(|facts| survey::survey(facts, &format!("{}.lan", facts.node))).collect();
    let now = Timestamp::from_second(1_772_355_600 + 8040).unwrap();
    let all = written(&facts, None, None, Some(&qwen()));
    let screen = [
        render::nodes(&nodes, now),
        render::fabric(&choose(&facts, None)),
        render::picks(&all.model, &all.image),
        render::written(&all.draft, "a.yaml", Some("profile.schema.json")),
    ];
    insta::assert_snapshot!("pair_screen", screen.concat());
    insta::assert_snapshot!("pair_profile", all.text);
    assert!(!all.text.contains("sk-123"), "a secret was written:\n{}", all.text);
    // The file says what the draft says.
    assert_eq!(config::parse("a.yaml", &all.text).unwrap(), all.draft.profile);
}

#[test]
fn nothing_is_taken_of_several() {
    let mut facts = pair();
    add_model(&mut facts[0], found("/home/aurora/models/Qwen3-8B", 16_000_000_000));
    facts[1].images.push(image("lmsysorg/sglang:spark", "bash"));
    let mut container = serving("mine", "lmsysorg/sglang:spark", &["python3", "-m", "sglang.launch_server"]);
    container.model = Some("/home/aurora/models/Qwen3-8B".to_owned());
    facts[1].containers.push(container);
    let all = written(&facts, None, None, None);
    insta::assert_snapshot!("open_profile", all.text);
    assert!(!all.draft.is_whole);
    // With the variables that it names it is a profile.
    let environment = |name: &str| match name {
        "MODEL_PATH" => Some("/home/aurora/models/Qwen3-8B".to_owned()),
        "IMAGE" => Some("a/b:1".to_owned()),
        _ => None,
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, &all.text).unwrap();
    let loaded = config::load(&file, &config::Given { set: &[], environment: &environment }).unwrap();
    assert_eq!(loaded.profile.model.path, "/home/aurora/models/Qwen3-8B");
    // Without them the error names what is not chosen.
    let error = config::load(&file, &config::Given::NOTHING).unwrap_err().to_string();
    assert!(error.contains("MODEL_PATH") && error.contains("IMAGE"), "{error}");
}

/// Which model is taken: `path | source | first thing to do`.
#[test]
fn the_model_that_is_named() {
    let mut facts = pair();
    let cache = "/home/aurora/.cache/huggingface/hub/models--openai--gpt-oss-120b/snapshots/b5c939de8f75";
    let cached = FoundModel {
        form: ModelForm::HubCache,
        repo: Some("openai/gpt-oss-120b".to_owned()),
        revision: Some("b5c939de8f75".to_owned()),
        ..found(cache, 65_000_000_000)
    };
    add_model(&mut facts[0], cached);
    add_model(&mut facts[1], found("/data/models/Only-On-Two", 1_000_000_000));
    add_model(&mut facts[0], FoundModel { readable: false, ..found("/data/models/Roots", 1_000_000_000) });
    let check = |wanted: &str, path: &str, source: Option<&str>, to_do: &str| {
        let choice = pick::model(&facts, Some(wanted));
        assert_eq!((choice.path.as_deref(), choice.source.as_deref()), (Some(path), source), "{wanted}");
        let told: Vec<_> = choice
            .to_do
            .iter()
            .map(|to_do| format!("{} {}", to_do.what, to_do.command.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(to_do.is_empty(), told.is_empty(), "{wanted}: {told:?}");
        assert!(told.join("\n").contains(to_do), "{wanted}: {told:?}");
    };
    let qwen = "/home/aurora/models/Qwen3.5-122B-A10B-FP8";
    check("Qwen/Qwen3.5-122B-A10B-FP8", qwen, Some("hf:Qwen/Qwen3.5-122B-A10B-FP8"), "");
    check("hf:Qwen/Qwen3.5-122B-A10B-FP8@abc", qwen, Some("hf:Qwen/Qwen3.5-122B-A10B-FP8@abc"), "");
    check(
        "https://huggingface.co/qwen/qwen3.5-122b-a10b-fp8/",
        qwen,
        Some("hf:qwen/qwen3.5-122b-a10b-fp8"),
        "",
    );
    check("Qwen3.5-122B-A10B-FP8", qwen, None, "");
    check(qwen, qwen, None, "");
    // In a Hub's cache: the snapshot is served as it lies there.
    let source = Some("hf:openai/gpt-oss-120b@b5c939de8f75");
    check("openai/gpt-oss-120b", cache, source, "");
    check("gpt-oss-120b", cache, source, "");
    check("openai/gpt-oss-120b@b5c9", cache, source, "");
    // Another revision than the one that lies there.
    check(
        "openai/gpt-oss-120b@ffff",
        "/home/aurora/models/gpt-oss-120b",
        Some("hf:openai/gpt-oss-120b@ffff"),
        "hf download openai/gpt-oss-120b --revision ffff --local-dir /home/aurora/models/gpt-oss-120b",
    );
    check("Only-On-Two", "/data/models/Only-On-Two", None, "the model is on spark2 and not on spark1");
    check("Roots", "/data/models/Roots", None, "sudo chown -R $USER /data/models/Roots");
    check(
        "a/New",
        "/home/aurora/models/New",
        Some("hf:a/New"),
        "hf download a/New --local-dir /home/aurora/models/New",
    );
    check(
        "/data/elsewhere/New",
        "/data/elsewhere/New",
        None,
        "put the model into /data/elsewhere/New on spark1",
    );
    check("New", "/home/aurora/models/New", None, "name it as OWNER/NAME");
}

/// A folder that was made of a model in a Hub's cache is the same model.
#[test]
fn a_folder_of_a_cached_model_is_taken() {
    let mut facts = pair();
    let cached = FoundModel {
        form: ModelForm::HubCache,
        repo: Some("Qwen/Qwen3.5-122B-A10B-FP8".to_owned()),
        ..found("/home/aurora/.cache/huggingface/hub/models--Qwen--Qwen3.5-122B-A10B-FP8/snapshots/a", 1)
    };
    add_model(&mut facts[0], cached);
    let choice = pick::model(&facts, None);
    assert_eq!(choice.path.as_deref(), Some("/home/aurora/models/Qwen3.5-122B-A10B-FP8"));
}

#[test]
fn models_lie_in_the_home_folder_where_none_is_yet() {
    let mut facts = pair();
    facts[0].models = None;
    facts[1].models = None;
    let choice = pick::model(&facts, None);
    assert_eq!((choice.path, choice.because.as_str()), (None, "no complete model lies on the nodes"));
    assert_eq!(pick::model(&facts, Some("a/b")).path.as_deref(), Some("/home/aurora/models/b"));
}

#[test]
fn the_image_that_is_named() {
    let facts = pair();
    let check = |wanted: Option<&str>, reference: Option<&str>, kind, to_do: usize| {
        let choice = pick::image(&facts, wanted);
        assert_eq!(
            (choice.reference.as_deref(), choice.kind, choice.to_do.len()),
            (reference, kind, to_do),
            "{wanted:?}"
        );
    };
    let there = "hellohal2064/vllm-qwen3.5-gb10:latest";
    check(None, Some(there), EngineKind::Vllm, 0);
    check(Some(there), Some(there), EngineKind::Vllm, 0);
    check(Some("lmsysorg/sglang:spark"), Some("lmsysorg/sglang:spark"), EngineKind::Sglang, 1);
    check(Some("mine:1"), Some("mine:1"), EngineKind::Vllm, 1);
    // What sparkctl keeps for its releases is no choice.
    let mut facts = facts;
    facts[0].images[0].references = vec!["sparkctl/kept:abc".to_owned()];
    assert_eq!(pick::image(&facts, None).reference, None);
}

/// Context, fraction, parsers, and words of the warnings, of models of the field on one or two Sparks.
#[test]
fn settings_that_fit() {
    #[rustfmt::skip]
    let cases = [
        ("qwen3.5-122b-a10b-fp8", 127_132_647_696, 2, "262144 0.80 qwen3 qwen3_coder", ""),
        ("gpt-oss-120b", 65_248_815_744, 1, "131072 0.80 openai_gptoss openai", ""),
        ("llama-3.1-8b", 16_060_522_496, 1, "131072 0.80 - llama3_json", ""),
        ("qwen3-235b-a22b-fp8", 236_445_228_859, 2, "- 0.83 qwen3 hermes", "does not seem to fit on 2 nodes"),
        ("qwen3-8b", 0, 1, "- 0.80 qwen3 hermes", ""),
    ];
    for (model, bytes, nodes, expected, warning) in cases {
        let facts: Vec<_> = pair().into_iter().take(nodes).collect();
        let content = content(model, bytes);
        let all = written(&facts, Some(&format!("x/{model}")), Some("vllm:1"), Some(&content));
        let engine = &all.draft.profile.engine;
        let word = |parser: &Option<String>| parser.clone().unwrap_or_else(|| "-".to_owned());
        let said = format!(
            "{} {:.2} {} {}",
            engine.context_length.map_or_else(|| "-".to_owned(), |context| context.to_string()),
            engine.memory_fraction.unwrap(),
            word(&engine.reasoning_parser),
            word(&engine.tool_parser)
        );
        let warnings = all.draft.settings.warnings.join("\n");
        assert_eq!(said, expected, "{model}: {warnings} {:?}", all.draft.settings.memory_note);
        assert!(
            warnings.contains(warning) && warnings.is_empty() == warning.is_empty(),
            "{model}: {warnings}"
        );
        assert_eq!(config::parse("a.yaml", &all.text).unwrap(), all.draft.profile, "{model}");
    }
    // Seven heads on two nodes; and a file that is no configuration.
    let mut facts = pair();
    let odd =
        ModelContent { config: Some("{\"num_attention_heads\": 7}".to_owned()), ..ModelContent::default() };
    let broken = ModelContent { config: Some("[".to_owned()), ..ModelContent::default() };
    for (content, warning) in [(odd, "7 attention heads"), (broken, "config.json is not JSON")] {
        let all = written(&facts, None, None, Some(&content));
        assert!(all.text.contains(warning), "{}", all.text);
    }
    // A port that is taken is passed over; a GPU with its own memory gets more of it.
    facts[0].listeners.push(crate::cluster::facts::Listener { port: 30000, ..Default::default() });
    for node in &mut facts {
        node.gpus[0].memory_total = Some(80_000_000_000);
    }
    let all = written(&facts, None, None, Some(&qwen()));
    assert_eq!(all.draft.profile.serve.port.get(), 30001);
    assert_eq!(all.draft.profile.engine.memory_fraction, Some(0.90));
}

#[test]
fn what_is_in_the_way_is_told_once() {
    let mut facts = pair();
    for (rank, node) in (0..).zip(&mut facts) {
        let mut container = serving(&format!("sparkctl-old-{rank}"), "x:1", &["vllm"]);
        container.ours = Some(crate::cluster::facts::Ours {
            deployment: "old".parse().unwrap(),
            release: crate::release::ReleaseNumber(3),
            rank,
            spec: String::new(),
        });
        node.containers.push(container);
    }
    facts[1].containers.push(serving("comfy", "comfy:1", &["python3"]));
    let all = written(&facts, None, None, None);
    let commands: Vec<_> = all.draft.to_do.iter().filter_map(|to_do| to_do.command.as_deref()).collect();
    assert_eq!(commands, ["sparkctl stop old", "docker update --restart no comfy && docker stop comfy"]);
}

#[test]
fn a_single_node_has_no_launch() {
    let facts: Vec<_> = pair().into_iter().take(1).collect();
    let all = written(&facts, None, None, None);
    assert!(!all.text.contains("launch:"), "{}", all.text);
    assert_eq!(config::parse("a.yaml", &all.text).unwrap().cluster.nodes.len(), 1);
    assert!(choose(&cluster("a: eth0 10.0.0.1/24 down"), None).chosen.is_none());
}
