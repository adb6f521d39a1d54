"""The HTTP server: the OpenAI endpoints of vLLM and SGLang as far as a deployment tool uses them."""

import json
import secrets
import select
import socket
import socketserver
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from stub_engine import VLLM_VERSION
from stub_engine.engine import ENGINE_DEAD, Engine, EngineDeadError
from stub_engine.lessons import NONSENSE, Reply, prompt_text, reply_to, reply_to_text, tokens
from stub_engine.log import Process
from stub_engine.scenario import Scenario

Json = dict[str, Any]

ROUTES = (
    ("/openapi.json", "GET, HEAD"), ("/version", "GET"), ("/health", "GET"), ("/metrics", "GET"), ("/v1/models", "GET"),
    ("/ping", "GET"), ("/ping", "POST"), ("/v1/chat/completions", "POST"), ("/v1/completions", "POST"),
)


@dataclass(frozen=True)
class Options:
    """What of an engine's command line the HTTP server goes by."""

    names: tuple[str, ...]
    root: str
    max_model_len: int
    api_keys: frozenset[str]
    reasoning_parser: bool
    auto_tools: bool
    tool_parser: bool
    enable_thinking: bool
    engine: str = "vllm"
    metrics: bool = True


class ApiError(Exception):
    def __init__(self, status: HTTPStatus, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": int(status)}}


def bad_request(message: str, param: str | None = None) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequestError", message, param)


def engine_dead() -> ApiError:
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError", ENGINE_DEAD)


class Server(ThreadingHTTPServer):
    """Bound at once, as vLLM does to find a taken port early; it listens only from server_activate() on."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), Handler, bind_and_activate=False)
        self.server_bind()

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks up the host's name: slow where no resolver answers.
        socketserver.TCPServer.server_bind(self)

    def equip(self, options: Options, scenario: Scenario, engine: Engine, api: Process) -> None:
        self.options = options
        self.scenario = scenario
        self.engine = engine
        self.api = api

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news to uvicorn either."""


class ReplyParser:
    """Sorts the model's tokens into reasoning, content and tool calls, as far as parsers are configured."""

    def __init__(self, reasoning_field: str | None, tools: bool) -> None:
        self._reasoning_field = reasoning_field
        self._tools = tools
        self._thinking = False
        self._held: list[str] | None = None  # the inside of a <tool_call> not yet complete
        self.calls: list[Json] = []

    def feed(self, token: str) -> Iterator[Json]:
        """The deltas that a token makes, if any."""
        if self._held is not None:
            if token == "</tool_call>":
                yield from self._call("".join(self._held))
                self._held = None
            else:
                self._held.append(token)
        elif self._tools and token == "<tool_call>":
            self._held = []
        elif self._reasoning_field and token in ("<think>", "</think>"):
            self._thinking = token == "<think>"
        elif token:
            yield {self._reasoning_field if self._thinking and self._reasoning_field else "content": token}

    def unfinished(self) -> str:
        """What max_tokens cut off inside a tool call."""
        return "" if self._held is None else "<tool_call>" + "".join(self._held)

    def _call(self, text: str) -> Iterator[Json]:
        call = json.loads(text)
        arguments = json.dumps(call["arguments"])
        index = len(self.calls)
        head = {"id": f"chatcmpl-tool-{secrets.token_hex(16)}", "type": "function",
                "function": {"name": call["name"], "arguments": arguments}}
        self.calls.append(head)
        yield {"tool_calls": [{**head, "index": index, "function": {"name": call["name"], "arguments": ""}}]}
        for part in (arguments[:5], arguments[5:]):
            if part:
                yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def version_string(self) -> str:
        return "uvicorn"

    def log_request(self, code: int | str = "-", _size: int | str = "-") -> None:
        status = HTTPStatus(int(code))
        host, port = self.client_address[:2]
        self.server.api.plain(f'INFO:     {host}:{port} - "{self.requestline}" {status.value} {status.phrase}')

    def log_error(self, *_args: Any) -> None:
        """Time-outs and broken requests leave no line, as in vLLM."""

    def do_GET(self) -> None:
        server, path = self.server, self.path.partition("?")[0]
        if not self.allowed(path):
            return
        if path in ("/health", "/ping"):
            dead = server.engine.dead.is_set() or not server.engine.waits_for()
            self.send_body(HTTPStatus.SERVICE_UNAVAILABLE if dead else HTTPStatus.OK, b"", "text/plain")
        elif path == "/version" and server.options.engine == "vllm":
            self.send_json(HTTPStatus.OK, {"version": VLLM_VERSION})
        elif path in ("/model_info", "/get_model_info") and server.options.engine == "sglang":
            self.send_json(HTTPStatus.OK, {"model_path": server.options.root, "is_generation": True})
        elif path == "/metrics" and server.options.metrics:
            vllm = server.options.engine == "vllm"
            page = (server.engine.metrics if vllm else server.engine.sglang_metrics)(server.options.names[0])
            self.send_body(HTTPStatus.OK, page.encode(), "text/plain; version=1.0.0; charset=utf-8")
        elif path == "/v1/models":
            self.send_json(HTTPStatus.OK, {"object": "list", "data": [
                {"id": name, "object": "model", "created": int(time.time()), "owned_by": server.options.engine,
                 "root": server.options.root, "parent": None, "max_model_len": server.options.max_model_len}
                for name in server.options.names]})
        else:
            self.send_json(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.allowed(path):
            return
        routes = {"/v1/chat/completions": self.chat, "/v1/completions": self.complete}
        if path == "/ping":
            self.do_GET()
            return
        if path not in routes:
            self.send_json(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})
            return
        try:
            try:
                body = json.loads(raw)
            except ValueError as error:
                raise bad_request(f"JSON decode error: {error}") from None
            if not isinstance(body, dict):
                raise bad_request("Input should be a valid dictionary")
            self.check_model(body)
            if self.server.engine.dead.is_set():
                raise engine_dead()
            routes[path](body)
        except EngineDeadError:
            self.send_json(HTTPStatus.INTERNAL_SERVER_ERROR, engine_dead().body)
        except ApiError as error:
            self.send_json(error.status, error.body)

    def allowed(self, path: str) -> bool:
        keys = self.server.options.api_keys
        if not keys or not path.startswith("/v1"):
            return True
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token in keys:
            return True
        self.send_json(HTTPStatus.UNAUTHORIZED, {"error": "Unauthorized"})
        return False

    def check_model(self, body: Json) -> None:
        model = body.get("model")
        # SGLang serves whatever the request calls the model.
        if self.server.options.engine == "vllm" and model and model not in self.server.options.names:
            raise ApiError(HTTPStatus.NOT_FOUND, "NotFoundError", f"The model `{model}` does not exist.", "model")

    def client_gone(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    # Answers

    def chat(self, body: Json) -> None:
        options, scenario = self.server.options, self.server.scenario
        messages = body.get("messages")
        if not isinstance(messages, list) or not all(isinstance(m, dict) and m.get("role") for m in messages):
            raise bad_request("messages: Field required", "messages")
        tools = body.get("tools") or []
        choice = body.get("tool_choice") or ("auto" if tools else "none")
        self.check_tools(tools, choice)
        thinking = (body.get("chat_template_kwargs") or {}).get("enable_thinking", options.enable_thinking)

        reply = NONSENSE if "wrong-answer" in scenario else reply_to(messages, [] if choice == "none" else tools)
        if choice not in ("none", "auto") and reply is not NONSENSE:
            reply = forced_call(reply, choice, tools)
        parser = ReplyParser(
            scenario.reasoning_field if options.reasoning_parser and "no-reasoning" not in scenario else None,
            tools=bool(tools) and choice != "none" and options.tool_parser and "no-tools" not in scenario)
        prompt_tokens = len(tokens(prompt_text(messages, tools)))
        max_tokens = self.max_tokens(body, prompt_tokens, None)
        steps = self.server.engine.generate(prompt_tokens, tokens(reply.text(thinking)), max_tokens,
                                            bool(body.get("ignore_eos")), self.client_gone)
        head = {"id": f"chatcmpl-{secrets.token_hex(16)}", "created": int(time.time()), "model": options.names[0]}
        with closing(steps):
            if body.get("stream"):
                self.stream(body, {**head, "object": "chat.completion.chunk"}, prompt_tokens,
                            chat_chunks(steps, parser, max_tokens, choice))
            else:
                self.answer_chat({**head, "object": "chat.completion"}, prompt_tokens, steps, parser, choice)

    def answer_chat(self, head: Json, prompt_tokens: int, steps: Iterator[str], parser: ReplyParser,
                    choice: Any) -> None:
        field = self.server.scenario.reasoning_field
        said = {"content": "", field: ""}
        count, last = 0, ""
        for last in steps:
            count += 1
            for delta in parser.feed(last):
                for key in said:
                    said[key] += delta.get(key, "")
        content = said["content"] + parser.unfinished()
        if parser.calls and not content.strip():
            content = ""
        message = {"role": "assistant", "content": content or None, "refusal": None, "tool_calls": parser.calls,
                   field: said[field] or None}
        self.send_json(HTTPStatus.OK, {**head, "choices": [
            {"index": 0, "message": message, "logprobs": None, "stop_reason": None,
             "finish_reason": finish_reason(last, parser, choice)}], "usage": usage(prompt_tokens, count)})

    def complete(self, body: Json) -> None:
        prompt = body.get("prompt")
        if prompt is None:
            raise bad_request("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
        several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
        prompts = prompt if several else [prompt]
        counts = [len(p) if isinstance(p, list) else len(tokens(p)) for p in prompts]
        head = {"id": f"cmpl-{secrets.token_hex(16)}", "object": "text_completion", "created": int(time.time()),
                "model": self.server.options.names[0]}
        runs = [(index, self.max_tokens(body, count, 16), count) for index, count in enumerate(counts)]
        if body.get("stream"):
            index, limit, count = runs[0]
            with closing(self.run(body, prompts[index], count, limit)) as steps:
                self.stream(body, head, count, completion_chunks(steps, limit))
            return
        choices, made = [], 0
        for index, limit, count in runs:
            with closing(self.run(body, prompts[index], count, limit)) as steps:
                pieces = list(steps)
            made += len(pieces)
            choices.append({"index": index, "text": "".join(pieces), "logprobs": None, "stop_reason": None,
                            "finish_reason": "length" if pieces[-1:] != [""] else "stop"})
        self.send_json(HTTPStatus.OK, {**head, "choices": choices, "usage": usage(sum(counts), made)})

    def run(self, body: Json, prompt: Any, prompt_tokens: int, max_tokens: int) -> Generator[str, None, None]:
        asked = prompt if isinstance(prompt, str) else ""
        reply = NONSENSE if "wrong-answer" in self.server.scenario else reply_to_text(asked)
        return self.server.engine.generate(prompt_tokens, tokens(" " + reply.answer), max_tokens,
                                           bool(body.get("ignore_eos")), self.client_gone)

    def check_tools(self, tools: list[Json], choice: Any) -> None:
        options = self.server.options
        if choice == "none":
            return
        if not tools:
            raise bad_request("When using `tool_choice`, `tools` must be set.")
        if options.engine == "sglang":
            return  # without a parser the call stays in the text
        if choice == "auto" and not (options.auto_tools and options.tool_parser):
            raise bad_request(
                '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
        if choice != "auto" and not options.tool_parser:
            raise bad_request(f'tool_choice="{choice}" requires --tool-call-parser to be set')

    def max_tokens(self, body: Json, prompt_tokens: int, default: int | None) -> int:
        limit = self.server.options.max_model_len
        room = limit - prompt_tokens
        if room <= 0:
            raise bad_request(f"This model's maximum context length is {limit} tokens. However, your request has "
                              f"{prompt_tokens} input tokens. Please reduce the length of the input messages.")
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        if asked is None:
            return room if default is None else min(default, room)
        if asked > room:
            raise bad_request(
                f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length "
                f"is {limit} tokens and your request has {prompt_tokens} input tokens "
                f"({asked} > {limit} - {prompt_tokens}).",
                "max_tokens")
        return int(asked)

    # Sending

    def stream(self, body: Json, head: Json, prompt_tokens: int, chunks: Iterator[tuple[int, list[Json]]]) -> None:
        """Send (tokens so far, choices) pairs as server-sent events."""
        wishes = body.get("stream_options") or {}
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        count = 0
        try:
            for count, choices in chunks:
                continuous = {"usage": usage(prompt_tokens, count)} if wishes.get("continuous_usage_stats") else {}
                self.send_event(json.dumps({**head, "choices": choices, **continuous}))
            if wishes.get("include_usage"):
                self.send_event(json.dumps({**head, "choices": [], "usage": usage(prompt_tokens, count)}))
        except EngineDeadError:
            self.send_event(json.dumps(engine_dead().body))
        self.send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def send_event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")

    def send_json(self, status: HTTPStatus, body: Json) -> None:
        self.send_body(status, json.dumps(body).encode(), "application/json")

    def send_body(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def usage(prompt: int, completion: int) -> Json:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion,
            "prompt_tokens_details": None}


def forced_call(reply: Reply, choice: Any, tools: list[Json]) -> Reply:
    """tool_choice `required` or a named function: guided decoding makes a call of any reply."""
    if choice == "required" and reply.call:
        return reply
    name = tools[0]["function"]["name"] if choice == "required" else choice["function"]["name"]
    arguments = reply.call[1] if reply.call and reply.call[0] == name else "{}"
    return Reply(reply.thought, call=(name, arguments))


def finish_reason(last_token: str, parser: ReplyParser, choice: Any) -> str:
    if last_token != "":
        return "length"
    # vLLM ends a named call with "stop".
    return "tool_calls" if parser.calls and not isinstance(choice, dict) else "stop"


def chat_chunks(steps: Iterator[str], parser: ReplyParser, max_tokens: int,
                choice: Any) -> Iterator[tuple[int, list[Json]]]:
    def choices(delta: Json, reason: str | None = None) -> list[Json]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]

    started = False
    for count, token in enumerate(steps, 1):
        if not started:
            started = True
            yield 0, choices({"role": "assistant", "content": ""})
        deltas = list(parser.feed(token))
        if token == "" or count == max_tokens:
            *deltas, final = deltas or [{"content": parser.unfinished()}]
            yield from ((count, choices(delta)) for delta in deltas)
            yield count, choices(final, finish_reason(token, parser, choice))
            return
        yield from ((count, choices(delta)) for delta in deltas)


def completion_chunks(steps: Iterator[str], max_tokens: int) -> Iterator[tuple[int, list[Json]]]:
    for count, token in enumerate(steps, 1):
        reason = "stop" if token == "" else "length" if count == max_tokens else None
        yield count, [{"index": 0, "text": token, "logprobs": None, "finish_reason": reason, "stop_reason": None}]
        if reason:
            return
