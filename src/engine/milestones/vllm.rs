//! The lines of vLLM, and of Ray around it.

use super::{Figure, Row, StartStage};

/// By stage. From vLLM 0.1x to 0.33.
pub(super) const ROWS: &[Row] = &[
    (StartStage::Gathering, Figure::Nodes, r"sparkctl: (?:ray|native) has (\d+) of (\d+) nodes"),
    (StartStage::Serving, Figure::Nothing, r"Application startup complete"),
    (StartStage::Warming, Figure::Nothing, r"Starting vLLM (?:API )?server(?: \d+)? on \S+"),
    (
        StartStage::Warming,
        Figure::Nothing,
        r"init engine \(profile, create kv cache, warmup model\) took [\d.]+ s",
    ),
    (StartStage::GraphsCaptured, Figure::Amount("s", 0), r"Graph capturing finished in (\d+) secs"),
    (StartStage::CapturingGraphs, Figure::Count, r"Capturing CUDA graphs?[^|]*?\d+%\|[^|]*\|\s*(\d+)/(\d+)"),
    (StartStage::CapturingGraphs, Figure::Nothing, r"Capturing CUDA graphs?\b"),
    (StartStage::Tuning, Figure::Count, r"\[AutoTuner\]: Tuning [^|]*?\d+%\|[^|]*\|\s*(\d+)/(\d+)"),
    // Not the bare words: vLLM also says them where the warm-up is off.
    (StartStage::Tuning, Figure::Nothing, r"Autotuning process starts|JIT kernel warmup (?:starting|\()"),
    (StartStage::Memory, Figure::Tokens, r"(?:GPU|CPU)(?: \+ host)? KV cache size: ([\d,]+) tokens"),
    (StartStage::Memory, Figure::Amount("GiB", 1), r"Available KV cache memory: (-?[\d.]+) GiB"),
    (StartStage::Memory, Figure::Amount("GiB", 1), r"Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache"),
    (StartStage::Memory, Figure::Nothing, r"Maximum concurrency for [\d,]+ tokens per request"),
    (StartStage::Compiling, Figure::Amount("s", 0), r"torch\.compile (?:takes|took) ([\d.]+) s in total"),
    (
        StartStage::Compiling,
        Figure::Nothing,
        r"Dynamo bytecode transform time|Directly load the compiled graph|Compiling a graph for|Cache the graph of compile range|for vLLM's torch\.compile",
    ),
    (StartStage::WeightsLoaded, Figure::Amount("GiB", 1), r"Model loading took ([\d.]+) GiB"),
    (StartStage::WeightsLoaded, Figure::Amount("s", 0), r"Loading weights took ([\d.]+) seconds"),
    (StartStage::LoadingWeights, Figure::Percent, r"Loading [\w\- ]+:\s+\d+% Completed \| (\d+)/(\d+)"),
    (StartStage::LoadingWeights, Figure::Percent, r"loading shards:\s+\d+%\D*?(\d+)/(\d+)"),
    (StartStage::LoadingWeights, Figure::Nothing, r"Prefetching checkpoint files"),
    (StartStage::LoadingWeights, Figure::Nothing, r"Starting to load model |Loading model from scratch"),
    (StartStage::GroupsReady, Figure::Nothing, r"rank \d+ in world size \d+ is assigned as"),
    (
        StartStage::Groups,
        Figure::Nothing,
        r"Custom (?:allreduce|collectives) (?:is|are) disabled because|CPU SHM communicator disabled|all-reduce backends \(in dispatch order\)",
    ),
    (
        StartStage::Groups,
        Figure::Nothing,
        r"vLLM is using nccl==|NCCL INFO ncclCommInitRank .*Init |NCCL INFO Connected all ",
    ),
    (
        StartStage::Rendezvous,
        Figure::Nothing,
        r"world_size=\d+ rank=\d+ local_rank=\d+ distributed_init_method=",
    ),
    (
        StartStage::Engine,
        Figure::Amount("s", 0),
        r"Waiting for creating a placement group of specs for (\d+) seconds",
    ),
    (
        StartStage::Engine,
        Figure::Nothing,
        r"Connecting to existing Ray cluster|Connected to Ray cluster|No current placement group found",
    ),
    (
        StartStage::Engine,
        Figure::Nothing,
        r"DP group leader: node_rank=\d|Launching vLLM .*headless multiproc executor",
    ),
    (StartStage::Engine, Figure::Nothing, r"Initializing a V1 LLM engine"),
    (
        StartStage::Config,
        Figure::Nothing,
        r"non-default args: |Resolved architecture: |Using max model len |Chunked prefill is enabled with ",
    ),
];
