//! What only `SGLang` says.

use super::Class::{Memory, Waiting};
use super::Severity::Root;
use super::Signature;

pub const SIGNATURES: &[Signature] = &[
    Signature {
        id: "SGL-MEMORY",
        severity: Root(Memory),
        pattern: r"Not enough memory\. Please try to increase --mem-fraction-static|Loaded weights leave no GPU memory for the KV cache",
        cause: "the weights leave no room for the KV cache within `engine.memory_fraction`",
        hint: "raise `engine.memory_fraction`",
        reference: "sgl-project/sglang#6875",
        examples: &[
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.5",
        ],
    },
    Signature {
        id: "SGL-CAPTURE",
        severity: Root(Memory),
        pattern: r"Capture (?:cuda|decode CUDA|draft)? ?graph failed",
        cause: "capturing CUDA graphs failed, mostly for lack of memory",
        hint: "lower `engine.memory_fraction`, or `--cuda-graph-max-bs` in `engine.args`",
        reference: "sgl-project/sglang#1751, sgl-project/sglang#6496",
        examples: &["Exception: Capture cuda graph failed: CUDA error"],
    },
    Signature {
        id: "SGL-UNBALANCED",
        severity: Root(Memory),
        pattern: r"memory capacity is unbalanced",
        cause: "one node has less free memory than the others",
        hint: "stop what else uses memory on that node",
        reference: "sgl-project/sglang#958",
        examples: &[
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
        ],
    },
    Signature {
        id: "SGL-WATCHDOG",
        severity: Root(Waiting),
        pattern: r"watchdog timeout",
        cause: "a forward pass did not end in time: at a standstill, or kernels compiled for the first time",
        hint: "look at what the other rank did last; for a first start raise `--watchdog-timeout` in `engine.args`",
        reference: "sgl-project/sglang#22511",
        examples: &["Watchdog timeout (self.watchdog_timeout=300)"],
    },
    Signature {
        id: "SGL-HEALTH",
        severity: Root(Waiting),
        pattern: r"Health check failed\. Server couldn't get a response from detokenizer",
        cause: "SGLang's scheduler does not answer: at a standstill, or overloaded",
        hint: "look at what the ranks did last, and restart the deployment",
        reference: "sgl-project/sglang#10856, sgl-project/sglang#26482, zai-org/GLM-5#52",
        examples: &[
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
        ],
    },
];
