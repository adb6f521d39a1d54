"""Stand-in for the ray package: enough to ask a cluster which nodes it has."""

import logging
from typing import Any

from stub_engine import RAY_VERSION as __version__
from stub_engine.gcs import Client, Node, resolve
from stub_engine.log import ray_logger_line

__all__ = ["__version__", "available_resources", "cluster_resources", "init", "is_initialized", "nodes", "shutdown",
           "tell_stage"]

_client: Client | None = None


def init(address: str | None = None, *, logging_level: int | str = logging.INFO, ignore_reinit_error: bool = False,
         **_options: Any) -> dict[str, str]:
    """Connect to a running cluster. Unlike the real one it never starts a cluster of its own."""
    global _client
    if _client is not None:
        if ignore_reinit_error:
            return {}
        raise RuntimeError("Maybe you called ray.init twice by accident? This error can be suppressed by passing in "
                           "'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'.")
    found = resolve(address)
    level = logging.getLevelName(logging_level) if isinstance(logging_level, str) else logging_level
    chatty = isinstance(level, int) and level <= logging.INFO
    if chatty:
        ray_logger_line("worker.py:1841", f"Connecting to existing Ray cluster at address: {found}...")
    try:
        _client = Client(found)
    except ConnectionError as error:
        raise ConnectionError(f"Failed to connect to Ray cluster at {found}") from error
    if chatty:
        ray_logger_line("worker.py:2038", "Connected to Ray cluster.")
    return {"gcs_address": found, "address": found}


def is_initialized() -> bool:
    return _client is not None


def shutdown() -> None:
    global _client
    if _client is not None:
        _client.close()
        _client = None


def nodes() -> list[Node]:
    if _client is None:
        raise RuntimeError("Ray has not been started yet. Please call `ray.init()` first.")
    return _client.nodes()


def cluster_resources() -> dict[str, float]:
    total: dict[str, float] = {}
    for node in nodes():
        for name, amount in node["Resources"].items():
            total[name] = total.get(name, 0.0) + amount
    return total


def available_resources() -> dict[str, float]:
    return cluster_resources()


def tell_stage(stage: str) -> None:
    """The stub's own: let the nodes know how far `vllm serve` is, for scenarios that end them on the way."""
    if _client is not None:
        _client.ask("stage", stage=stage)
