"""The make-believe engine behind the HTTP server: it takes turns, spends time on tokens, counts, and can die."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from stub_engine.scenario import Scenario

FILLER = " the"
ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
BLOCK_TOKENS = 16
BEGAN = time.time()


def process_began() -> str:
    """As the Prometheus client tells it, of the process that answers."""
    name = "process_start_time_seconds"
    return (f"# HELP {name} Start time of the process since unix epoch in seconds.\n# TYPE {name} gauge\n"
            f"{name} {BEGAN}\n")


class EngineDeadError(RuntimeError):
    def __init__(self) -> None:
        super().__init__(ENGINE_DEAD)


@dataclass
class Histogram:
    total: float = 0.0
    count: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1
        for index, bound in enumerate(BUCKETS):
            self.buckets[index] += value <= bound


class Engine:
    def __init__(self, scenario: Scenario, kv_tokens: int, max_num_seqs: int) -> None:
        self.scenario = scenario
        self.kv_tokens = kv_tokens
        self.dead = threading.Event()
        self.lost = threading.Event()
        # Asked at each request, by an engine that looks after its ranks only then: one that fails without them, and one
        # that waits for them for ever.
        self.is_whole: Callable[[], bool] = lambda: True
        self.waits_for: Callable[[], bool] = lambda: True
        self._slots = threading.Semaphore(max_num_seqs)
        self._lock = threading.Lock()
        self._running = 0
        self._waiting = 0
        self._kv_used = 0
        self._counters: Counter[str] = Counter()
        self._finished: Counter[str] = Counter({"stop": 0, "length": 0, "abort": 0, "error": 0})
        self._histograms = {name: Histogram() for name in (
            "time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
            "iteration_tokens_total")}

    def generate(self, prompt_tokens: int, pieces: list[str], max_tokens: int, ignore_eos: bool,
                 client_gone: Callable[[], bool]) -> Generator[str, None, None]:
        """Yield the reply token by token, "" being the end-of-text token. Stops at max_tokens at the latest."""
        began = time.monotonic()
        if not self.is_whole():
            self.lost.set()
            raise EngineDeadError
        with self._lock:
            self._waiting += 1
        self._take_slot()
        size = prompt_tokens + min(max_tokens, len(pieces) + 1)
        with self._lock:
            self._waiting -= 1
            self._running += 1
            self._kv_used += size
            self._counters["prompt_tokens_total"] += prompt_tokens
        reason = "abort"  # unless we get to the end: the client may go away between two tokens
        try:
            while "completions-hang" in self.scenario or not self.waits_for():
                self._pass_time(0.2)
                if client_gone():
                    return
            last = began
            self._pass_time(self.scenario.first_token_seconds)
            for index in range(max_tokens):
                if index:
                    self._pass_time(self.scenario.token_seconds)
                over = index >= len(pieces)
                self._count_token(first=index == 0, since=began if index == 0 else last)
                last = time.monotonic()
                if over and not ignore_eos:
                    reason = "stop"
                    yield ""
                    return
                if index == max_tokens - 1:
                    reason = "length"
                yield FILLER if over else pieces[index]
        except EngineDeadError:
            reason = "error"
            raise
        finally:
            with self._lock:
                self._running -= 1
                self._kv_used -= size
                self._finished[reason] += 1
                self._histograms["e2e_request_latency_seconds"].add(time.monotonic() - began)
            self._slots.release()

    def _take_slot(self) -> None:
        while not self._slots.acquire(timeout=0.2):
            if self.dead.is_set():
                with self._lock:
                    self._waiting -= 1
                raise EngineDeadError

    def _pass_time(self, seconds: float) -> None:
        if self.dead.wait(seconds):
            raise EngineDeadError

    def _count_token(self, first: bool, since: float) -> None:
        name = "time_to_first_token_seconds" if first else "inter_token_latency_seconds"
        with self._lock:
            self._counters["generation_tokens_total"] += 1
            self._histograms[name].add(time.monotonic() - since)
            self._histograms["iteration_tokens_total"].add(1.0)

    def sglang_metrics(self, model: str) -> str:
        """The gauges of SGLang's page."""
        with self._lock:
            gauges = {"num_running_reqs": self._running, "num_queue_reqs": self._waiting,
                      "token_usage": min(1.0, self._kv_used / self.kv_tokens), "max_total_num_tokens": self.kv_tokens}
        return process_began() + "".join(
            f"# HELP sglang:{name} See SGLang's documentation.\n# TYPE sglang:{name} gauge\n"
            f'sglang:{name}{{model_name="{model}"}} {float(value)}\n' for name, value in gauges.items())

    def metrics(self, model: str) -> str:
        """The Prometheus page."""
        labels = f'engine="0",model_name="{model}"'
        lines: list[str] = []

        def family(name: str, kind: str, *samples: tuple[str, str, float]) -> None:
            lines.append(f"# HELP vllm:{name} See vLLM's documentation.")
            lines.append(f"# TYPE vllm:{name} {kind}")
            lines.extend(f"vllm:{name}{suffix}{{{labels}{extra}}} {float(value)}" for suffix, extra, value in samples)

        with self._lock:
            family("num_requests_running", "gauge", ("", "", self._running))
            family("num_requests_waiting", "gauge", ("", "", self._waiting))
            family("kv_cache_usage_perc", "gauge", ("", "", min(1.0, self._kv_used / self.kv_tokens)))
            for name in ("prompt_tokens_total", "generation_tokens_total", "num_preemptions_total",
                         "prefix_cache_queries_total", "prefix_cache_hits_total"):
                family(name, "counter", ("", "", self._counters[name]))
            family("request_success_total", "counter",
                   *(("", f',finished_reason="{reason}"', count) for reason, count in self._finished.items()))
            for name, data in self._histograms.items():
                bounds = [*zip(map(str, BUCKETS), data.buckets, strict=True), ("+Inf", data.count)]
                family(name, "histogram", *(("_bucket", f',le="{bound}"', n) for bound, n in bounds),
                       ("_sum", "", data.total), ("_count", "", data.count))
            family("cache_config_info", "gauge",
                   ("", f',block_size="{BLOCK_TOKENS}",num_gpu_blocks="{self.kv_tokens // BLOCK_TOKENS}",'
                        f'kv_cache_size_tokens="{self.kv_tokens}"', 1))
        return process_began() + "\n".join(lines) + "\n"
