//! Memory: of the GPU, of the node, and the KV cache's.

use super::Class::{Kernel, Memory, Model};
use super::Severity::Root;
use super::Signature;

pub const SIGNATURES: &[Signature] = &[
    Signature {
        id: "MEM-NVRM",
        severity: Root(Kernel),
        pattern: r"NV_ERR_NO_MEMORY|NVRM: .*out of memory",
        cause: "the GPU's driver got no more memory: CPU and GPU share it here, and it is used up",
        hint: "lower `engine.memory_fraction` so that 8 GiB or more stay free on each node",
        reference: "vllm-project/vllm#56824, NVIDIA/dgx-spark-playbooks#97",
        examples: &[
            "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)",
        ],
    },
    Signature {
        id: "MEM-KILL",
        severity: Root(Kernel),
        pattern: r"Out of memory: Killed process|oom-kill:|exit ?code:? -9\b",
        cause: "the node's kernel killed a process of the engine because memory was used up",
        hint: "lower `engine.memory_fraction`; if it died while compiling kernels, set `MAX_JOBS` to 2 in `engine.env`",
        reference: "flashinfer-ai/flashinfer#3634, eugr/spark-vllm-docker#286",
        examples: &[
            "Out of memory: Killed process 4711 (VLLM::Worker_TP) total-vm:190000000kB",
            "Rank 0 scheduler died during initialization (exit code: -9)",
        ],
    },
    Signature {
        id: "MEM-FREE",
        severity: Root(Memory),
        pattern: r"Free memory on device \S* ?\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired GPU memory utilization \(([\d.]+), ([\d.]+) GiB\)",
        cause: "only {1} of {2} GiB are free on this node, and a memory fraction of {3} asks for {4} GiB",
        hint: "stop what else uses memory on this node, or lower `engine.memory_fraction`",
        reference: "vllm-project/vllm#48140, MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47",
        examples: &[
            "ValueError: Free memory on device cuda:0 (92.1/121.7 GiB) on startup is less than desired GPU memory utilization (0.9, 109.53 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        ],
    },
    Signature {
        id: "MEM-FREE",
        severity: Root(Memory),
        pattern: r"Free memory on device .* is less than desired GPU memory utilization|on startup is less than the engine's budget",
        cause: "less memory is free on this node than `engine.memory_fraction` asks for",
        hint: "stop what else uses memory on this node, or lower `engine.memory_fraction`",
        reference: "vllm-project/vllm#48140",
        examples: &[
            "ValueError: Free memory on device (90 GiB) on startup is less than the engine's budget (100 GiB).",
        ],
    },
    Signature {
        id: "MEM-NOKV",
        severity: Root(Memory),
        pattern: r"No available memory for the cache blocks",
        cause: "the weights leave no room for the KV cache within `engine.memory_fraction`",
        hint: "raise `engine.memory_fraction`, serve a smaller quantisation, or use more nodes",
        reference: "vllm-project/vllm#2248, vllm-project/vllm#17431",
        examples: &[
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        ],
    },
    Signature {
        id: "MEM-MAXLEN",
        severity: Root(Memory),
        pattern: r"max seq len \((\d+)\).*larger than the available KV cache.*estimated maximum model length is (\d+)",
        cause: "a context of {1} tokens does not fit into the KV cache, {2} would",
        hint: "set `engine.context_length` to {2} or less, or raise `engine.memory_fraction`",
        reference: "vllm-project/vllm#16118, vllm-project/vllm#2418",
        examples: &[
            "ValueError: To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory (11.2 GiB). Based on the available memory, the estimated maximum model length is 122336. Try increasing `gpu_memory_utilization`",
        ],
    },
    Signature {
        id: "MEM-MAXLEN",
        severity: Root(Memory),
        pattern: r"max seq len \((\d+)\).*larger than the (?:available KV cache|maximum number of tokens)",
        cause: "a context of {1} tokens does not fit into the KV cache",
        hint: "lower `engine.context_length`, or raise `engine.memory_fraction`",
        reference: "vllm-project/vllm#16118, vllm-project/vllm#2418",
        examples: &[
            "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (9072).",
        ],
    },
    Signature {
        id: "MEM-DERIVED",
        severity: Root(Model),
        pattern: r"max_model_len \((\d+)\) is greater than the derived max_model_len \((?:max_position_embeddings=)?(\d+)",
        cause: "a context of {1} tokens is more than the {2} that the model is made for",
        hint: "set `engine.context_length` to {2} or less",
        reference: "vllm-project/vllm#3676, vllm-project/vllm#7080, xorbitsai/inference#1715",
        examples: &[
            "Value error, User-specified max_model_len (999999) is greater than the derived max_model_len (max_position_embeddings=2048.0 or model_max_length=None in model's config.json).",
        ],
    },
    Signature {
        id: "MEM-DERIVED",
        severity: Root(Model),
        pattern: r"context_length \((\d+)\) is greater than the derived context_length \((\d+)\)",
        cause: "a context of {1} tokens is more than the {2} that the model is made for",
        hint: "set `engine.context_length` to {2} or less",
        reference: "own",
        examples: &[
            "ValueError: User-specified context_length (999999) is greater than the derived context_length (4096). This may lead to incorrect model outputs or CUDA errors.",
        ],
    },
    Signature {
        id: "MEM-DERIVED",
        severity: Root(Model),
        pattern: r"is greater than the derived (?:max_model_len|context length)",
        cause: "the context is longer than the model is made for",
        hint: "lower `engine.context_length`",
        reference: "vllm-project/vllm#3676",
        examples: &[
            "ValueError: User-specified context_length (999) is greater than the derived context length (20).",
        ],
    },
    Signature {
        id: "MEM-PROFILE",
        severity: Root(Memory),
        pattern: r"Error in memory profiling",
        cause: "memory became free while the engine measured it: another process ended, or caches were dropped",
        hint: "deploy again while nothing else starts or ends on these nodes",
        reference: "vllm-project/vllm#48140",
        examples: &[
            "AssertionError: Error in memory profiling. Initial free memory 90.1 GiB, current free memory 98.2 GiB.",
        ],
    },
    Signature {
        id: "MEM-CUDA",
        severity: Root(Memory),
        pattern: r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|cudaErrorMemoryAllocation|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY",
        cause: "the GPU ran out of memory at a peak: loading, a long prefill or the capture of graphs",
        hint: "lower `engine.memory_fraction` or `engine.max_requests`, or `--max-num-batched-tokens` in `engine.args`",
        reference: "vllm-project/vllm#2248",
        examples: &[
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 121.7 GiB",
        ],
    },
];
