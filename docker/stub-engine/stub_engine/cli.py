"""Entry points of the `vllm` and `ray` commands."""

from collections.abc import Sequence

from stub_engine import VLLM_VERSION, ray_cli
from stub_engine.log import say


def ray(args: Sequence[str]) -> int:
    return ray_cli.main(args)


def vllm(args: Sequence[str]) -> int:
    if args and args[0] in ("--version", "-v"):
        say(VLLM_VERSION)
        return 0
    if args and args[0] == "serve":
        from stub_engine.serve import serve  # not needed, and not loaded, for --version

        return serve(args[1:])
    say("usage: vllm [-h] [-v] {serve} ...\n"
        "vllm: error: the stub knows only `vllm serve` and `vllm --version`", error=True)
    return 2
