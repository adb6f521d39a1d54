"""The command line of `vllm serve`: flags that the stub acts on, and those it only knows to be real.

What vLLM 0.32 does not have is refused, as argparse does it: a flag with a spelling mistake must not pass in a test.
"""

import argparse
import json
from collections.abc import Sequence

from stub_engine.real_flags import VLLM_SWITCHES, VLLM_VALUES


def parse(args: Sequence[str]) -> argparse.Namespace:
    words = []
    for word in args:
        flag, equals, value = word.partition("=")
        words.append(flag.replace("_", "-") + equals + value if word.startswith("--") else word)
    # Not left to argparse, which could take a flag's value for the model.
    tag = words.pop(0) if words and not words[0].startswith("-") else None
    parser = argparse.ArgumentParser("vllm serve", usage="vllm serve [model_tag] [options]", allow_abbrev=False)
    add = parser.add_argument
    add("--model", default=tag or "Qwen/Qwen3-0.6B")
    add("--served-model-name", nargs="+")
    add("--tensor-parallel-size", "-tp", type=int, default=1)
    add("--pipeline-parallel-size", "-pp", type=int, default=1)
    add("--distributed-executor-backend", choices=("ray", "mp", "uni", "external_launcher"))
    add("--nnodes", "-n", type=int, default=1)
    add("--node-rank", "-r", type=int, default=0)
    add("--master-addr", default="127.0.0.1")
    add("--master-port", type=int, default=29501)
    add("--headless", action="store_true")
    add("--max-model-len", type=length)
    add("--max-num-seqs", type=int, default=256)
    add("--host", default="0.0.0.0")
    add("--port", type=int, default=8000)
    add("--api-key", nargs="*", default=[])
    add("--reasoning-parser", default="")
    add("--tool-call-parser", default="")
    add("--enable-auto-tool-choice", action="store_true")
    add("--enforce-eager", action="store_true")
    add("--default-chat-template-kwargs", type=json.loads, default={})
    add("--speculative-config", "-sc", type=json.loads)
    add_known(parser, VLLM_SWITCHES, VLLM_VALUES, switch=argparse.BooleanOptionalAction)
    options = parser.parse_args(words)
    if tag:
        options.model = tag
    changed = {key: value for key, value in vars(options).items() if value != parser.get_default(key)}
    options.given = {"model_tag": tag, "model": tag, **changed} if tag else changed
    return options


def add_known(parser: argparse.ArgumentParser, switches: str, values: str,
              switch: str | type[argparse.Action] = "store_true") -> None:
    """Flags without and with values; those that are there already win."""
    have = set(parser._option_string_actions)
    for words, more in ((switches, {"action": switch}), (values, {"nargs": "*"})):
        for names in (word.split("|") for word in words.split()):
            if have.isdisjoint(names):
                parser.add_argument(*names, default=None, **more)


def length(text: str) -> int | None:
    """A context length as vLLM reads it: plain, with a suffix such as 32k or 32K, or auto."""
    if text in ("auto", "-1"):
        return None
    factors = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}
    return int(float(text[:-1]) * factors[text[-1]]) if text[-1] in factors else int(text)
