//! The lines of `SGLang`.

use super::{Figure, Row, StartStage};

/// By stage, for 0.4 and 0.5. The HTTP server is up before the warm-up request: that is no sign of being ready.
pub(super) const ROWS: &[Row] = &[
    (StartStage::Gathering, Figure::Nodes, r"sparkctl: native has (\d+) of (\d+) nodes"),
    (StartStage::Serving, Figure::Nothing, r"The server is fired up and ready to roll"),
    (StartStage::Warming, Figure::Nothing, r"Uvicorn running on \S+"),
    (StartStage::Warming, Figure::Tokens, r"max_total_num_tokens=(\d+).*context_len=\d+"),
    (StartStage::GraphsCaptured, Figure::Nothing, r"(?i)Capture .*graph.* end"),
    (
        StartStage::CapturingGraphs,
        Figure::Count,
        r"Capturing (?:batches|num tokens)[^|]*?\d+%\|[^|]*\|\s*(\d+)/(\d+)",
    ),
    (StartStage::CapturingGraphs, Figure::Nothing, r"(?i)Capture .*graph.* begin"),
    (StartStage::Tuning, Figure::Count, r"\[AutoTuner\]: Tuning [^|]*?\d+%\|[^|]*\|\s*(\d+)/(\d+)"),
    (StartStage::Memory, Figure::Tokens, r"KV Cache is allocated\..*#tokens: (\d+)"),
    (StartStage::Memory, Figure::Nothing, r"Mamba Cache is allocated|Memory pool end\. avail mem="),
    (StartStage::WeightsLoaded, Figure::Nothing, r"Load weight end\."),
    (
        StartStage::LoadingWeights,
        Figure::Percent,
        r"(?:Loading safetensors checkpoint shards|Multi-thread loading shards):\s+\d+%\D*?(\d+)/(\d+)",
    ),
    (StartStage::LoadingWeights, Figure::Nothing, r"Load weight begin\. avail mem="),
    (
        StartStage::GroupsReady,
        Figure::Nothing,
        r"Init (?:torch distributed|parallel) ends|Memory baseline taken",
    ),
    (StartStage::Groups, Figure::Nothing, r"Custom ?[Aa]ll[Rr]educe is disabled|sglang is using nccl=="),
    (StartStage::Rendezvous, Figure::Nothing, r"Init (?:torch distributed|parallel) begin"),
    (StartStage::Config, Figure::Nothing, r"server_args=ServerArgs\("),
];
