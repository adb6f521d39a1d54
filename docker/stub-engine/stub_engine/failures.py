"""vLLM's ways to fail at the start: the tracebacks it prints, wrapped as it wraps them."""

from collections.abc import Sequence

from stub_engine.log import PYTHON, SITE, Frame, Process

Failure = tuple[Sequence[Frame], str]  # where, and the error itself

VLLM = f"{SITE}/vllm"
ENTRY = f"{VLLM}/entrypoints/launchers/api_server/entry.py"
ENGINE_FAILED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"

_MAIN = (
    Frame("/usr/local/bin/vllm", 8, "<module>", "sys.exit(main())"),
    Frame(f"{VLLM}/entrypoints/cli/main.py", 120, "main", "args.dispatch_function(args)"),
    Frame(f"{VLLM}/entrypoints/cli/serve.py", 156, "cmd", "uvloop.run(run_server(args))"),
    Frame(f"{SITE}/uvloop/__init__.py", 48, "wrapper", "return await main"),
)
_SETUP = (*_MAIN, Frame(ENTRY, 176, "run_server", "listen_address, sock = setup_server(args, reuse_port=False)"))
_BUILD = (
    *_MAIN,
    Frame(ENTRY, 177, "run_server", "await run_server_worker(listen_address, sock, args, **uvicorn_kwargs)"),
    Frame(ENTRY, 195, "run_server_worker", "async with build_async_engine_client("),
)
_CONFIG = (
    *_BUILD,
    Frame(f"{VLLM}/engine/arg_utils.py", 2240, "create_engine_config", "model_config = self.create_model_config()"),
    Frame(f"{VLLM}/engine/arg_utils.py", 1955, "create_model_config", "return ModelConfig("),
    Frame(f"{SITE}/pydantic/_internal/_dataclasses.py", 121, "__init__",
          "s.__pydantic_validator__.validate_python(ArgsKwargs(args, kwargs), self_instance=s)"),
)
_ENGINE_CLIENT = (
    *_BUILD,
    Frame(f"{VLLM}/v1/engine/async_llm.py", 184, "__init__",
          "self.engine_core = EngineCoreClient.make_async_mp_client("),
    Frame(f"{VLLM}/v1/engine/core_client.py", 682, "__init__", "with launch_core_engines("),
    Frame(f"{VLLM}/v1/engine/utils.py", 1431, "wait_for_engine_startup", "raise RuntimeError("),
)
_CORE = (
    Frame(f"{VLLM}/v1/engine/core.py", 1482, "run_engine_core",
          "engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)"),
    Frame(f"{VLLM}/v1/engine/core.py", 1194, "__init__", "super().__init__("),
)
_EXECUTOR = (
    *_CORE,
    Frame(f"{VLLM}/v1/engine/core.py", 144, "__init__", "self.model_executor = executor_class(vllm_config)"),
    Frame(f"{VLLM}/v1/executor/abstract.py", 126, "__init__", "self._init_executor()"),
)
_CANCELLED = (
    *_CORE,
    Frame(f"{VLLM}/v1/executor/multiproc_executor.py", 405, "collective_rpc",
          "return future if non_block else future.result()"),
    Frame(f"{PYTHON}/concurrent/futures/_base.py", 401, "__get_result", "raise self._exception"),
    Frame(f"{VLLM}/distributed/device_communicators/shm_broadcast.py", 701, "acquire_read",
          'raise RuntimeError("cancelled")'),
)


def no_such_model(path: str) -> Failure:
    frames = (
        *_BUILD,
        Frame(f"{VLLM}/engine/arg_utils.py", 914, "__post_init__",
              "self.model = get_model_path(self.model, self.revision)"),
        Frame(f"{VLLM}/transformers_utils/repo_utils.py", 301, "get_model_path", "return hf_api().snapshot_download("),
        Frame(f"{SITE}/huggingface_hub/utils/_validators.py", 85, "_inner_fn", "validate_repo_id(arg_value)"),
        Frame(f"{SITE}/huggingface_hub/utils/_validators.py", 133, "validate_repo_id", "raise HFValidationError("),
    )
    return frames, ("huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
                    f"'namespace/repo_name': '{path}'. Use `repo_type` argument if needed.")


def no_config(path: str) -> Failure:
    return invalid_config(
        f"Invalid repository ID or local directory specified: '{path}'.\n"
        "Please verify the following requirements:\n"
        "1. Provide a valid Hugging Face repository ID.\n"
        "2. Specify a local directory that contains a recognized configuration file.\n"
        "   - For Hugging Face models: ensure the presence of a 'config.json'.\n"
        "   - For Mistral models: ensure the presence of a 'params.json'.\n")


def too_long(asked: int, derived: int) -> Failure:
    return invalid_config(
        f"User-specified max_model_len ({asked}) is greater than the derived max_model_len (max_position_embeddings="
        f"{derived}.0 or model_max_length=None in model's config.json). To allow overriding this maximum, set the env "
        "var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. ")


def invalid_config(text: str) -> Failure:
    return _CONFIG, ("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
                     f"  Value error, {text}\n"
                     "    For further information visit https://errors.pydantic.dev/2.14/v/value_error")


def port_taken() -> Failure:
    frames = (
        *_SETUP,
        Frame(f"{VLLM}/entrypoints/launchers/launcher.py", 398, "setup_server",
              "sock = create_server_socket(sock_addr, reuse_port=reuse_port)"),
        Frame(f"{VLLM}/entrypoints/launchers/launcher.py", 348, "create_server_socket", "sock.bind(addr)"),
    )
    return frames, "OSError: [Errno 98] Address already in use"


def auto_tools_without_parser() -> Failure:
    return _SETUP, "TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser"


def world_too_large(world: int) -> Failure:
    return _CONFIG[:-2], (
        f"pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\n"
        f"  Value error, World size ({world}) is larger than the number of available GPUs (1) in this node. If this is "
        "intentional and you are using:\n"
        "- ray, set '--distributed-executor-backend ray'.\n"
        "- multiprocessing, set '--nnodes' appropriately.")


def nodes_on_ray() -> Failure:
    return _CONFIG[:-2], (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\n"
        "  Value error, nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher.")


# What goes wrong in a worker, by the milestone of `crash-at`: last frames and error.
WORKER_FAILURES: dict[str, Failure] = {
    "rendezvous": (
        (Frame(f"{VLLM}/v1/worker/gpu_worker.py", 1664, "init_worker_distributed_environment",
               "init_distributed_environment("),
         Frame(f"{SITE}/torch/distributed/distributed_c10d.py", 2169, "_new_process_group_helper",
               "backend_class = ProcessGroupGloo(")),
        "RuntimeError: [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] "
        "ifa != nullptr. Unable to find address for: nope0",
    ),
    "kv": (
        (Frame(f"{VLLM}/v1/engine/core.py", 286, "_initialize_kv_caches",
               "kv_cache_configs = get_kv_cache_configs("),
         Frame(f"{VLLM}/v1/core/kv_cache_utils.py", 780, "_check_enough_kv_cache_memory", "raise ValueError(")),
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.",
    ),
    "graphs": (
        (Frame(f"{VLLM}/v1/worker/gpu_worker.py", 700, "compile_or_warm_up_model",
               "cuda_graph_memory_bytes = self.model_runner.capture_model()"),
         Frame(f"{VLLM}/compilation/cuda_graph.py", 260, "__call__",
               "output = self.runnable(*args, **kwargs)")),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 119.69 "
        "GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 117.95 GiB memory in use.",
    ),
}


def missing_shard(path: str) -> Failure:
    frames = (
        Frame(f"{VLLM}/v1/worker/gpu_worker.py", 594, "load_model",
              "self.model_runner.load_model(load_dummy_weights=load_dummy_weights)"),
        Frame(f"{VLLM}/model_executor/model_loader/default_loader.py", 252, "_prepare_weights",
              "hf_weights_files = filter_duplicate_safetensors_files("),
        Frame(f"{VLLM}/model_executor/model_loader/weight_utils.py", 606, "filter_duplicate_safetensors_files",
              "raise FileNotFoundError("),
    )
    return frames, f"FileNotFoundError: Weight files referenced in index but missing: {{'{path}'}}"


def print_launch_failure(api: Process, failure: Failure) -> None:
    """A failure in the API server itself, before there is an engine."""
    api.print_traceback(*failure)


def print_worker_failure(api: Process, engine: Process, worker: Process, failure: Failure) -> None:
    """A failure of one rank: its own traceback first, then those of all who waited for it."""
    frames, error = failure
    method = Frame(f"{VLLM}/v1/executor/ray_executor_v2.py", 210, "initialize_worker",
                   "worker = RayWorkerProc(**kwargs)")
    worker.log_traceback("ray_executor_v2.py:230", "WorkerProc failed to start.", (method, *frames), error)
    wait = Frame(f"{VLLM}/v1/executor/ray_executor_v2.py", 380, "_init_executor", "raise e from None")
    print_engine_failure(api, engine, (
        (*_EXECUTOR, wait),
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for "
        "root cause."))


def print_headless_failure(main: Process, worker: Process, failure: Failure) -> None:
    """A failure of a rank without an engine core, which ends with it."""
    frames, error = failure
    method = Frame(f"{VLLM}/v1/executor/multiproc_executor.py", 930, "worker_main", "worker = WorkerProc(*args, **kwargs)")
    worker.log_traceback("multiproc_executor.py:953", "WorkerProc failed to start.", (method, *frames), error)
    main.print_traceback((), "Exception: WorkerProc initialization failed due to an exception in a background process. "
                             "See stack trace for root cause.")


def print_core_failure(api: Process, engine: Process, failure: Failure) -> None:
    """A failure in the engine core, where the cause is in its own traceback."""
    frames, error = failure
    print_engine_failure(api, engine, ((*_CORE, *frames), error))


def print_worker_death(api: Process, engine: Process) -> None:
    """The engine core's part in the death of a worker while it starts."""
    print_engine_failure(api, engine, (_CANCELLED, "RuntimeError: cancelled"))


def print_engine_failure(api: Process, engine: Process, failure: Failure) -> None:
    frames, error = failure
    engine.log_traceback("core.py:1510", "EngineCore failed to start.", frames, error)
    run = (Frame(f"{PYTHON}/multiprocessing/process.py", 314, "_bootstrap", "self.run()"),
           Frame(f"{VLLM}/v1/engine/core.py", 1514, "run_engine_core", "raise e"))
    engine.print_traceback((*run, *frames), error, head="Process EngineCore:")
    api.print_traceback(_ENGINE_CLIENT, ENGINE_FAILED)


def print_engine_death(api: Process, engine: Process) -> None:
    """The engine core's death while serving."""
    engine.log_traceback("core.py:1520", "EngineCore encountered a fatal error.", _CANCELLED, "RuntimeError: cancelled")
    frames = (
        Frame(f"{VLLM}/v1/engine/async_llm.py", 849, "output_handler",
              "outputs = await engine_core.get_output_async()"),
        Frame(f"{VLLM}/v1/engine/core_client.py", 1210, "get_output_async",
              "raise self._format_exception(outputs) from None"),
    )
    api.log_traceback("async_llm.py:906", "AsyncLLM output_handler failed.", frames,
                      "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace "
                      "(above) for the root cause.")
