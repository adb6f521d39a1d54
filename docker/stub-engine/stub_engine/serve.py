"""`vllm serve`: the start in its milestones, serving, and the end; on one node, on Ray, or by vLLM's native launch."""

import argparse
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import ray
from stub_engine import VLLM_VERSION, failures, store, vllm_flags
from stub_engine.engine import Engine
from stub_engine.gcs import Node, host_ip
from stub_engine.log import Process, ray_actor_tag, ray_logger_line, say
from stub_engine.process import die_by_sigkill, leave
from stub_engine.scenario import Scenario, ScenarioError
from stub_engine.server import ROUTES, Options, Server
from stub_engine.store import Leader

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
POLL_SECONDS = 0.3
BEFORE_EXIT_SECONDS = 2.0  # from the engine's death to the API server's end
KV_TOKENS = 1_048_576
BANNER = """
       █     █     █▄   ▄█
 ▄▄ ▄█ █     █     █ ▀▄▀ █  version {}
  █▄█▀ █     █     █     █  model   {}
   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀
"""
BAR_ROOM = 10
INDEX = "model.safetensors.index.json"
ACROSS_NODES = "Custom allreduce is disabled because this process group spans across nodes."


class StartFailed(Exception):
    """The start is over and has printed why; the process ends with code 1."""


def serve(args: Sequence[str]) -> int:
    """Returns only if the scenario makes no sense; otherwise the process ends in leave()."""
    try:
        scenario = Scenario.from_env()
    except (ScenarioError, ValueError) as error:
        say(f"stub-engine: {error}", error=True)
        return 2
    from stub_engine.headless import Headless  # it is a Start, too

    options = vllm_flags.parse(args)
    start = Headless(options, scenario) if options.headless else Start(options, scenario)
    # The main thread only waits for signals, so that a stop is prompt whatever the others do.
    # Blocked ones reach us even as a container's first process.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    threading.Thread(target=start.run, daemon=True).start()
    signal.sigwait(STOP_SIGNALS)
    if start.serving:
        start.api.log("launcher.py:254", "[shutdown] API server: shutdown triggered")
        start.api.plain("INFO:     Application shutdown complete.")
        leave(0)
    start.engine_core.log("core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
    leave(128 + signal.SIGTERM)


class Start:
    """One run of the server. The methods up to serve_forever() are its milestones, in order."""

    def __init__(self, args: argparse.Namespace, scenario: Scenario) -> None:
        self.args = args
        self.scenario = scenario
        self.model = Path(args.model)
        self.config: dict[str, Any] = {}
        self.max_model_len = 0
        self.ranks: list[Node] = []
        self.leader: Leader | None = None
        self.world = args.tensor_parallel_size * args.pipeline_parallel_size
        self.workers: list[Process] = []
        self.dead_ranks: list[int] = []
        self.rank_died = threading.Event()
        self.serving = False
        self.api = Process("APIServer", os.getpid())
        self.engine_core = Process("EngineCore", os.getpid() + 208)

    def run(self) -> None:
        try:
            self.announce()
            self.read_model()
            self.start_engine_core()
            self.rendezvous()
            self.load_weights()
            self.reserve_kv_cache()
            self.capture_graphs()
            self.open_server()
        except StartFailed:
            leave(1)
        except Exception:
            # A bug of the stub must end the container, not leave it waiting for signals.
            sys.excepthook(*sys.exc_info())
            leave(70)

    # Milestones

    def announce(self) -> None:
        api, args = self.api, self.args
        api.log("api_utils.py:347", BANNER.format(VLLM_VERSION, args.model))
        api.log("api_utils.py:286", f"non-default args: {args.given}")
        if args.enable_auto_tool_choice and not args.tool_call_parser:
            self.fail_launch(failures.auto_tools_without_parser())
        try:
            self.server = Server(args.host, args.port)
        except OSError:
            self.fail_launch(failures.port_taken())

    def read_model(self) -> None:
        api, args = self.api, self.args
        if not self.model.is_dir():
            self.fail_launch(failures.no_such_model(args.model))
        try:
            self.config = json.loads((self.model / "config.json").read_text())
        except FileNotFoundError:
            self.fail_launch(failures.no_config(args.model))
        architecture = (self.config.get("architectures") or ["Qwen3ForCausalLM"])[0]
        api.log("model.py:733", f"Resolved architecture: {architecture}")
        derived = int(self.config.get("max_position_embeddings") or 32768)
        self.max_model_len = args.max_model_len or derived
        if self.scenario.crash_at == "config":
            self.fail_launch(failures.too_long(self.max_model_len, self.max_model_len // 2))
        if self.max_model_len > derived and os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1":
            self.fail_launch(failures.too_long(self.max_model_len, derived))
        api.log("model.py:2152", f"Using max model len {self.max_model_len}")
        if args.nnodes > 1 and args.distributed_executor_backend == "ray":
            self.fail_launch(failures.nodes_on_ray())
        if self.world > args.nnodes and args.distributed_executor_backend != "ray":
            self.fail_launch(failures.world_too_large(self.world))
        api.log("scheduler.py:307", "Chunked prefill is enabled with max_num_batched_tokens=8192.")
        api.log("vllm.py:1109", "Asynchronous scheduling is enabled.")
        if args.enforce_eager:
            api.log("vllm.py:1703", "Enforce eager set, disabling torch.compile and CUDAGraphs. This is equivalent to "
                                    "setting -cc.mode=none -cc.cudagraph_mode=none", "WARNING")

    def start_engine_core(self) -> None:
        core, args = self.engine_core, self.args
        core.log("core.py:133", f"Initializing a V1 LLM engine (v{VLLM_VERSION}) with config: model='{args.model}', "
                 f"speculative_config=None, tokenizer='{args.model}', skip_tokenizer_init=False, tokenizer_mode=auto, "
                 f"trust_remote_code=False, dtype=torch.bfloat16, max_seq_len={self.max_model_len}, load_format=auto, "
                 f"tensor_parallel_size={args.tensor_parallel_size}, "
                 f"pipeline_parallel_size={args.pipeline_parallel_size}, data_parallel_size=1, "
                 f"disable_custom_all_reduce=False, enforce_eager={args.enforce_eager}, kv_cache_dtype=auto, "
                 f"device_config=cuda, seed=0, served_model_name={self.names()[0]}")
        if args.distributed_executor_backend == "ray":
            self.find_ranks()
            return
        if args.nnodes > 1:
            core.log("multiproc_executor.py:153", "DP group leader: node_rank=0, node_rank_within_dp=0, "
                     f"master_addr={args.master_addr}, mq_connect_ip={host_ip()} (local), world_size={self.world}, "
                     "local_world_size=1")
        self.workers = [Process("Worker", core.pid + 100)]

    def find_ranks(self) -> None:
        """Join the Ray cluster and wait until it has a GPU for each rank; the driver's node comes first."""
        core, size = self.engine_core, self.world
        specs = [{"GPU": 1.0}] * size
        try:
            found = ray.init(logging_level="ERROR")["address"]
        except ConnectionError as error:
            failures.print_core_failure(self.api, core, ((), f"ConnectionError: {error}"))
            raise StartFailed from None
        ray_logger_line("worker.py:1841", f"Connecting to existing Ray cluster at address: {found}...", core.tag)
        ray_logger_line("worker.py:2038", "Connected to Ray cluster.", core.tag)
        core.log("ray_utils.py:624", "No current placement group found. Creating a new placement group.")
        interval, waited = 2.0, 0.0
        while len(self.gpus()) < size:
            time.sleep(0.2)
            waited += 0.2
            if waited >= interval:
                core.log("ray_utils.py:380", f"Waiting for creating a placement group of specs for {int(waited)} "
                         f"seconds. specs={specs}. Check `ray status` and `ray list nodes` to see if you have enough "
                         "resources, and make sure the IP addresses used by ray cluster are the same as VLLM_HOST_IP "
                         "environment variable specified in each node if you are running on a multi-node.")
                interval *= 2
        for node in self.gpus():
            if node["Resources"]["GPU"] < size:
                core.log("ray_utils.py:319", f"tensor_parallel_size={size} is bigger than a reserved number of GPUs "
                         f"({int(node['Resources']['GPU'])} GPUs) in a node {node['NodeID']}. Tensor parallel workers "
                         "can be spread out to 2+ nodes which can degrade the performance unless you have fast "
                         "interconnect across nodes, like Infiniband.", "WARNING")
        here = "node:__internal_head__"
        self.ranks = sorted(self.gpus(), key=lambda node: here not in node["Resources"])[:size]
        for rank, node in enumerate(self.ranks):
            pid = core.pid + 575 if here in node["Resources"] else 183 + rank
            ip = None if here in node["Resources"] else node["NodeManagerAddress"]
            self.workers.append(Process("Worker", pid, core.tag + ray_actor_tag("RayWorkerProc", pid, ip)))
        threading.Thread(target=self.watch_ranks, daemon=True).start()

    def rendezvous(self) -> None:
        size, args = self.world, self.args
        if args.nnodes > 1:
            meeting = f"{args.master_addr}:{args.master_port}"
        else:
            meeting = f"{self.ranks[0]['NodeManagerAddress'] if self.ranks else host_ip()}:{args.port + 20000}"
        for rank, worker in enumerate(self.workers):
            worker.log("parallel_state.py:1906", world_line(size, rank, meeting))
        self.fail_worker_at("rendezvous")
        if args.nnodes > 1:
            try:
                self.leader = Leader(args.master_port, args.nnodes, host_ip())
                self.leader.meet()
            except store.Failed as error:
                self.fail_worker(((), str(error)))
        self.workers[0].log("pynccl.py:113", "vLLM is using nccl==2.28.9")
        self.pause(0.1)
        if size > 1:
            for worker in reversed(self.workers):
                worker.log("custom_all_reduce.py:92", ACROSS_NODES, "WARNING")
        wrong_host_ip = any(node["stub_vllm_ip"] != node["NodeManagerAddress"] for node in self.ranks)
        if "hang" in self.scenario or (size > 1 and wrong_host_ip):
            # With a wrong VLLM_HOST_IP on any rank the real one waits for ever, too, and says nothing.
            self.pause(math.inf)
        if self.leader:
            self.leader.connect()
        for rank, worker in enumerate(self.workers):
            worker.log("parallel_state.py:2350", assigned_line(size, rank))
            worker.name = f"Worker_TP{rank}" if size > 1 else "Worker"

    def load_weights(self) -> None:
        first, seconds = self.workers[0], self.scenario.load_seconds
        for worker in self.workers:
            worker.log("gpu_model_runner.py:4012", f"Starting to load model {self.args.model}...")
        self.tell_stage("load")
        shards = self.shards()
        self.fail_worker_at("load")
        for done in range(len(shards) + 1):
            if done:
                self.pause(seconds / len(shards))
            if "oom" in self.scenario and done > len(shards) // 2:
                die_by_sigkill()
            first.bar(bar("Loading safetensors checkpoint shards:", done, len(shards), seconds, "% Completed | "),
                      first=done == 0)
        first.bar_end()
        for worker in self.workers:
            worker.log("default_loader.py:430", f"Loading weights took {seconds:.2f} seconds")
            worker.log("gpu_model_runner.py:4041", f"Model loading took {self.gigabytes(shards):.2f} GiB memory and "
                       f"{seconds + 0.143369:.6f} seconds")

    def reserve_kv_cache(self) -> None:
        self.tell_stage("kv")
        self.pause(0.05)
        if self.scenario.crash_at == "kv":
            self.workers[0].log("gpu_worker.py:560", "Available KV cache memory: -1.37 GiB")
            failures.print_core_failure(self.api, self.engine_core, failures.WORKER_FAILURES["kv"])
            raise StartFailed
        self.workers[0].log("gpu_worker.py:560", "Available KV cache memory: 12.84 GiB")
        self.engine_core.log("kv_cache_utils.py:2327", f"GPU KV cache size: {KV_TOKENS:,} tokens, Maximum concurrency "
                             f"for {self.max_model_len:,} tokens per request: {KV_TOKENS / self.max_model_len:.2f}x")

    def capture_graphs(self) -> None:
        first = self.workers[0]
        if self.args.enforce_eager and self.scenario.crash_at != "graphs":
            self.engine_core.log("core.py:402", "init engine (profile, create kv cache, warmup model) took 0.31 s")
            return
        for kind in ("PIECEWISE", "FULL"):
            for done in (0, 26, 51):
                first.bar(bar(f"Capturing CUDA graphs ({kind}):", done, 51, 0.1, "%|", blocks=True), first=done == 0)
                self.pause(0.03)
            first.bar_end()
            self.fail_worker_at("graphs")
        first.log("gpu_model_runner.py:5120", "Graph capturing finished in 1 secs, took 0.31 GiB")
        self.engine_core.log("core.py:402", "init engine (profile, create kv cache, warmup model) took 0.52 s "
                             "(compilation: 0.00 s)")

    def open_server(self) -> None:
        api, args = self.api, self.args
        keys = {*args.api_key, *filter(None, [os.environ.get("VLLM_API_KEY")])}
        options = Options(
            names=("another-model",) if "wrong-model" in self.scenario else self.names(), root=args.model,
            max_model_len=self.max_model_len, api_keys=frozenset(keys), reasoning_parser=bool(args.reasoning_parser),
            auto_tools=args.enable_auto_tool_choice, tool_parser=bool(args.tool_call_parser),
            enable_thinking=args.default_chat_template_kwargs.get("enable_thinking", True))
        engine = Engine(self.scenario, KV_TOKENS, args.max_num_seqs)
        self.server.equip(options, self.scenario, engine, api)
        api.log("entry.py:136", "Supported tasks: ['generate']")
        # "Starting vLLM API server 0 on" in older releases.
        api.log("entry.py:140", f"Starting vLLM server on http://{args.host}:{args.port}")
        api.log("launcher.py:186", "Available routes are:")
        for path, methods in ROUTES:
            api.log("launcher.py:195", f"Route: {path}, Methods: {methods}")
        api.plain(f"INFO:     Started server process [{os.getpid()}]")
        api.plain("INFO:     Waiting for application startup.")
        self.pause(0)
        self.server.server_activate()
        self.serving = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        api.plain("INFO:     Application startup complete.")
        if self.leader:
            # vLLM looks after the ranks of a native launch only when it needs them.
            engine.is_whole = self.leader.is_whole
            engine.lost.wait()
        else:
            self.rank_died.wait()
        self.serving = False
        self.report_dead_ranks()
        engine.dead.set()
        failures.print_engine_death(api, self.engine_core)
        time.sleep(BEFORE_EXIT_SECONDS)
        api.plain("INFO:     Shutting down")
        api.plain(f"INFO:     Finished server process [{os.getpid()}]")
        leave(1)

    # What the milestones need

    def names(self) -> tuple[str, ...]:
        return tuple(self.args.served_model_name or [self.args.model])

    def shards(self) -> list[Path]:
        files = shards(self.model)
        for file in files:
            if not file.exists() and (self.model / INDEX).exists():
                self.fail_worker(failures.missing_shard(str(file)))
        return files

    def gigabytes(self, shards: list[Path]) -> float:
        return sum(file.stat().st_size for file in shards if file.exists()) / 2**30 / self.world

    def gpus(self) -> list[Node]:
        """The live nodes, once for each GPU they have."""
        return [node for node in ray.nodes() if node["Alive"] for _ in range(int(node["Resources"].get("GPU", 0)))]

    def tell_stage(self, stage: str) -> None:
        if self.ranks:
            ray.tell_stage(stage)
        if self.leader:
            self.leader.tell(stage)
            # A rank that ends now leaves the others waiting for its part.
            while "worker-crash" in self.scenario or "worker-oom" in self.scenario:
                time.sleep(1)

    def watch_ranks(self) -> None:
        """Notice a rank whose node has left the cluster, or the end of the cluster itself."""
        wanted = {node["NodeID"]: rank for rank, node in enumerate(self.ranks)}
        while not self.dead_ranks:
            time.sleep(POLL_SECONDS)
            try:
                alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
            except ConnectionError:
                alive = set()
            self.dead_ranks = sorted(rank for node, rank in wanted.items() if node not in alive)
        self.rank_died.set()

    def report_dead_ranks(self) -> None:
        if self.leader:
            return  # the failure of a collective operation names no rank
        self.engine_core.log("ray_executor_v2.py:514", f"RayWorkerProc rank={self.dead_ranks} died unexpectedly, "
                             "shutting down executor.", "ERROR")

    def pause(self, seconds: float) -> None:
        """Let time pass, unless a rank dies."""
        if self.rank_died.wait(None if seconds == math.inf else seconds):
            self.report_dead_ranks()
            failures.print_worker_death(self.api, self.engine_core)
            raise StartFailed

    def fail_launch(self, failure: failures.Failure) -> NoReturn:
        failures.print_launch_failure(self.api, failure)
        raise StartFailed

    def fail_worker(self, failure: failures.Failure) -> NoReturn:
        failures.print_worker_failure(self.api, self.engine_core, self.workers[0], failure)
        raise StartFailed

    def fail_worker_at(self, milestone: str) -> None:
        if self.scenario.crash_at == "load" == milestone:
            self.fail_worker(failures.missing_shard(f"{self.args.model}/model-00002-of-00003.safetensors"))
        if self.scenario.crash_at == milestone:
            self.fail_worker(failures.WORKER_FAILURES[milestone])


def shards(model: Path) -> list[Path]:
    """The weight files that the index names, or those that are there; one for show if there are none."""
    index = model / INDEX
    if not index.exists():
        return sorted(model.glob("*.safetensors")) or [model / "model.safetensors"]
    return sorted({model / name for name in json.loads(index.read_text())["weight_map"].values()})


def world_line(size: int, rank: int, meeting: str) -> str:
    return (f"world_size={size} rank={rank} local_rank=0 distributed_init_method=tcp://{meeting} backend=nccl")


def assigned_line(size: int, rank: int) -> str:
    return (f"rank {rank} in world size {size} is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank {rank}, "
            f"ETP rank {rank}, EP rank N/A, EPLB rank N/A")


def bar(title: str, done: int, total: int, seconds: float, unit: str, blocks: bool = False) -> str:
    """A state of a progress bar as tqdm writes it."""
    share = done / total
    clock = f"{int(seconds * share) // 60:02d}:{int(seconds * share) % 60:02d}"
    left = f"{int(seconds * (1 - share)) // 60:02d}:{int(seconds * (1 - share)) % 60:02d}"
    rate = f"{left}, {total / max(seconds, 0.001):.2f}it/s" if done else "?, ?it/s"
    drawn = "█" * int(BAR_ROOM * share) + " " * (BAR_ROOM - int(BAR_ROOM * share)) + "| " if blocks else ""
    return f"{title} {int(100 * share):3d}{unit}{drawn}{done}/{total} [{clock}<{rate}]"
