"""`vllm serve --headless`: a rank above 0 of a native launch."""

import argparse
import os
import threading
import time

from stub_engine import VLLM_VERSION, failures, store
from stub_engine.gcs import host_ip
from stub_engine.log import Process
from stub_engine.process import die_by_sigkill
from stub_engine.scenario import Scenario
from stub_engine.serve import ACROSS_NODES, Start, StartFailed, assigned_line, world_line
from stub_engine.store import Follower


class Headless(Start):
    """No endpoint, no engine core."""

    def __init__(self, args: argparse.Namespace, scenario: Scenario) -> None:
        super().__init__(args, scenario)
        self.api = Process("MainProcess", os.getpid())
        self.workers = [Process("Worker", os.getpid() + 29)]

    def announce(self) -> None:
        """A server is what it does not have."""

    def start_engine_core(self) -> None:
        args = self.args
        self.api.log("serve.py:224", f"Launching vLLM (v{VLLM_VERSION}) headless multiproc executor, with head node "
                     f"address {args.master_addr}:{args.master_port} for torch.distributed process group.")

    def rendezvous(self) -> None:
        args, worker = self.args, self.workers[0]
        rank, size = args.node_rank, self.world
        worker.log("parallel_state.py:1906", world_line(size, rank, f"{args.master_addr}:{args.master_port}"))
        try:
            self.follower = Follower(args.master_addr, args.master_port, rank, host_ip())
        except store.Failed as error:
            failures.print_headless_failure(self.api, worker, ((), str(error)))
            raise StartFailed from None
        self.follower.wait_for("met")
        worker.log("custom_all_reduce.py:92", ACROSS_NODES, "WARNING")
        self.follower.connect()
        self.follower.wait_for("connected")
        worker.log("parallel_state.py:2350", assigned_line(size, rank))
        worker.name = f"Worker_TP{rank}"

    def load_weights(self) -> None:
        self.follower.wait_for("load")
        worker, seconds = self.workers[0], self.scenario.load_seconds
        worker.log("gpu_model_runner.py:4012", f"Starting to load model {self.args.model}...")
        if "worker-oom" in self.scenario:
            die_by_sigkill()
        if "worker-crash" in self.scenario:
            failures.print_headless_failure(self.api, worker, failures.WORKER_FAILURES["graphs"])
            raise StartFailed
        time.sleep(seconds)
        worker.log("default_loader.py:430", f"Loading weights took {seconds:.2f} seconds")
        # Here it stays, also when the head is gone.
        threading.Event().wait()
