//! `SGLang`: its flags, spelled as 0.5 takes them. It has one launch over several nodes, its own.

use super::milestones::{self, Milestone};
use super::{
    Engine, HEAD_ADDRESS, KEY, Member, Reserved, Unfit, adapters, flag, key_variable, launch, listen,
    model_target, multimodal,
};
use crate::profile::{Engine as Settings, Launch, Profile, Speculative};

/// `SGLang` takes any beginning of a flag for the flag.
const RESERVED: &[Reserved] = &[
    Reserved::always(&["--model-path", "--model"], "set `model.path`"),
    Reserved::always(&["--served-model-name"], "set `serve.name`"),
    Reserved::always(&["--host"], "leave it out: the endpoint is on the first of `cluster.nodes`"),
    Reserved::always(&["--port"], "set `serve.port`"),
    Reserved::always(&["--api-key"], KEY),
    Reserved::always(&["--tensor-parallel-size", "--tp-size"], "set `engine.tensor_parallel`"),
    Reserved::always(&["--pipeline-parallel-size", "--pp-size"], "set `engine.pipeline_parallel`"),
    Reserved::always(&["--nnodes"], "leave it out: it is the number of `cluster.nodes`"),
    Reserved::always(&["--node-rank"], "leave it out: it follows the order of `cluster.nodes`"),
    Reserved::always(&["--dist-init-addr", "--nccl-init-addr"], HEAD_ADDRESS),
    Reserved::always(&["--context-length"], "set `engine.context_length`"),
    Reserved::always(&["--mem-fraction-static"], "set `engine.memory_fraction`"),
    Reserved::always(&["--reasoning-parser"], "set `engine.reasoning_parser`"),
    Reserved::always(&["--tool-call-parser"], "set `engine.tool_parser`"),
    Reserved::always(&["--enable-metrics"], "leave it out: it is always on, for `sparkctl status`"),
    Reserved::where_set(
        &["--expert-parallel-size", "--ep-size"],
        "leave it out: `engine.expert_parallel` spreads the experts over all GPUs",
        |e| e.expert_parallel,
    ),
    Reserved::where_set(&["--max-running-requests"], "set `engine.max_requests`", |e| {
        e.max_requests.is_some()
    }),
    Reserved::where_set(&["--quantization"], "set `engine.quantization`", |e| e.quantization.is_some()),
    Reserved::where_set(&["--kv-cache-dtype"], "set `engine.kv_cache_type`", |e| e.kv_cache_type.is_some()),
    Reserved::where_set(&["--disable-radix-cache"], "set `engine.prefix_caching`", |e| {
        e.prefix_caching.is_some()
    }),
    Reserved::where_set(
        &[
            "--speculative-algorithm",
            "--speculative-num-steps",
            "--speculative-eagle-topk",
            "--speculative-num-draft-tokens",
            "--speculative-draft-model-path",
        ],
        "set `engine.speculative`, or leave that out and write all of its flags here",
        |e| e.speculative.is_some(),
    ),
    Reserved::where_set(&["--trust-remote-code"], "set `engine.trust_remote_code`", |e| e.trust_remote_code),
    Reserved::where_set(&["--enable-lora", "--lora-paths", "--max-lora-rank"], "set `engine.lora`", |e| {
        e.lora.is_some()
    }),
    Reserved::where_set(&["--limit-mm-data-per-request"], "set `engine.multimodal`", |e| {
        !e.multimodal.is_empty()
    }),
    Reserved::where_set(&["--chat-template"], "set `engine.chat_template`", |e| e.chat_template.is_some()),
];

/// How a method's guesses are counted.
#[derive(Clone, Copy)]
enum Guess {
    /// One token after another, by a draft model or the checkpoint's own head; all are checked with the one that
    /// is sure.
    Chain,
    /// A block at once.
    Block,
    /// A block at once, counted with the token that is sure.
    BlockAndOne,
}

/// Methods by their word in a profile; the engine's own word, and how its guesses are counted.
const METHODS: &[(&str, &str, Guess)] = &[
    ("mtp", "NEXTN", Guess::Chain),
    ("nextn", "NEXTN", Guess::Chain),
    ("eagle", "EAGLE", Guess::Chain),
    ("eagle3", "EAGLE3", Guess::Chain),
    ("draft_model", "STANDALONE", Guess::Chain),
    ("standalone", "STANDALONE", Guess::Chain),
    ("frozen_kv_mtp", "FROZEN_KV_MTP", Guess::Chain),
    ("ngram", "NGRAM", Guess::Block),
    ("dflash", "DFLASH", Guess::Block),
    ("dspark", "DSPARK", Guess::BlockAndOne),
];

/// The server.
const MODULE: &str = "sglang.launch_server";
/// Runs it with a key: `VARIABLE MODULE FLAG...`.
const KEYED: &str = include_str!("keyed.py");

pub(super) struct Sglang;

impl Engine for Sglang {
    fn command(&self, profile: &Profile, members: &[Member], rank: usize) -> Vec<String> {
        let engine = &profile.engine;
        let front = if profile.serve.api_key.is_some() && rank == 0 {
            vec!["python3", "-u", "-c", KEYED, key_variable(engine.kind), MODULE]
        } else {
            vec!["python3", "-m", MODULE]
        };
        let mut argv: Vec<_> = front.into_iter().map(str::to_owned).collect();
        flag(&mut argv, "--model-path", &model_target(profile));
        flag(&mut argv, "--served-model-name", &profile.served_name());
        // Also on the workers: there a server stands at this port that answers that all is well, whatever happens.
        flag(&mut argv, "--host", &listen(profile, members, rank));
        flag(&mut argv, "--port", &profile.serve.port);
        flag(&mut argv, "--tp-size", &engine.tensor_parallel);
        if engine.pipeline_parallel > 1 {
            flag(&mut argv, "--pp-size", &engine.pipeline_parallel);
        }
        if engine.expert_parallel {
            flag(&mut argv, "--ep-size", &engine.tensor_parallel);
        }
        if members.len() > 1 {
            flag(&mut argv, "--nnodes", &members.len());
            flag(&mut argv, "--node-rank", &rank);
            flag(&mut argv, "--dist-init-addr", &launch::master(members));
        }
        settings(&mut argv, engine);
        argv.push("--enable-metrics".to_owned());
        argv.extend(engine.args.iter().cloned());
        argv
    }

    fn milestone(&self, line: &str) -> Option<Milestone> {
        milestones::sglang(line)
    }

    fn reserved(&self) -> &'static [Reserved] {
        RESERVED
    }

    fn takes_beginnings(&self) -> bool {
        true
    }

    fn unfit(&self, profile: &Profile) -> Vec<Unfit> {
        let engine = &profile.engine;
        let mut found = Vec::new();
        if engine.launch() == Launch::Ray {
            let message = "SGLang does not run on Ray";
            found.push(Unfit::new("launch", message, "write `native`, or leave it out"));
        }
        if engine.data_parallel > 1 {
            let message = "SGLang has no copies of a model over several nodes";
            let hint = "set `tensor_parallel` to the number of nodes; for attention alone there are `--enable-dp-attention` and `--dp-size` in `engine.args`";
            found.push(Unfit::new("data_parallel", message, hint));
        }
        if engine.pipeline_parallel > 1 && engine.speculative.is_some() {
            let message = "SGLang has no speculative decoding with `pipeline_parallel`";
            found.push(Unfit::new("speculative", message, "leave one of the two out"));
        }
        if engine.kv_cache_type.as_deref() == Some("fp8") {
            let message = "SGLang has two of `fp8`";
            found.push(Unfit::new("kv_cache_type", message, "write `fp8_e4m3` or `fp8_e5m2`"));
        }
        if let Some(speculative) = &engine.speculative {
            found.extend(unfit_speculation(speculative));
        }
        found
    }
}

fn unfit_speculation(speculative: &Speculative) -> Option<Unfit> {
    let method = &speculative.method;
    let Some((_, algorithm, _)) = known(method) else {
        let mut words: Vec<_> = METHODS.iter().map(|(word, ..)| format!("`{word}`")).collect();
        words.dedup();
        let hint = format!("its methods are {}; any other goes into `engine.args`", words.join(", "));
        return Some(Unfit::new(
            "speculative.method",
            format!("SGLang has no speculative method `{method}`"),
            hint,
        ));
    };
    let needs = ["EAGLE3", "STANDALONE", "DFLASH"].contains(algorithm);
    (needs && speculative.model.is_none()).then(|| {
        let message = format!("the method `{method}` of SGLang needs a draft model");
        Unfit::new("speculative", message, "set its `model` to a path in the container")
    })
}

fn known(method: &str) -> Option<&'static (&'static str, &'static str, Guess)> {
    let method = method.to_lowercase().replace('-', "_");
    METHODS.iter().find(|(word, ..)| *word == method)
}

fn settings(argv: &mut Vec<String>, engine: &Settings) {
    if let Some(tokens) = engine.context_length {
        flag(argv, "--context-length", &tokens);
    }
    if let Some(fraction) = engine.memory_fraction {
        flag(argv, "--mem-fraction-static", &fraction);
    }
    if let Some(requests) = engine.max_requests {
        flag(argv, "--max-running-requests", &requests);
    }
    if let Some(method) = &engine.quantization {
        flag(argv, "--quantization", &method);
    }
    if let Some(kind) = &engine.kv_cache_type {
        flag(argv, "--kv-cache-dtype", &kind);
    }
    // On by itself, and there is no flag that says so.
    if engine.prefix_caching == Some(false) {
        argv.push("--disable-radix-cache".to_owned());
    }
    if let Some(speculative) = &engine.speculative {
        speculate(argv, speculative);
    }
    if engine.trust_remote_code {
        argv.push("--trust-remote-code".to_owned());
    }
    if let Some(lora) = &engine.lora {
        argv.extend(["--enable-lora", "--lora-paths"].map(str::to_owned));
        argv.extend(adapters(lora));
        if let Some(rank) = lora.max_rank {
            flag(argv, "--max-lora-rank", &rank);
        }
    }
    if let Some(limits) = multimodal(engine) {
        flag(argv, "--limit-mm-data-per-request", &limits);
    }
    if let Some(parser) = &engine.reasoning_parser {
        flag(argv, "--reasoning-parser", &parser);
    }
    if let Some(parser) = &engine.tool_parser {
        flag(argv, "--tool-call-parser", &parser);
    }
    if let Some(template) = &engine.chat_template {
        flag(argv, "--chat-template", &template);
    }
}

fn speculate(argv: &mut Vec<String>, speculative: &Speculative) {
    let Some((_, algorithm, guess)) = known(&speculative.method) else { return };
    let tokens = speculative.tokens;
    flag(argv, "--speculative-algorithm", &algorithm);
    if let Some(model) = &speculative.model {
        flag(argv, "--speculative-draft-model-path", &model);
    }
    match guess {
        // With one candidate a step the checked tokens are one more than the steps.
        Guess::Chain => {
            flag(argv, "--speculative-num-steps", &tokens);
            flag(argv, "--speculative-eagle-topk", &1);
            flag(argv, "--speculative-num-draft-tokens", &tokens.saturating_add(1));
        }
        Guess::Block => flag(argv, "--speculative-num-draft-tokens", &tokens),
        Guess::BlockAndOne => flag(argv, "--speculative-num-draft-tokens", &tokens.saturating_add(1)),
    }
}
