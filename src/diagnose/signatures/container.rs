//! Docker, and the limits of containers. The first rows are Docker's own errors of a start.

use super::Class::Container;
use super::Severity::Root;
use super::Signature;

pub const SIGNATURES: &[Signature] = &[
    Signature {
        id: "DOCKER-PLATFORM",
        severity: Root(Container),
        pattern: r"exec format error|image platform \(linux/\w+\) does not match|no matching manifest for linux/\w+",
        cause: "the image is for another processor than the node's",
        hint: "name an image for the node's platform in `image.reference`",
        reference: "vllm-project/vllm#30076",
        examples: &["exec /usr/bin/python3: exec format error"],
    },
    Signature {
        id: "DOCKER-GPU",
        severity: Root(Container),
        pattern: r#"could not select device driver "" with capabilities: \[\[gpu\]\]|unknown or invalid runtime name: nvidia|nvidia-container-cli: |unresolvable CDI devices"#,
        cause: "Docker on that node cannot give the GPU to a container",
        hint: "install NVIDIA's container toolkit there, run `nvidia-ctk runtime configure` and restart Docker; check `nvidia-smi`",
        reference: "NVIDIA/nvidia-container-toolkit#854, NVIDIA/nvidia-docker#1034, NVIDIA/nvidia-docker#1682",
        examples: &[
            "could not select device driver \"\" with capabilities: [[gpu]]",
            "nvidia-container-cli: initialization error: nvml error: driver not loaded",
        ],
    },
    Signature {
        id: "DOCKER-DEVICE",
        severity: Root(Container),
        pattern: r#"error gathering device information while adding custom device "([^"]+)""#,
        cause: "the node has no device `{1}`",
        hint: "load the driver for that device on the node; for RDMA check `ibv_devices` there",
        reference: "NVIDIA/nccl#451",
        examples: &[
            "error gathering device information while adding custom device \"/dev/infiniband\": no such file or directory",
        ],
    },
    Signature {
        id: "DOCKER-MOUNT",
        severity: Root(Container),
        pattern: r"bind source path does not exist: (\S+)|error while creating mount source path '([^']+)'",
        cause: "a folder that the container needs is not on that node",
        hint: "create the folder that the line below names, or correct `model.path`",
        reference: "moby/moby#13121",
        examples: &["invalid mount config for type \"bind\": bind source path does not exist: /srv/models/x"],
    },
    Signature {
        id: "DOCKER-COMMAND",
        severity: Root(Container),
        pattern: r#"exec: "([^"]+)": (?:executable file not found|stat \S+: no such file)"#,
        cause: "the image has no program `{1}`",
        hint: "name an image of the engine that `engine.kind` says in `image.reference`",
        reference: "own",
        examples: &[
            "OCI runtime create failed: runc create failed: unable to start container process: exec: \"vllm\": executable file not found in $PATH",
        ],
    },
    Signature {
        id: "DOCKER-NAME",
        severity: Root(Container),
        pattern: r#"The container name "?([^" ]+)"? is already in use"#,
        cause: "there is a container {1} on that node already",
        hint: "remove that container if it is nobody's, or choose another `name`",
        reference: "moby/moby#23371, moby/moby#15311",
        examples: &[
            "Conflict. The container name \"/sparkctl-qwen-0\" is already in use by container \"4f2d\".",
        ],
    },
    Signature {
        id: "DOCKER-PERMISSION",
        severity: Root(Container),
        pattern: r"permission denied while trying to connect to the .*docker",
        cause: "the user may not use Docker on that node",
        hint: "add the user to the group `docker` there and log in again",
        reference: "NVIDIA/nvidia-docker#1138",
        examples: &[
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        ],
    },
    Signature {
        id: "DOCKER-DOWN",
        severity: Root(Container),
        pattern: r"Cannot connect to the Docker daemon",
        cause: "Docker does not run on that node",
        hint: "start it: `sudo systemctl start docker`",
        reference: "own",
        examples: &[
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        ],
    },
    Signature {
        id: "DOCKER-PULL",
        severity: Root(Container),
        pattern: r"manifest unknown|pull access denied|toomanyrequests|No such image: (\S+)",
        cause: "the image is not to be had: no such tag, no login, or the registry's rate limit",
        hint: "check `image.reference`, and log in with `docker login` on the head",
        reference: "vllm-project/vllm#30076",
        examples: &["Error response from daemon: manifest unknown: manifest unknown"],
    },
    Signature {
        id: "SHM-FULL",
        severity: Root(Container),
        pattern: r"Bus error|SIGBUS|No space left on device.*(?:/dev/shm|nccl-)|(?:/dev/shm|nccl-).*No space left on device",
        cause: "shared memory (`/dev/shm`) is full, or a file that was being read was changed",
        hint: "free `/dev/shm` on that node: leftovers of earlier engines lie there",
        reference: "vllm-project/vllm#1710, vllm-project/vllm#18831, NVIDIA/nccl#290",
        examples: &[
            "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-4f2d (size 9637888), error: No space left on device (28)",
        ],
    },
    Signature {
        id: "DISK",
        severity: Root(Container),
        pattern: r"no space left on device|Disk quota exceeded",
        cause: "a disk of that node is full",
        hint: "look at `df -h` there; `docker system df` shows what images and containers take",
        reference: "moby/moby#10613, moby/moby#28404",
        examples: &["OSError: [Errno 28] No space left on device"],
    },
    Signature {
        id: "ULIMIT",
        severity: Root(Container),
        pattern: r"Too many open files",
        cause: "the container may not open enough files",
        hint: "raise Docker's `nofile` limit on that node",
        reference: "own",
        examples: &["OSError: [Errno 24] Too many open files"],
    },
    Signature {
        id: "THREADS",
        severity: Root(Container),
        pattern: r"can't start new thread|pthread_create failed|fork: Resource temporarily unavailable",
        cause: "the container may not start enough processes and threads",
        hint: "raise the limit of processes that Docker sets on that node",
        reference: "vllm-project/vllm#5645, chroma-core/chroma#1682",
        examples: &["RuntimeError: can't start new thread"],
    },
    Signature {
        id: "PIDFD",
        severity: Root(Container),
        pattern: r"pidfd_(?:getfd|open).*(?:not permitted|denied|failed)|cuMem.*Operation not permitted",
        cause: "the node forbids processes of the container to share memory of the GPU",
        hint: "update Docker on that node, and look at its `kernel.yama.ptrace_scope`",
        reference: "moby/moby#45622",
        examples: &["RuntimeError: pidfd_getfd: Operation not permitted"],
    },
];
