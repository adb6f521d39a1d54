"""SGLang's server: the start in its milestones, serving, and the end. One process stands for all of SGLang's."""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

from stub_engine import sglang_flags, store
from stub_engine.engine import Engine
from stub_engine.log import SITE, Frame, Process, say, traceback_lines
from stub_engine.process import die_by_sigkill, leave
from stub_engine.scenario import Scenario, ScenarioError
from stub_engine.serve import KV_TOKENS, STOP_SIGNALS, bar, shards
from stub_engine.server import Options, Server

SCHEDULER = f"{SITE}/sglang/srt/managers/scheduler.py"
SIGQUIT = "Received sigquit from a child process. It usually means the child failed."
FAILURES = {
    "rendezvous": "RuntimeError: [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] "
                  "ifa != nullptr. Unable to find address for: nope0",
    "load": "RuntimeError: Cannot find any model weights with `{model}`",
    "kv": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
          "self.server_args.mem_fraction_static={fraction}",
    "graphs": "Exception: Capture cuda graph failed: CUDA error: out of memory\nPossible solutions:\n"
              "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
              "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)",
}


class Log(Process):
    """A rank's lines as SGLang writes them: time and rank in brackets."""

    def __init__(self, rank: str = "") -> None:
        super().__init__(rank, os.getpid())

    @property
    def tag(self) -> str:
        return f"[{datetime.now():%Y-%m-%d %H:%M:%S}{f' {self.name}' if self.name else ''}] "

    def plain(self, text: str) -> None:
        say("\n".join(self.tag + line if at == 0 else line for at, line in enumerate(text.split("\n"))), error=True)

    def bar(self, text: str, first: bool = False) -> None:
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()

    def bar_end(self) -> None:
        say("", error=True)


def serve(args: Sequence[str]) -> int:
    try:
        scenario = Scenario.from_env(default_reasoning_field="reasoning_content")
    except (ScenarioError, ValueError) as error:
        say(f"stub-engine: {error}", error=True)
        return 2
    options = sglang_flags.parse(args)
    sglang_flags.refuse(options)
    start = Start(options, scenario)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    threading.Thread(target=start.run, daemon=True).start()
    while True:
        signal.sigwait(STOP_SIGNALS)
        # A rank above 0 does not end when it is told to.
        if options.node_rank == 0:
            leave(0 if start.serving else 128 + signal.SIGTERM)


class Start:
    def __init__(self, args: argparse.Namespace, scenario: Scenario) -> None:
        self.args = args
        self.scenario = scenario
        self.main = Log()
        self.world = args.tp_size * args.pp_size
        self.rank = args.node_rank
        self.log = Log(f"TP{self.rank}" if self.world > 1 else "")
        self.model = Path(args.model_path)
        self.context = 0
        self.serving = False
        self.leader: store.Leader | None = None
        self.follower: store.Follower | None = None

    def run(self) -> None:
        try:
            self.read_model()
            self.rendezvous()
            self.load_weights()
            self.capture_graphs()
            if self.rank:
                self.wait_for_ever()
            self.open_server()
        except Exception:
            # A bug of the stub must end the container, not leave it waiting for signals.
            sys.excepthook(*sys.exc_info())
            leave(70)

    def read_model(self) -> None:
        shown = ", ".join(f"{key}={value!r}" for key, value in vars(self.args).items() if value is not None)
        self.main.plain(f"server_args=ServerArgs({shown})")
        if not (self.model / "config.json").is_file():
            self.fail("huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
                      f"'namespace/repo_name': '{self.model}'. Use `repo_type` argument if needed.", of_child=False)
        config = json.loads((self.model / "config.json").read_text())
        derived = int(config.get("max_position_embeddings") or 32768)
        self.context = self.args.context_length or derived
        if self.scenario.crash_at == "config":
            derived = self.context // 2
        if self.context > derived and os.environ.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") != "1":
            self.fail(f"ValueError: User-specified context_length ({self.context}) is greater than the derived "
                      f"context_length ({derived}). This may lead to incorrect model outputs or CUDA errors. To allow "
                      "overriding this maximum, set the env var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1")
        if self.rank == 0:
            try:
                self.server = Server(self.args.host, self.args.port)
            except OSError:
                self.fail(f"ERROR:    [Errno 98] error while attempting to bind on address ('{self.args.host}', "
                          f"{self.args.port}): address already in use", of_child=False)

    def rendezvous(self) -> None:
        args, log = self.args, self.log
        log.plain("Init torch distributed begin.")
        self.fail_at("rendezvous")
        began = time.monotonic()
        ip = store.own_ip("SGLANG_HOST_IP", "HOST_IP")
        try:
            if args.nnodes > 1 and self.rank == 0:
                self.leader = store.Leader(int(args.dist_init_addr.rpartition(":")[2]), args.nnodes, ip)
                self.leader.meet()
            elif args.nnodes > 1:
                host, _, port = args.dist_init_addr.rpartition(":")
                self.follower = store.Follower(host, int(port), self.rank, ip)
                self.follower.wait_for("met")
        except store.Failed as error:
            self.fail(str(error))
        if "hang" in self.scenario:
            threading.Event().wait()
        if self.leader:
            log.plain("sglang is using nccl==2.28.9")
            self.leader.connect()
        if self.follower:
            self.follower.connect()
            self.follower.wait_for("connected")
        log.plain(f"Init torch distributed ends. elapsed={time.monotonic() - began:.2f} s, mem usage=0.39 GB")

    def load_weights(self) -> None:
        log, seconds = self.log, self.scenario.load_seconds
        log.plain("Load weight begin. avail mem=114.21 GB")
        self.fail_at("load")
        if self.leader:
            self.leader.tell("load")
        if self.follower:
            self.follower.wait_for("load")
            if "worker-oom" in self.scenario:
                die_by_sigkill()
            if "worker-crash" in self.scenario:
                self.fail("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        files = shards(self.model)
        for done in range(len(files) + 1):
            if done:
                time.sleep(seconds / len(files))
            if "oom" in self.scenario and self.rank == 0 and done > len(files) // 2:
                die_by_sigkill()
            log.bar(bar("Loading safetensors checkpoint shards:", done, len(files), seconds, "% Completed | "))
        log.bar_end()
        while self.leader and not self.leader.is_whole():
            time.sleep(1)  # the part of a rank that is gone never comes
        log.plain(f"Load weight end. elapsed={seconds:.2f} s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, "
                  "avail mem=113.87 GB, mem usage=0.34 GB.")
        self.fail_at("kv")
        log.plain(f"KV Cache is allocated. #tokens: {KV_TOKENS}, K size: 6.00 GB, V size: 6.00 GB")
        log.plain("Memory pool end. avail mem=20.11 GB")

    def capture_graphs(self) -> None:
        log = self.log
        if not self.args.disable_cuda_graph or self.scenario.crash_at == "graphs":
            log.plain("Capture cuda graph begin. This can take up to several minutes. avail mem=19.98 GB")
            for done in (0, 2, 4):
                log.bar(bar("Capturing batches (bs=1 avail_mem=19.52 GB):", done, 4, 0.1, "%|", blocks=True))
                time.sleep(0.03)
            log.bar_end()
            self.fail_at("graphs")
            log.plain("Capture cuda graph end. Time elapsed: 0.12 s. mem usage=0.44 GB. avail mem=19.54 GB.")
        log.plain(f"max_total_num_tokens={KV_TOKENS}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
                  f"max_running_requests={self.args.max_running_requests or 4096}, context_len={self.context}, "
                  "available_gpu_mem=19.54 GB")

    def open_server(self) -> None:
        args, main = self.args, self.main
        name = args.served_model_name or args.model_path
        options = Options(
            names=("another-model",) if "wrong-model" in self.scenario else (name,), root=args.model_path,
            max_model_len=self.context, api_keys=frozenset(filter(None, [args.api_key])),
            reasoning_parser=bool(args.reasoning_parser), auto_tools=bool(args.tool_call_parser),
            tool_parser=bool(args.tool_call_parser), enable_thinking=True, engine="sglang",
            metrics=args.enable_metrics)
        engine = Engine(self.scenario, KV_TOKENS, args.max_running_requests or 4096)
        if self.leader:
            engine.waits_for = self.leader.is_whole
        self.server.equip(options, self.scenario, engine, main)
        main.plain(f"INFO:     Started server process [{os.getpid()}]")
        main.plain("INFO:     Waiting for application startup.")
        main.plain("INFO:     Application startup complete.")
        self.server.server_activate()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        main.plain(f"INFO:     Uvicorn running on http://{args.host}:{args.port} (Press CTRL+C to quit)")
        time.sleep(0.1)  # its own first request
        self.log.plain("Prefill batch. #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, "
                       "#running-req: 0, #queue-req: 0, ")
        self.serving = True
        main.plain("The server is fired up and ready to roll!")
        threading.Event().wait()

    def wait_for_ever(self) -> NoReturn:
        """A rank above 0: a server that says that all is well, whatever happens."""
        server = ThreadingHTTPServer((self.args.host, self.args.port), AlwaysWell)
        self.main.plain(f"Dummy health check server started in background thread at {self.args.host}:{self.args.port}")
        server.serve_forever()
        leave(70)

    def fail_at(self, milestone: str) -> None:
        if self.scenario.crash_at == milestone and self.rank == 0:
            self.fail(FAILURES[milestone].format(model=self.model, fraction=self.args.mem_fraction_static))

    def fail(self, error: str, of_child: bool = True) -> NoReturn:
        """A child's failure makes the parent kill itself with all of its children."""
        frames = (Frame(SCHEDULER, 2951, "run_scheduler_process", "scheduler = Scheduler("),)
        text = "\n".join(traceback_lines(frames, error))
        if not of_child:
            say(text, error=True)
            leave(1)
        self.log.plain(f"Scheduler hit an exception: {text}\n")
        self.main.plain(SIGQUIT)
        die_by_sigkill()


class AlwaysWell(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """It says nothing."""
