//! Flags and variables that sparkctl sets itself, and that a profile may therefore not repeat.
//!
//! Each engine knows its own flags: these lists move to `engine`, and `validate` then asks there.

use super::EngineKind;

/// A flag or a variable that sparkctl sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reserved {
    /// Every way to write it.
    pub(super) names: &'static [&'static str],
    /// What to do instead, as a hint.
    pub(super) instead: &'static str,
}

const VLLM_ARGS: &[Reserved] = &[
    Reserved { names: &["--model"], instead: "set `model.path`" },
    Reserved { names: &["--served-model-name"], instead: "set `serve.name`" },
    Reserved { names: &["--tensor-parallel-size", "-tp"], instead: "set `engine.tensor_parallel`" },
    Reserved { names: &["--distributed-executor-backend"], instead: "set `engine.launch`" },
    Reserved { names: &["--host"], instead: "leave it out: the endpoint is on the first of `cluster.nodes`" },
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

const FABRIC: &str = "leave it out: it is looked up on each node by the node's `fabric`";
const HEAD: &str = "leave it out: it is the first node's `fabric`";

const ENV: &[Reserved] = &[
    Reserved {
        names: &[
            "VLLM_HOST_IP",
            "NCCL_SOCKET_IFNAME",
            "GLOO_SOCKET_IFNAME",
            "TP_SOCKET_IFNAME",
            "UCX_NET_DEVICES",
            "NCCL_IB_HCA",
            "OMPI_MCA_btl_tcp_if_include",
        ],
        instead: FABRIC,
    },
    Reserved { names: &["RAY_ADDRESS", "MASTER_ADDR"], instead: HEAD },
    Reserved {
        names: &["RAY_memory_monitor_refresh_ms"],
        instead: "leave it out: Ray's memory monitor is always off, as it would kill the engine",
    },
];

/// The flags of an engine that sparkctl sets.
pub(super) fn reserved_args(kind: EngineKind) -> &'static [Reserved] {
    match kind {
        EngineKind::Vllm => VLLM_ARGS,
        EngineKind::Sglang => &[],
    }
}

/// The variables of an engine's containers that sparkctl sets.
pub(super) fn reserved_env(_kind: EngineKind) -> &'static [Reserved] {
    ENV
}
