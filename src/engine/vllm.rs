//! vLLM: its flags, its launch on Ray, its milestones.
//!
//! On several nodes each container is a Ray node, pinned to the fabric by `--node-ip-address`. The
//! head's launch script waits until Ray counts every node at its fabric address, then becomes
//! `vllm serve`: so the engine's log is the container's log, and its end the container's end.
//! `ray symmetric-run` cannot be used: it refuses `--node-ip-address`.

use super::milestones::{self, Milestone};
use super::{Engine, MODEL_TARGET, Member, RAY_PORT, Reserved};
use crate::profile::Profile;

/// Runs in the head's container: `ADDRESS,ADDRESS -- ray start ... -- vllm serve ...`.
const RAY_HEAD: &str = include_str!("ray_head.py");
/// Runs in a worker's container: `HEAD_ADDRESS PORT -- ray start ...`.
const RAY_WORKER: &str = include_str!("ray_worker.py");

/// Bytes of Ray's object store: vLLM hardly uses it, and by default Ray takes 30 % of the memory.
const OBJECT_STORE_BYTES: u64 = 512 * 1024 * 1024;

/// Flags that sparkctl sets; vLLM takes `_` for `-` in them.
pub(super) const RESERVED: &[Reserved] = &[
    Reserved { names: &["--model"], instead: "set `model.path`" },
    Reserved { names: &["--served-model-name"], instead: "set `serve.name`" },
    Reserved { names: &["--tensor-parallel-size", "-tp"], instead: "set `engine.tensor_parallel`" },
    Reserved { names: &["--distributed-executor-backend"], instead: "set `engine.launch`" },
    Reserved { names: &["--host"], instead: "leave it out: the endpoint is on the first of `cluster.nodes`" },
    Reserved {
        names: &["--api-key"],
        instead: "leave it out: this version cannot ask an endpoint that needs a key",
    },
    Reserved { names: &["--port"], instead: "set `serve.port`" },
    Reserved { names: &["--max-model-len"], instead: "set `engine.context_length`" },
    Reserved { names: &["--gpu-memory-utilization"], instead: "set `engine.memory_fraction`" },
    Reserved { names: &["--reasoning-parser"], instead: "set `engine.reasoning_parser`" },
    Reserved { names: &["--tool-call-parser"], instead: "set `engine.tool_parser`" },
    Reserved {
        names: &["--enable-auto-tool-choice", "--no-enable-auto-tool-choice"],
        instead: "leave it out: it is on where `engine.tool_parser` is set",
    },
    Reserved { names: &["--nnodes", "-n"], instead: "leave it out: it is the number of `cluster.nodes`" },
    Reserved {
        names: &["--node-rank", "-r"],
        instead: "leave it out: it follows the order of `cluster.nodes`",
    },
    Reserved { names: &["--master-addr"], instead: "leave it out: it is the first node's `fabric`" },
    Reserved { names: &["--headless"], instead: "leave it out: it is set on each node but the first" },
];

pub(super) struct Vllm;

impl Engine for Vllm {
    fn argv(&self, profile: &Profile, members: &[Member], rank: usize) -> Vec<String> {
        let serve = serve(profile, members.len() > 1);
        if members.len() == 1 {
            return serve;
        }
        let python = |script: &str| ["python3", "-u", "-c", script].map(str::to_owned).to_vec();
        let head = members[0].address;
        if rank == 0 {
            let addresses: Vec<_> = members.iter().map(|member| member.address.to_string()).collect();
            let mut argv = python(RAY_HEAD);
            argv.extend([addresses.join(","), "--".to_owned()]);
            argv.extend(["ray", "start", "--head"].map(str::to_owned));
            argv.push(format!("--port={RAY_PORT}"));
            argv.extend(["--include-dashboard=false", "--disable-usage-stats"].map(str::to_owned));
            argv.extend(ray_node(&members[0]));
            argv.push("--".to_owned());
            argv.extend(serve);
            argv
        } else {
            let mut argv = python(RAY_WORKER);
            argv.extend([head.to_string(), RAY_PORT.to_string(), "--".to_owned()]);
            argv.extend(["ray", "start"].map(str::to_owned));
            argv.push(format!("--address={head}:{RAY_PORT}"));
            argv.push("--block".to_owned());
            argv.extend(ray_node(&members[rank]));
            argv
        }
    }

    fn milestone(&self, line: &str) -> Option<Milestone> {
        milestones::vllm(line)
    }
}

/// The flags that every `ray start` takes. One GPU a node is a count that Ray places ranks by.
fn ray_node(member: &Member) -> [String; 3] {
    [
        format!("--node-ip-address={}", member.address),
        "--num-gpus=1".to_owned(),
        format!("--object-store-memory={OBJECT_STORE_BYTES}"),
    ]
}

fn serve(profile: &Profile, on_ray: bool) -> Vec<String> {
    let engine = &profile.engine;
    let mut argv: Vec<String> = ["vllm", "serve", MODEL_TARGET].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: String| argv.extend([name.to_owned(), value]);
    flag("--served-model-name", profile.served_name().to_owned());
    flag("--host", "0.0.0.0".to_owned());
    flag("--port", profile.serve.port.to_string());
    flag("--tensor-parallel-size", engine.tensor_parallel.to_string());
    if on_ray {
        flag("--distributed-executor-backend", "ray".to_owned());
    }
    if let Some(tokens) = engine.context_length {
        flag("--max-model-len", tokens.to_string());
    }
    if let Some(fraction) = engine.memory_fraction {
        flag("--gpu-memory-utilization", fraction.to_string());
    }
    if let Some(parser) = &engine.reasoning_parser {
        flag("--reasoning-parser", parser.clone());
    }
    if let Some(parser) = &engine.tool_parser {
        flag("--tool-call-parser", parser.clone());
        argv.push("--enable-auto-tool-choice".to_owned());
    }
    argv.extend(engine.args.iter().cloned());
    argv
}
