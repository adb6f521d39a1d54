//! vLLM: its flags. They are spelled as every release from 0.13 to 0.33 takes them.

use serde_json::json;

use super::milestones::{self, Milestone};
use super::{
    DATA_PARALLEL_PORT, Engine, HEAD_ADDRESS, KEY, MASTER_PORT, Member, Reserved, Unfit, adapters, flag,
    listen, model_target, multimodal,
};
use crate::profile::{Engine as Settings, Launch, Profile};

/// vLLM takes `_` for `-` in these.
const RESERVED: &[Reserved] = &[
    Reserved::always(&["--model"], "set `model.path`"),
    Reserved::always(&["--served-model-name"], "set `serve.name`"),
    Reserved::always(&["--host"], "leave it out: the endpoint is on the first of `cluster.nodes`"),
    Reserved::always(&["--port"], "set `serve.port`"),
    Reserved::always(&["--api-key"], KEY),
    Reserved::always(&["--tensor-parallel-size", "-tp"], "set `engine.tensor_parallel`"),
    Reserved::always(&["--pipeline-parallel-size", "-pp"], "set `engine.pipeline_parallel`"),
    Reserved::always(
        &[
            "--data-parallel-size",
            "-dp",
            "--data-parallel-size-local",
            "-dpl",
            "--data-parallel-rank",
            "-dpn",
            "--data-parallel-start-rank",
            "-dpr",
            "--data-parallel-address",
            "-dpa",
            "--data-parallel-rpc-port",
            "-dpp",
            "--data-parallel-backend",
            "-dpb",
        ],
        "set `engine.data_parallel`",
    ),
    Reserved::always(&["--distributed-executor-backend"], "set `engine.launch`"),
    Reserved::always(&["--nnodes", "-n"], "leave it out: it is the number of `cluster.nodes`"),
    Reserved::always(&["--node-rank", "-r"], "leave it out: it follows the order of `cluster.nodes`"),
    Reserved::always(&["--master-addr"], HEAD_ADDRESS),
    Reserved::always(&["--master-port"], HEAD_ADDRESS),
    Reserved::always(&["--headless"], "leave it out: it is set on each node but the first"),
    Reserved::always(&["--max-model-len"], "set `engine.context_length`"),
    Reserved::always(&["--gpu-memory-utilization"], "set `engine.memory_fraction`"),
    Reserved::always(&["--reasoning-parser"], "set `engine.reasoning_parser`"),
    Reserved::always(&["--tool-call-parser"], "set `engine.tool_parser`"),
    Reserved::always(
        &["--enable-auto-tool-choice", "--no-enable-auto-tool-choice"],
        "leave it out: it is on where `engine.tool_parser` is set",
    ),
    Reserved::where_set(&["--enable-expert-parallel", "-ep"], "set `engine.expert_parallel`", |e| {
        e.expert_parallel
    }),
    Reserved::where_set(&["--max-num-seqs"], "set `engine.max_requests`", |e| e.max_requests.is_some()),
    Reserved::where_set(&["--quantization", "-q"], "set `engine.quantization`", |e| e.quantization.is_some()),
    Reserved::where_set(&["--kv-cache-dtype"], "set `engine.kv_cache_type`", |e| e.kv_cache_type.is_some()),
    Reserved::where_set(
        &["--enable-prefix-caching", "--no-enable-prefix-caching"],
        "set `engine.prefix_caching`",
        |e| e.prefix_caching.is_some(),
    ),
    Reserved::where_set(&["--speculative-config", "-sc"], "set `engine.speculative`", |e| {
        e.speculative.is_some()
    }),
    Reserved::where_set(&["--trust-remote-code"], "set `engine.trust_remote_code`", |e| e.trust_remote_code),
    Reserved::where_set(
        &["--enable-lora", "--no-enable-lora", "--lora-modules", "--max-lora-rank"],
        "set `engine.lora`",
        |e| e.lora.is_some(),
    ),
    Reserved::where_set(&["--limit-mm-per-prompt"], "set `engine.multimodal`", |e| !e.multimodal.is_empty()),
    Reserved::where_set(&["--chat-template"], "set `engine.chat_template`", |e| e.chat_template.is_some()),
];

pub(super) struct Vllm;

impl Engine for Vllm {
    fn command(&self, profile: &Profile, members: &[Member], rank: usize) -> Vec<String> {
        let engine = &profile.engine;
        let mut argv = vec!["vllm".to_owned(), "serve".to_owned(), model_target(profile)];
        // A worker of a native launch has no endpoint, and so nothing that is about it.
        let has_endpoint = rank == 0;
        if has_endpoint {
            flag(&mut argv, "--served-model-name", &profile.served_name());
            flag(&mut argv, "--host", &listen(profile, members, rank));
            flag(&mut argv, "--port", &profile.serve.port);
        }
        spread(&mut argv, engine, members, rank);
        settings(&mut argv, engine);
        if let Some(parser) = &engine.reasoning_parser {
            flag(&mut argv, "--reasoning-parser", &parser);
        }
        if has_endpoint {
            if let Some(parser) = &engine.tool_parser {
                flag(&mut argv, "--tool-call-parser", &parser);
                argv.push("--enable-auto-tool-choice".to_owned());
            }
            if let Some(template) = &engine.chat_template {
                flag(&mut argv, "--chat-template", &template);
            }
            if let Some(lora) = &engine.lora {
                argv.push("--lora-modules".to_owned());
                argv.extend(adapters(lora));
            }
        }
        argv.extend(engine.args.iter().cloned());
        argv
    }

    fn milestone(&self, line: &str) -> Option<Milestone> {
        milestones::vllm(line)
    }

    fn reserved(&self) -> &'static [Reserved] {
        RESERVED
    }

    fn unfit(&self, profile: &Profile) -> Vec<Unfit> {
        let engine = &profile.engine;
        let mut found = Vec::new();
        if engine.data_parallel > 1 && engine.launch() == Launch::Ray {
            let message = "vLLM's copies over several nodes are started by its own launch, not on Ray";
            found.push(Unfit::new("data_parallel", message, "write `launch: native`"));
        }
        if let Some(speculative) = &engine.speculative
            && ["eagle", "eagle3", "draft_model", "medusa", "mlp_speculator"]
                .contains(&speculative.method.as_str())
            && speculative.model.is_none()
        {
            let message = format!("the method `{}` of vLLM needs a draft model", speculative.method);
            found.push(Unfit::new("speculative", message, "set its `model` to a path in the container"));
        }
        if let Some(rank) = engine.lora.as_ref().and_then(|lora| lora.max_rank)
            && !LORA_RANKS.contains(&rank)
        {
            let larger = LORA_RANKS.iter().find(|known| **known > rank);
            let hint = larger.map_or_else(String::new, |larger| format!("write {larger}, the next one"));
            found.push(Unfit::new("lora", format!("vLLM has no largest rank of {rank}"), hint));
        }
        found
    }
}

/// The largest ranks of adapters that vLLM has kernels for.
const LORA_RANKS: &[u32] = &[1, 8, 16, 32, 64, 128, 256, 320, 512];

/// How the model is spread, and where this rank is in it.
fn spread(argv: &mut Vec<String>, engine: &Settings, members: &[Member], rank: usize) {
    flag(argv, "--tensor-parallel-size", &engine.tensor_parallel);
    if engine.pipeline_parallel > 1 {
        flag(argv, "--pipeline-parallel-size", &engine.pipeline_parallel);
    }
    if engine.data_parallel > 1 {
        flag(argv, "--data-parallel-size", &engine.data_parallel);
        flag(argv, "--data-parallel-address", &members[0].address);
        flag(argv, "--data-parallel-rpc-port", &DATA_PARALLEL_PORT);
    }
    if engine.expert_parallel {
        argv.push("--enable-expert-parallel".to_owned());
    }
    match engine.launch() {
        _ if members.len() == 1 => {}
        Launch::Ray => flag(argv, "--distributed-executor-backend", &"ray"),
        Launch::Native => {
            flag(argv, "--distributed-executor-backend", &"mp");
            flag(argv, "--nnodes", &members.len());
            flag(argv, "--node-rank", &rank);
            flag(argv, "--master-addr", &members[0].address);
            flag(argv, "--master-port", &MASTER_PORT);
            if rank > 0 {
                argv.push("--headless".to_owned());
            }
        }
    }
}

/// What is the same on every rank.
fn settings(argv: &mut Vec<String>, engine: &Settings) {
    if let Some(tokens) = engine.context_length {
        flag(argv, "--max-model-len", &tokens);
    }
    if let Some(fraction) = engine.memory_fraction {
        flag(argv, "--gpu-memory-utilization", &fraction);
    }
    if let Some(requests) = engine.max_requests {
        flag(argv, "--max-num-seqs", &requests);
    }
    if let Some(method) = &engine.quantization {
        flag(argv, "--quantization", &method);
    }
    if let Some(kind) = &engine.kv_cache_type {
        flag(argv, "--kv-cache-dtype", &kind);
    }
    match engine.prefix_caching {
        Some(true) => argv.push("--enable-prefix-caching".to_owned()),
        Some(false) => argv.push("--no-enable-prefix-caching".to_owned()),
        None => {}
    }
    if let Some(speculative) = &engine.speculative {
        let mut config =
            json!({ "method": speculative.method, "num_speculative_tokens": speculative.tokens });
        if let Some(model) = &speculative.model {
            config["model"] = json!(model);
        }
        flag(argv, "--speculative-config", &config);
    }
    if engine.trust_remote_code {
        argv.push("--trust-remote-code".to_owned());
    }
    if let Some(lora) = &engine.lora {
        argv.push("--enable-lora".to_owned());
        if let Some(rank) = lora.max_rank {
            flag(argv, "--max-lora-rank", &rank);
        }
    }
    if let Some(limits) = multimodal(engine) {
        flag(argv, "--limit-mm-per-prompt", &limits);
    }
}
