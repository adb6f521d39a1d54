//! Lines that look like failures and stand in the logs of healthy starts.

use super::Severity::Benign;
use super::Signature;

pub const SIGNATURES: &[Signature] = &[
    Signature {
        id: "ULIMIT-WARNING",
        severity: Benign,
        pattern: r"Found ulimit of \d+ and failed to automatically increase",
        cause: "the limit of open files could not be raised; enough for a start",
        hint: "",
        reference: "own",
        examples: &[
            "WARNING 11-30 15:02:17 [system_utils.py:299] Found ulimit of 20000 and failed to automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.",
        ],
    },
    Signature {
        id: "RAY-ONE-GPU",
        severity: Benign,
        pattern: r"is bigger than a reserved number of|Tensor parallel size \(\d+\) exceeds available GPUs",
        cause: "one GPU a node is what these machines have",
        hint: "",
        reference: "own",
        examples: &[
            "WARNING 11-30 15:04:39 [ray_utils.py:319] tensor_parallel_size=2 is bigger than a reserved number of GPUs (1 GPUs) in a node 48282b8e. Tensor parallel workers can be spread out to 2+ nodes",
            "WARNING 11-30 15:04:38 [ray_utils.py:559] Tensor parallel size (2) exceeds available GPUs (1). This may result in Ray placement group allocation failures.",
        ],
    },
    Signature {
        id: "NCCL-SOCKET",
        severity: Benign,
        pattern: r"NCCL INFO",
        cause: "NCCL's report of what it does, also where it falls back to TCP, which is slow but works",
        hint: "",
        reference: "NVIDIA/nccl#941, NVIDIA/nccl#451",
        examples: &[
            "g1:312:312 [0] NCCL INFO NET/IB : No device found.",
            "g1:312:312 [0] NCCL INFO Failed to initialize NET plugin IB",
            "g1:312:312 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0",
        ],
    },
    Signature {
        id: "GLOO-NAME",
        severity: Benign,
        pattern: r"The hostname of the client socket cannot be retrieved",
        cause: "no name is known for the peer's address; none is needed",
        hint: "",
        reference: "own",
        examples: &[
            "[W1130 13:12:02.473276800 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
        ],
    },
    Signature {
        id: "SHUTDOWN",
        severity: Benign,
        pattern: r"\[shutdown\]|resource_tracker: There appear to be|destroy_process_group\(\) was not called",
        cause: "the engine stops, or was stopped",
        hint: "",
        reference: "own",
        examples: &[
            "(EngineCore pid=11160) INFO 11-30 13:12:47 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM",
            "UserWarning: resource_tracker: There appear to be 2 leaked shared_memory objects to clean up at shutdown",
            "[rank0]:[W1130 14:32:10.265005585 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
        ],
    },
    Signature {
        id: "CONFIG-DUMP",
        severity: Benign,
        pattern: r"non-default args: |Initializing a V1 LLM engine|server_args=ServerArgs\(",
        cause: "the engine prints its configuration, in which any word may stand",
        hint: "",
        reference: "own",
        examples: &[
            "INFO 11-30 13:11:36 [api_utils.py:286] non-default args: {'trust_remote_code': False, 'port': 98}",
        ],
    },
    Signature {
        id: "SGL-RETRACT",
        severity: Benign,
        pattern: r"KV cache pool is full\. Retract requests",
        cause: "more requests than the KV cache holds at once; some start again",
        hint: "",
        reference: "own",
        examples: &["KV cache pool is full. Retract requests. #retracted_reqs: 3"],
    },
];
