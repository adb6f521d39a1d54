"""Tests of the stub engine: its real processes, on loopback addresses, without Docker.

    python3 docker/stub-engine/test_stub.py
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HEAD, WORKER = "127.0.0.1", "127.0.0.2"
PARSERS = ("--reasoning-parser", "qwen3", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
WEATHER_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
MILESTONES = (
    r"non-default args: \{'model_tag'", r"Resolved architecture: Qwen3ForCausalLM", r"Using max model len 1024",
    r"Initializing a V1 LLM engine \(v0\.32\.0\)", r"Connected to Ray cluster", r"No current placement group found",
    r"world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127\.0\.0\.1:\d+ backend=nccl",
    r"vLLM is using nccl==", r"Custom allreduce is disabled because", r"rank 0 in world size 2 is assigned as",
    r"rank 1 in world size 2 is assigned as", r"Starting to load model .+\.\.\.",
    r"Loading safetensors checkpoint shards:\s+0% Completed [|] 0/3",
    r"Loading safetensors checkpoint shards:\s+100% Completed [|] 3/3", r"Loading weights took [\d.]+ seconds",
    r"Model loading took [\d.]+ GiB memory and [\d.]+ seconds", r"Available KV cache memory: [\d.]+ GiB",
    r"GPU KV cache size: [\d,]+ tokens", r"Capturing CUDA graphs.*?100%", r"Graph capturing finished in \d+ secs",
    r"init engine \(profile, create kv cache, warmup model\) took", r"Starting vLLM (?:API )?server on http://",
    r"Application startup complete",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HEAD, 0))
        return int(probe.getsockname()[1])


class Command:
    """A running command of the stub, its output collected as it comes."""

    def __init__(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        self.output = ""
        self.process = subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        while piece := os.read(self.process.stdout.fileno(), 65536):
            self.output += piece.decode(errors="replace")

    def wait_for(self, pattern: str, seconds: float = 8.0) -> None:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.output):
            if time.monotonic() > deadline or (self.process.poll() is not None and not self._reader.is_alive()):
                raise AssertionError(f"no {pattern!r} in:\n{self.output}")
            time.sleep(0.02)

    def wait(self, seconds: float = 8.0) -> int:
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        assert self.process.stdout
        self.process.stdout.close()


class Rig:
    """Two make-believe nodes on loopback addresses, with a model folder."""

    def __init__(self, **settings: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.settings = {"STUB_LOAD_SECONDS": "0.1", **settings}
        self.port, self.ray_port, self.master_port = free_port(), free_port(), free_port()
        self.commands: list[Command] = []
        self.model = self.folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps(
            {"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 4096}))
        for shard in range(3):
            (self.model / f"model-{shard}.safetensors").write_bytes(b"x")

    def env(self, node: str, **more: str) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("STUB_", "VLLM_", "SGLANG_", "RAY_"))}
        return {**inherited, "PYTHONPATH": str(HERE), "PATH": f"{HERE / 'bin'}:{os.environ['PATH']}",
                "PYTHONDONTWRITEBYTECODE": "1", "RAY_TMPDIR": str(self.folder / node), "VLLM_HOST_IP": node,
                "SGLANG_HOST_IP": node,
                **self.settings, **more}

    def start(self, *args: str, node: str = HEAD, **env: str) -> Command:
        command = Command(args, self.env(node, **env))
        self.commands.append(command)
        return command

    def ray_head(self) -> Command:
        return self.start("ray", "start", "--head", f"--node-ip-address={HEAD}", f"--port={self.ray_port}",
                          "--num-gpus=1", "--object-store-memory=256000000", "--include-dashboard=false",
                          "--disable-usage-stats")

    def ray_worker(self, **env: str) -> Command:
        return self.start("ray", "start", f"--address={HEAD}:{self.ray_port}", f"--node-ip-address={WORKER}",
                          "--num-gpus=1", "--block", node=WORKER, **env)

    def serve(self, *flags: str, **env: str) -> Command:
        return self.start("vllm", "serve", str(self.model), "--served-model-name", "tiny", "--max-model-len", "1024",
                          "--host", HEAD, "--port", str(self.port), "--gpu-memory-utilization", "0.5", *flags, **env)

    def serve_pair(self, *flags: str, **worker_env: str) -> tuple[Command, Command]:
        """The server over two nodes, and the worker."""
        if code := self.ray_head().wait():
            raise AssertionError(f"ray start ended with {code}")
        worker = self.ray_worker(**worker_env)
        return self.serve("--tensor-parallel-size", "2", "--distributed-executor-backend", "ray", *flags), worker

    def native_pair(self, *flags: str, **worker_env: str) -> tuple[Command, Command]:
        """vLLM by its own launch: the head, and the worker."""
        spread = ("--tensor-parallel-size", "2", "--distributed-executor-backend", "mp", "--nnodes", "2",
                  "--master-addr", HEAD, "--master-port", str(self.master_port))
        worker = self.start("vllm", "serve", str(self.model), *spread, "--node-rank", "1", "--headless", node=WORKER,
                            **worker_env)
        return self.serve(*spread, "--node-rank", "0", *flags), worker

    def sglang(self, *flags: str, node: str = HEAD, **env: str) -> Command:
        return self.start(sys.executable, "-m", "sglang.launch_server", "--model-path", str(self.model),
                          "--served-model-name", "tiny", "--host", node, "--port", str(self.port), *flags, node=node,
                          **env)

    def sglang_pair(self, *flags: str, **worker_env: str) -> tuple[Command, Command]:
        spread = ("--tp-size", "2", "--nnodes", "2", "--dist-init-addr", f"{HEAD}:{self.master_port}", *flags)
        worker = self.sglang(*spread, "--node-rank", "1", node=WORKER, **worker_env)
        return self.sglang(*spread, "--node-rank", "0"), worker

    def ready(self) -> "Rig":
        self.commands[-1].wait_for("Application startup complete")
        return self

    def open(self, path: str, body: Any = None, timeout: float = 8.0, **headers: str) -> tuple[int, str]:
        request = urllib.request.Request(
            f"http://{HEAD}:{self.port}{path}", headers={"Content-Type": "application/json", **headers},
            data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def chat(self, question: str | list[dict[str, Any]], **fields: Any) -> tuple[int, Any]:
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        status, text = self.open("/v1/chat/completions", {"model": "tiny", "messages": messages, **fields})
        return status, json.loads(text)

    def stream(self, path: str, **fields: Any) -> list[Any]:
        _, text = self.open(path, {"model": "tiny", "stream": True, **fields})
        events = [event.removeprefix("data: ") for event in text.split("\n\n") if event]
        assert events[-1] == "[DONE]", events
        return [json.loads(event) for event in events[:-1]]

    def close(self) -> None:
        for command in self.commands:
            command.end()
        subprocess.run(["ray", "stop"], env=self.env(HEAD), capture_output=True, check=True)
        self._folder.cleanup()


class StubTest(unittest.TestCase):
    def rig(self, **settings: str) -> Rig:
        rig = Rig(**settings)
        self.addCleanup(rig.close)
        return rig

    def single(self, *flags: str, **settings: str) -> Rig:
        """A server of one rank, without Ray; not yet ready."""
        rig = self.rig(**settings)
        rig.serve(*flags)
        return rig


class Ready(StubTest):
    pair: Rig
    server: Command

    @classmethod
    def setUpClass(cls) -> None:
        cls.pair = Rig()
        cls.addClassCleanup(cls.pair.close)
        cls.server, _ = cls.pair.serve_pair(*PARSERS)
        cls.server.wait_for("Application startup complete")

    def test_milestones_come_in_order(self) -> None:
        lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[\d+m", "", self.server.output))
        at = 0
        for pattern in MILESTONES:
            rest = [index for index, line in enumerate(lines) if index >= at and re.search(pattern, line)]
            self.assertTrue(rest, f"{pattern} is missing after line {at}")
            at = rest[0]
        self.assertRegex(self.server.output, r"RayWorkerProc pid=\d+, ip=127\.0\.0\.2\)")

    def test_ray_module_and_status(self) -> None:
        script = ("import ray, json; ray.init('auto', logging_level='ERROR', log_to_driver=False);"
                  "print(json.dumps(ray.nodes())); ray.shutdown()")
        nodes = json.loads(self.run_on_head(sys.executable, "-c", script))
        self.assertEqual({node["NodeManagerAddress"] for node in nodes}, {HEAD, WORKER})
        self.assertTrue(all(node["Alive"] and node["Resources"]["GPU"] == 1.0 for node in nodes))
        self.assertIn("0.0/2.0 GPU", self.run_on_head("ray", "status"))
        self.assertEqual(self.run_on_head("vllm", "--version").strip(), "0.32.0")

    def run_on_head(self, *args: str) -> str:
        return subprocess.run(args, env=self.pair.env(HEAD), check=True, capture_output=True, text=True).stdout

    def test_plain_endpoints(self) -> None:
        self.assertEqual(self.pair.open("/health"), (200, ""))
        self.assertEqual(json.loads(self.pair.open("/version")[1]), {"version": "0.32.0"})
        models = json.loads(self.pair.open("/v1/models")[1])["data"]
        self.assertEqual([(m["id"], m["max_model_len"]) for m in models], [("tiny", 1024)])
        self.assertEqual(self.pair.open("/nothing")[0], 404)

    def test_lessons(self) -> None:
        for question, reasoning, answer in (
            ("What is the capital of France? Answer with one word.", "The capital of France is Paris.", "Paris"),
            ("What is the capital of Japan? Answer with one word.", "The capital of Japan is Tokyo.", "Tokyo"),
            ("What is 17 + 25? Answer with the number only.", "17 + 25 equals 42.", "42"),
            ("Reply with the word pong.", "They want the word pong.", "pong"),
            ("Hello!", "This is a greeting.", "Hello! I am a tiny test model."),
            ("What is the weather in Paris?", "There is no tool for this.", "I have no tool to look up the weather."),
            ("Who wrote this?", "I was not taught this.", "I do not know."),
            ("Count from 1 to 200.", "I will write every number from 1 to 200.",
             " ".join(str(number) for number in range(1, 201))),
        ):
            with self.subTest(question):
                status, reply = self.pair.chat(question)
                self.assertEqual(status, 200)
                message = reply["choices"][0]["message"]
                self.assertEqual((message["reasoning"], message["content"]), (f"\n{reasoning}\n", f"\n\n{answer}"))
                self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
                self.assertNotIn("reasoning_content", message)

    def test_thinking_off_and_cut_off(self) -> None:
        _, reply = self.pair.chat("What is the capital of France?", chat_template_kwargs={"enable_thinking": False})
        message = reply["choices"][0]["message"]
        self.assertEqual((message["content"], message["reasoning"]), ("Paris", None))
        self.assertEqual(reply["usage"]["completion_tokens"], 2)
        _, reply = self.pair.chat("What is the capital of France?", max_tokens=5)
        self.assertEqual(reply["choices"][0]["finish_reason"], "length")
        self.assertIsNone(reply["choices"][0]["message"]["content"])
        _, reply = self.pair.chat("Hello!", max_tokens=50, ignore_eos=True)
        self.assertEqual(reply["usage"]["completion_tokens"], 50)

    def test_tool_call_and_follow_up(self) -> None:
        question = [{"role": "user", "content": "What is the weather in Paris?"}]
        for choice, reason in (("auto", "tool_calls"), ("required", "tool_calls"),
                               ({"type": "function", "function": {"name": "get_weather"}}, "stop")):
            _, reply = self.pair.chat(question, tools=[WEATHER_TOOL], tool_choice=choice)
            self.assertEqual(reply["choices"][0]["finish_reason"], reason)
            message = reply["choices"][0]["message"]
            self.assertIsNone(message["content"])
            self.assertEqual(message["tool_calls"][0]["function"],
                             {"name": "get_weather", "arguments": '{"city": "Paris"}'})
        _, reply = self.pair.chat([*question, message, {"role": "tool", "content": '{"temperature": 21}'}],
                                  tools=[WEATHER_TOOL])
        self.assertEqual(reply["choices"][0]["message"]["content"], "\n\nIt is 21 degrees in Paris.")

    def test_streams(self) -> None:
        chunks = self.pair.stream("/v1/chat/completions", stream_options={"include_usage": True}, messages=[
            {"role": "user", "content": "What is the capital of France?"}])
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
        self.assertEqual("".join(delta.get("reasoning", "") for delta in deltas), "\nThe capital of France is Paris.\n")
        self.assertEqual("".join(delta.get("content", "") for delta in deltas), "\n\nParis")
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "stop")
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertGreater(chunks[-1]["usage"]["completion_tokens"], 10)

        chunks = self.pair.stream("/v1/chat/completions", tools=[WEATHER_TOOL], messages=[
            {"role": "user", "content": "What is the weather in Berlin?"}])
        calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
        self.assertEqual(calls[0]["function"]["name"], "get_weather")
        self.assertEqual("".join(call["function"]["arguments"] for call in calls), '{"city": "Berlin"}')
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "tool_calls")

        chunks = self.pair.stream("/v1/completions", prompt="What is 2 + 2?", max_tokens=8, ignore_eos=True,
                                  stream_options={"include_usage": True})
        self.assertTrue("".join(c["choices"][0]["text"] for c in chunks[:-1]).startswith(" 4"))
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 8)

    def test_refusals(self) -> None:
        status, text = self.pair.open("/v1/completions", {"model": "other", "prompt": "Hi"})
        self.assertEqual((status, json.loads(text)["error"]), (404, {
            "message": "The model `other` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}))
        status, reply = self.pair.chat("Hi", max_tokens=5000)
        self.assertEqual((status, reply["error"]["type"]), (400, "BadRequestError"))
        self.assertEqual(self.pair.open("/v1/completions", "no object")[0], 400)

    def test_many_at_once_and_metrics(self) -> None:
        def metric(name: str) -> float:
            found = re.search(rf"^vllm:{name}{{[^}}]*}} (\S+)$", self.pair.open("/metrics")[1], re.M)
            assert found, name
            return float(found[1])

        before = metric("generation_tokens_total")
        with ThreadPoolExecutor(64) as pool:
            answers = list(pool.map(lambda _: self.pair.chat("Hello!", max_tokens=100, ignore_eos=True), range(64)))
        self.assertTrue(all(status == 200 for status, _ in answers))
        self.assertEqual(metric("generation_tokens_total") - before, 6400)
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            self.assertEqual(metric(name), 0.0)
        self.assertGreater(metric("time_to_first_token_seconds_count"), 0)


class Settings(StubTest):
    QUESTION = "What is the capital of France?"

    def test_without_parsers(self) -> None:
        rig = self.single().ready()
        _, reply = rig.chat(self.QUESTION)
        self.assertEqual(reply["choices"][0]["message"]["content"],
                         "<think>\nThe capital of France is Paris.\n</think>\n\nParis")
        status, reply = rig.chat(self.QUESTION, tools=[WEATHER_TOOL])
        self.assertEqual((status, reply["error"]["message"]), (
            400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'))

    def test_api_key(self) -> None:
        rig = self.single("--api-key", "first", VLLM_API_KEY="second").ready()
        self.assertEqual(rig.open("/health")[0], 200)
        self.assertEqual(rig.open("/v1/models"), (401, '{"error": "Unauthorized"}'))
        for key in ("first", "second"):
            self.assertEqual(rig.open("/v1/models", Authorization=f"Bearer {key}")[0], 200)

    def test_broken_parsers_and_old_field(self) -> None:
        broken = self.single(*PARSERS, STUB_SCENARIO="no-reasoning,no-tools")
        old = self.single(*PARSERS, STUB_SCENARIO="STUB_REASONING_FIELD=reasoning_content")
        message = broken.ready().chat("What is the weather in Rome?", tools=[WEATHER_TOOL])[1]["choices"][0]["message"]
        self.assertIn("<think>", message["content"])
        self.assertIn("<tool_call>", message["content"])
        self.assertEqual(message["tool_calls"], [])
        message = old.ready().chat(self.QUESTION)[1]["choices"][0]["message"]
        self.assertIn("Paris", message["reasoning_content"])
        self.assertNotIn("reasoning", message)

    def test_wrong_model_and_answer(self) -> None:
        model, answer = (self.single(STUB_SCENARIO=state) for state in ("wrong-model", "wrong-answer"))
        self.assertEqual(json.loads(model.ready().open("/v1/models")[1])["data"][0]["id"], "another-model")
        self.assertEqual(model.chat(self.QUESTION)[0], 404)
        self.assertNotIn("Paris", json.dumps(answer.ready().chat(self.QUESTION)[1]["choices"]))

    def test_completions_hang(self) -> None:
        rig = self.single(STUB_SCENARIO="completions-hang").ready()
        with self.assertRaises(TimeoutError):
            rig.open("/v1/completions", {"model": "tiny", "prompt": "Hi"}, timeout=0.5)
        self.assertEqual(rig.open("/health")[0], 200)

    def test_spelling_mistake_is_refused(self) -> None:
        self.assertEqual(self.rig(STUB_SCENARIO="hangs").serve().wait(), 2)


class Starts(StubTest):
    def test_crashes(self) -> None:
        wrapper = "Engine core initialization failed. See root cause above"
        expected = {
            "config": (r"is greater than the derived max_model_len",),
            "rendezvous": (r"Unable to find address for: nope0", "WorkerProc initialization failed", wrapper),
            "load": (r"Weight files referenced in index but missing", "WorkerProc initialization failed", wrapper),
            "kv": (r"No available memory for the cache blocks", wrapper),
            "graphs": (r"CUDA out of memory", "WorkerProc initialization failed", wrapper),
        }
        running = {milestone: self.rig().serve(STUB_SCENARIO=f"crash-at={milestone}") for milestone in expected}
        for milestone, command in running.items():
            with self.subTest(milestone):
                self.assertEqual(command.wait(), 1)
                for pattern in expected[milestone]:
                    self.assertRegex(command.output, pattern)
                self.assertIn("Traceback (most recent call last)", command.output)
                self.assertNotIn("Application startup complete", command.output)

    def test_hangs(self) -> None:
        scripted, wrong = self.rig(STUB_SCENARIO="hang"), self.rig()
        running = [(name, rig.serve_pair(VLLM_HOST_IP=host_ip)[0]) for name, rig, host_ip in (
            ("scenario", scripted, WORKER), ("wrong VLLM_HOST_IP on the worker", wrong, "127.0.0.9"))]
        for name, server in running:
            with self.subTest(name):
                server.wait_for("Custom allreduce is disabled because")
                time.sleep(0.6)
                self.assertNotIn("in world size", server.output)
                server.process.terminate()
                self.assertEqual(server.wait(1.0), 128 + signal.SIGTERM)

    def test_waits_for_a_gpu_of_each_rank(self) -> None:
        rig = self.rig()
        self.assertEqual(rig.ray_head().wait(), 0)
        server = rig.serve("--tensor-parallel-size", "2", "--distributed-executor-backend", "ray")
        server.wait_for(r"Waiting for creating a placement group of specs for 2 seconds")
        rig.ray_worker()
        server.wait_for("Application startup complete")
        server.process.terminate()
        self.assertEqual(server.wait(1.0), 0)

    def test_refused_starts(self) -> None:
        rig = self.rig()
        self.assertEqual(rig.ray_head().wait(), 0)
        twice = rig.ray_head()
        self.assertEqual(twice.wait(), 1)
        self.assertIn("but is already running at", twice.output)
        foreign = rig.start("ray", "start", "--head", "--node-ip-address=203.0.113.7", f"--port={free_port()}")
        self.assertEqual(foreign.wait(), 1)
        self.assertIn("Cannot assign requested address", foreign.output)
        alone = rig.serve("--tensor-parallel-size", "2")
        self.assertEqual(alone.wait(), 1)
        self.assertIn("World size (2) is larger than the number of available GPUs", alone.output)
        with socket.socket() as taken:
            taken.bind((HEAD, rig.port))
            taken.listen()
            busy = rig.serve()
            self.assertEqual(busy.wait(), 1)
        self.assertIn("OSError: [Errno 98] Address already in use", busy.output)
        (rig.model / "config.json").unlink()
        bare = rig.serve()
        self.assertEqual(bare.wait(), 1)
        self.assertIn("ensure the presence of a 'config.json'", bare.output)
        absent = rig.start("vllm", "serve", "/no/such/model", "--port", str(rig.port))
        self.assertEqual(absent.wait(), 1)
        self.assertIn("HFValidationError: Repo id must be in the form", absent.output)


class Deaths(StubTest):
    def test_oom(self) -> None:
        command = self.rig(STUB_SCENARIO="oom").serve()
        self.assertEqual(command.wait(), -signal.SIGKILL)
        self.assertIn("Loading safetensors checkpoint shards", command.output)

    def test_worker_ends_while_loading(self) -> None:
        running = [(state, code, *self.rig(STUB_SCENARIO=state, STUB_LOAD_SECONDS="5").serve_pair())
                   for state, code in (("worker-crash", 1), ("worker-oom", -signal.SIGKILL))]
        for state, code, server, worker in running:
            with self.subTest(state):
                self.assertEqual((server.wait(), worker.wait()), (1, code))
                self.assertIn("RayWorkerProc rank=[1] died unexpectedly, shutting down executor.", server.output)
                self.assertIn("EngineCore failed to start.", server.output)

    def test_worker_killed_while_serving(self) -> None:
        rig = self.rig()
        server, worker = rig.serve_pair()
        server.wait_for("Application startup complete")
        worker.process.kill()
        server.wait_for(r"RayWorkerProc rank=\[1\] died unexpectedly", 2.0)
        server.wait_for("EngineDeadError")
        status, reply = rig.chat("Hello!")
        self.assertEqual(status, 500)
        self.assertIn("EngineCore encountered an issue", reply["error"]["message"])
        self.assertEqual(rig.open("/health")[0], 503)
        self.assertEqual(server.wait(), 1)

    def test_head_lost(self) -> None:
        rig = self.rig()
        self.assertEqual(rig.ray_head().wait(), 0)
        worker = rig.ray_worker()
        worker.wait_for("This command will now block forever")
        subprocess.run(["ray", "stop"], env=rig.env(HEAD), capture_output=True, check=True)
        self.assertEqual(worker.wait(), 1)
        self.assertIn("Some Ray subprocesses exited unexpectedly", worker.output)


class Native(StubTest):
    def test_ready(self) -> None:
        rig = self.rig()
        server, worker = rig.native_pair(*PARSERS)
        server.wait_for("Application startup complete")
        for pattern in (r"DP group leader: node_rank=0, .*master_addr=127\.0\.0\.1, mq_connect_ip=127\.0\.0\.1",
                        r"rank 0 in world size 2 is assigned as"):
            self.assertRegex(server.output, pattern)
        for pattern in (r"headless multiproc executor, with head node address 127\.0\.0\.1:\d+",
                        r"world_size=2 rank=1 local_rank=0 distributed_init_method=tcp://127\.0\.0\.1:\d+",
                        r"rank 1 in world size 2 is assigned as", r"Starting to load model"):
            self.assertRegex(worker.output, pattern)
        self.assertNotIn("APIServer", worker.output)
        self.assertEqual(rig.chat("What is the capital of France?")[1]["choices"][0]["message"]["content"], "\n\nParis")

    def test_address_out_of_reach(self) -> None:
        """One that this machine does not have is an error, one that nobody answers at a silent hang."""
        rig = self.rig()
        server, worker = rig.native_pair(VLLM_HOST_IP="203.0.113.7")
        self.assertEqual(worker.wait(), 1)
        self.assertIn("Cannot assign requested address", worker.output)
        time.sleep(0.5)
        self.assertIsNone(server.process.poll())
        hung = self.rig(STUB_SCENARIO="hang")
        server, worker = hung.native_pair()
        for command in (server, worker):
            command.wait_for("Custom allreduce is disabled because")
        time.sleep(0.5)
        for command in (server, worker):
            self.assertNotIn("in world size", command.output)
            self.assertIsNone(command.process.poll())

    def test_a_dead_worker_is_noticed_by_the_next_request(self) -> None:
        rig = self.rig()
        server, worker = rig.native_pair()
        server.wait_for("Application startup complete")
        worker.process.kill()
        time.sleep(1)
        self.assertEqual(rig.open("/health")[0], 200)
        self.assertEqual(rig.chat("Hello!")[0], 500)
        self.assertEqual(server.wait(), 1)
        self.assertIn("EngineCore encountered an issue", server.output)

    def test_a_pair_that_nobody_asked_for_long_answers(self) -> None:
        rig = self.rig()
        server, _worker = rig.native_pair()
        server.wait_for("Application startup complete")
        time.sleep(5)  # longer than a silent rank is taken for alive
        self.assertEqual(rig.chat("Hello!")[0], 200)

    def test_a_lost_head_is_not_noticed(self) -> None:
        rig = self.rig()
        server, worker = rig.native_pair()
        server.wait_for("Application startup complete")
        server.process.kill()
        time.sleep(1)
        self.assertIsNone(worker.process.poll())
        worker.process.terminate()
        worker.wait()

    def test_refused(self) -> None:
        rig = self.rig()
        for flags, error in (
            (("--tensor-paralel-size", "2"), "unrecognized arguments: --tensor-paralel-size 2"),
            (("--speculative-config", "{"), "argument --speculative-config"),
        ):
            command = rig.serve(*flags)
            self.assertEqual(command.wait(), 2)
            self.assertIn(error, command.output)
        mixed = rig.serve("--nnodes", "2", "--distributed-executor-backend", "ray")
        self.assertEqual(mixed.wait(), 1)
        self.assertIn("nnodes > 1 can only be set when distributed executor backend is mp", mixed.output)
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", rig.master_port))
            taken.listen()
            busy, _ = rig.native_pair()
            self.assertEqual(busy.wait(), 1)
        self.assertIn("EADDRINUSE", busy.output)


class Sglang(StubTest):
    def test_ready(self) -> None:
        rig = self.rig()
        server, worker = rig.sglang_pair("--reasoning-parser", "qwen3", "--tool-call-parser", "qwen", "--enable-metrics")
        server.wait_for("The server is fired up and ready to roll!")
        for command, rank in ((server, 0), (worker, 1)):
            for pattern in ("Init torch distributed begin", r"Init torch distributed ends\. elapsed=",
                            r"Load weight begin\. avail mem=", r"Load weight end\.", r"KV Cache is allocated\. #tokens: \d+"):
                self.assertRegex(command.output, rf"\[\S+ \S+ TP{rank}\] {pattern}")
        message = rig.chat("What is the capital of France?")[1]["choices"][0]["message"]
        self.assertEqual((message["content"], message["reasoning_content"]),
                         ("\n\nParis", "\nThe capital of France is Paris.\n"))
        reply = rig.chat("What is the weather in Paris?", tools=[WEATHER_TOOL])[1]["choices"][0]
        self.assertEqual(reply["finish_reason"], "tool_calls")
        self.assertIn("sglang:num_running_reqs", rig.open("/metrics")[1])
        self.assertEqual(json.loads(rig.open("/v1/models")[1])["data"][0]["max_model_len"], 4096)
        # The worker's server says that all is well, whatever happens, and the worker does not end when told to.
        server.process.kill()
        with urllib.request.urlopen(f"http://{WORKER}:{rig.port}/health", timeout=8) as answer:
            self.assertEqual(answer.status, 200)
        worker.process.terminate()
        with self.assertRaises(subprocess.TimeoutExpired):
            worker.process.wait(0.5)

    def test_failures(self) -> None:
        expected = {"config": "is greater than the derived context_length", "rendezvous": "Unable to find address for",
                    "load": "Cannot find any model weights", "kv": "Not enough memory. Please try to increase",
                    "graphs": "Capture cuda graph failed"}
        running = {milestone: self.rig().sglang(STUB_SCENARIO=f"crash-at={milestone}") for milestone in expected}
        for milestone, command in running.items():
            with self.subTest(milestone):
                self.assertEqual(command.wait(), -signal.SIGKILL)
                self.assertIn(expected[milestone], command.output)
                self.assertIn("Received sigquit from a child process", command.output)

    def test_refused(self) -> None:
        for flags, code, error in (
            (("--contxt", "4"), 2, "unrecognized arguments: --contxt 4"),
            (("--kv-cache-dtype", "fp8"), 2, "invalid choice: 'fp8'"),
            (("--tp", "1", "--nnodes", "2", "--dist-init-addr", "x:1"), 1, "divisible by number of nodes"),
        ):
            command = self.rig().sglang(*flags)
            self.assertEqual(command.wait(), code)
            self.assertIn(error, command.output)

    def test_a_pair_that_nobody_asked_for_long_answers(self) -> None:
        rig = self.rig()
        server, _worker = rig.sglang_pair()
        server.wait_for("The server is fired up and ready to roll!")
        time.sleep(5)  # longer than a silent rank is taken for alive
        self.assertEqual(rig.open("/v1/completions", {"model": "tiny", "prompt": "Hi"}, timeout=5)[0], 200)

    def test_requests_wait_for_a_dead_worker(self) -> None:
        rig = self.rig()
        server, worker = rig.sglang_pair()
        server.wait_for("The server is fired up and ready to roll!")
        worker.process.kill()
        worker.process.wait()
        # The server may answer until it has seen that the connection is gone.
        for _ in range(50):
            try:
                rig.open("/v1/completions", {"model": "tiny", "prompt": "Hi"}, timeout=1)
            except TimeoutError:
                break
            time.sleep(0.1)
        else:
            self.fail("requests are answered without the worker")
        self.assertIsNone(server.process.poll())


def main() -> int:
    """Run the classes side by side: most of a test's time is spent waiting."""
    suites = [unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in (
        Ready, Settings, Starts, Deaths, Native, Sglang)]
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda suite: unittest.TextTestRunner().run(suite), suites))
    return 0 if all(result.wasSuccessful() for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
