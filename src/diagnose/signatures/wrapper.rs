//! Lines that only say that something failed elsewhere.

use super::Severity::Wrapper;
use super::Signature;

pub const SIGNATURES: &[Signature] = &[
    Signature {
        id: "NATIVE-GONE",
        severity: Wrapper,
        pattern: r"sparkctl: rank (\d+) at \S+ is gone: ending the engine",
        cause: "rank {1} ended, and with it the group",
        hint: "look into the log of that rank",
        reference: "own",
        examples: &["sparkctl: rank 1 at 192.168.200.12 is gone: ending the engine of rank 0"],
    },
    Signature {
        id: "RAY-WORKER-DEAD",
        severity: Wrapper,
        pattern: r"RayWorkerProc rank=\[?(\d+).*died unexpectedly|Worker proc \S*(\d+) died unexpectedly",
        cause: "a rank's process died",
        hint: "look into the log of that rank, and at the memory of its node",
        reference: "vllm-project/vllm#32136",
        examples: &[
            "ERROR 11-30 15:04:54 [ray_executor_v2.py:514] RayWorkerProc rank=[1] died unexpectedly, shutting down executor.",
            "ERROR 11-30 15:04:54 [multiproc_executor.py:514] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
        ],
    },
    Signature {
        id: "RAY-ACTOR",
        severity: Wrapper,
        pattern: r"RayActorError|ActorDiedError|RayTaskError",
        cause: "a Ray actor died",
        hint: "look into the logs of all ranks for what it said last",
        reference: "vllm-project/vllm#13052",
        examples: &["ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."],
    },
    Signature {
        id: "RAY-EXECUTE",
        severity: Wrapper,
        pattern: r"Error executing method '?(\w+)",
        cause: "a rank failed in `{1}`",
        hint: "look at the traceback after that line",
        reference: "vllm-project/vllm#16450, vllm-project/vllm#4327",
        examples: &[
            "Error executing method 'load_model'. This might cause deadlock in distributed execution.",
        ],
    },
    Signature {
        id: "ENGINE-INIT",
        severity: Wrapper,
        pattern: r"Engine core initialization failed|EngineCore failed to start|WorkerProc failed to start",
        cause: "the engine's core or a worker did not come up",
        hint: "look further up, in the logs of all ranks",
        reference: "vllm-project/vllm#26898, vllm-project/vllm#17618",
        examples: &[
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            "ERROR 11-30 13:09:55 [multiproc_executor.py:953] WorkerProc failed to start.",
        ],
    },
    Signature {
        id: "WORKER-INIT",
        severity: Wrapper,
        pattern: r"WorkerProc initialization failed due to an exception in a background process",
        cause: "a worker failed on its way up",
        hint: "look further up, in the logs of all ranks",
        reference: "vllm-project/vllm#39915",
        examples: &[
            "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.",
        ],
    },
    Signature {
        id: "ENGINE-DEAD",
        severity: Wrapper,
        pattern: r"EngineCore encountered an issue|EngineDeadError",
        cause: "the engine's core died",
        hint: "look further up, in the logs of all ranks",
        reference: "vllm-project/vllm#32136",
        examples: &[
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        ],
    },
    Signature {
        id: "NCCL-SYSTEM",
        severity: Wrapper,
        pattern: r"unhandled system error",
        cause: "NCCL met a fault of sockets, RDMA or shared memory",
        hint: "set `NCCL_DEBUG` to `INFO` in `engine.env` and read the `NCCL WARN` lines before it",
        reference: "vllm-project/vllm#4383, vllm-project/vllm#6574",
        examples: &[
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        ],
    },
    Signature {
        id: "SGL-SCHEDULER",
        severity: Wrapper,
        pattern: r"scheduler died during initialization",
        cause: "SGLang's scheduler died on its way up",
        hint: "look further up, in the logs of all ranks",
        reference: "sgl-project/sglang#21486",
        examples: &["Rank 0 scheduler died during initialization (exit code: 1)"],
    },
    Signature {
        id: "SGL-SIGQUIT",
        severity: Wrapper,
        pattern: r"Received sigquit from a child process",
        cause: "a child process of SGLang failed",
        hint: "look further up, in the logs of all ranks",
        reference: "sgl-project/sglang#15997",
        examples: &["Received sigquit from a child process. It usually means the child failed."],
    },
    Signature {
        id: "SGL-WARMUP",
        severity: Wrapper,
        pattern: r"Initialization failed\. warmup error",
        cause: "SGLang's first request to itself failed",
        hint: "look at the traceback after that line",
        reference: "own",
        examples: &["Initialization failed. warmup error: Traceback (most recent call last):"],
    },
];
