//! GPU architecture, kernels and drivers.

use super::Class::{Architecture, Kernel};
use super::Severity::Root;
use super::Signature;

pub const SIGNATURES: &[Signature] = &[
    Signature {
        id: "XID",
        severity: Root(Kernel),
        pattern: r"NVRM: Xid \([^)]*\): (\d+)",
        cause: "the GPU had a fault: Xid {1}",
        hint: "look up that Xid in NVIDIA's list, and switch the node off and on",
        reference: "vllm-project/vllm#56824",
        examples: &["NVRM: Xid (PCI:000f:01:00): 79, pid=4711, GPU has fallen off the bus."],
    },
    Signature {
        id: "ARCH-NOIMAGE",
        severity: Root(Architecture),
        pattern: r"no kernel image is available for execution on the device",
        cause: "the image was not built for this GPU",
        hint: "name an image built for this GPU (CUDA 13, sm_121 on a DGX Spark) in `image.reference`",
        reference: "vllm-project/vllm#19906, vllm-project/vllm#28129, vllm-project/vllm#36077",
        examples: &[
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        ],
    },
    Signature {
        id: "ARCH-PTXAS",
        severity: Root(Architecture),
        pattern: r"ptxas fatal\s*:\s*Value 'sm_(\w+)' is not defined",
        cause: "the image's ptxas is too old to know sm_{1}",
        hint: "name a newer image in `image.reference`, or set `TRITON_PTXAS_PATH` in `engine.env` to the CUDA 13 tool",
        reference: "gpustack/gpustack#4372",
        examples: &["ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"],
    },
    Signature {
        id: "ARCH-TRITON",
        severity: Root(Architecture),
        pattern: r"device kernel image is invalid|triton\S*CompilationError",
        cause: "Triton's compiled kernel does not fit this GPU: a stale cache, or an image that is too old",
        hint: "empty the engine's cache on that node, or name a newer image in `image.reference`",
        reference: "vllm-project/vllm#18580",
        examples: &["RuntimeError: Triton Error [CUDA]: device kernel image is invalid"],
    },
    Signature {
        id: "ARCH-ILLEGAL",
        severity: Root(Architecture),
        pattern: r"illegal instruction was encountered",
        cause: "a kernel for another GPU ran on this one, mostly one for FP4",
        hint: "choose another backend in `engine.args` or `engine.env`, or name a newer image in `image.reference`",
        reference: "flashinfer-ai/flashinfer#2065, vllm-project/vllm#39761, NVIDIA/TensorRT-LLM#11313",
        examples: &["torch.AcceleratorError: CUDA error: an illegal instruction was encountered"],
    },
    Signature {
        id: "ARCH-ACCESS",
        severity: Root(Architecture),
        pattern: r"illegal memory access",
        cause: "a kernel of the engine is faulty on this GPU",
        hint: "leave out `engine.speculative`, switch CUDA graphs and FlashInfer off in `engine.args`, one after the other, or change the image",
        reference: "vllm-project/vllm#50705",
        examples: &["torch.AcceleratorError: CUDA error: an illegal memory access was encountered"],
    },
    Signature {
        id: "FLASHINFER-BUILD",
        severity: Root(Architecture),
        pattern: r"Ninja build failed|ninja: build stopped|nvcc fatal|Could not find nvcc",
        cause: "kernels could not be compiled: no compiler in the image, an unknown GPU, or too little memory for the jobs",
        hint: "set `MAX_JOBS` to 2 in `engine.env`, or name an image with the CUDA toolkit in `image.reference`",
        reference: "flashinfer-ai/flashinfer#3634, flashinfer-ai/flashinfer#2252",
        examples: &[
            "RuntimeError: Ninja build failed. Ninja output:",
            "ninja: build stopped: subcommand failed.",
        ],
    },
    Signature {
        id: "QUANT-CAPABILITY",
        severity: Root(Architecture),
        pattern: r"is not supported for the current GPU\. (?:Minimum|Required) capability",
        cause: "this GPU cannot run the model's quantisation",
        hint: "point `model.path` to another quantisation of the model",
        reference: "vllm-project/vllm#14154, vllm-project/vllm#4327, vllm-project/vllm#14040",
        examples: &[
            "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. Current capability: 75.",
        ],
    },
    Signature {
        id: "QUANT-BLOCK",
        severity: Root(Architecture),
        pattern: r"is not divisible by weight quantization block_[nk]",
        cause: "the quantisation's blocks do not divide by the ranks",
        hint: "lower `engine.tensor_parallel`, or set `engine.expert_parallel`",
        reference: "vllm-project/vllm#54178, vllm-project/vllm#52997, vllm-project/vllm#44763",
        examples: &[
            "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128.",
        ],
    },
    Signature {
        id: "DTYPE",
        severity: Root(Architecture),
        pattern: r"Bfloat16 is only supported on GPUs",
        cause: "the engine runs on another GPU than it should",
        hint: "check with `nvidia-smi` which GPU that node has",
        reference: "vllm-project/vllm#29707",
        examples: &[
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
        ],
    },
    Signature {
        id: "DRIVER-OLD",
        severity: Root(Architecture),
        pattern: r"ERROR: This container was built for NVIDIA Driver Release|CUDA driver version is insufficient|NVIDIA driver on your system is too old",
        cause: "the node's driver is older than the image needs",
        hint: "update the node's driver, or name an older image in `image.reference`",
        reference: "eugr/spark-vllm-docker#266",
        examples: &[
            "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
            "ERROR: This container was built for NVIDIA Driver Release 580.95 or later, but",
        ],
    },
    Signature {
        id: "DRIVER-HALF",
        severity: Root(Architecture),
        pattern: r"\bError 80([34]):",
        cause: "the driver and its library do not fit (error 80{1}): a half-done update, or a compatibility library in the way",
        hint: "restart the node",
        reference: "gpustack/gpustack#4678, noonghunna/club-3090#633",
        examples: &[
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination",
        ],
    },
    Signature {
        id: "DEVICE-NONE",
        severity: Root(Architecture),
        pattern: r"Failed to infer device type|No CUDA GPUs are available|no CUDA-capable device is detected",
        cause: "the container sees no GPU",
        hint: "check that `docker run --rm --gpus all` shows the GPU with `nvidia-smi` on that node",
        reference: "vllm-project/vllm#12847, vllm-project/vllm#13946, ray-project/ray#51967",
        examples: &[
            "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
        ],
    },
];
