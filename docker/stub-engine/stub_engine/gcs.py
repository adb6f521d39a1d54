"""The stand-in for Ray's GCS: a TCP server that knows which nodes are there, and its clients.

One JSON object a line. A node keeps its connection open and beats on it; a closed connection, or
one silent for SILENCE seconds (cable out, machine frozen), makes it a dead node. Dead nodes stay
in the list, as in Ray; a node that comes back is a new one.
"""

import json
import os
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Node = dict[str, Any]
BEAT = 0.3
SILENCE = 4.0

UNREACHABLE = (
    "Unable to connect to GCS (ray head) at {}. Check that (1) Ray with matching version started successfully at the "
    "specified address, (2) this node can reach the specified address, and (3) there is no firewall setting "
    "preventing access."
)
NO_INSTANCE = (
    "Could not find any running Ray instance. Please specify the one to connect to by setting `--address` flag or "
    "`RAY_ADDRESS` environment variable."
)


def ray_folder() -> Path:
    return Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray"


def address_file() -> Path:
    """Where `ray start` leaves the cluster's address for "auto", as the real one does."""
    return ray_folder() / "ray_current_cluster"


def resolve(address: str | None) -> str:
    """The address of the cluster that `address`, RAY_ADDRESS or the last `ray start` here means."""
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS")
    if address in (None, "", "auto"):
        try:
            return address_file().read_text().strip()
        except FileNotFoundError:
            raise ConnectionError(NO_INSTANCE) from None
    return address


def host_ip() -> str:
    """The address that vLLM's get_ip() would choose here. Connecting a UDP socket sends nothing."""
    if configured := os.environ.get("VLLM_HOST_IP"):
        return configured
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 80))
            return str(probe.getsockname()[0])
        except OSError:
            return "0.0.0.0"


def describe_node(ip: str, gpus: float, object_store: int, head: bool) -> Node:
    """A node as ray.nodes() shows it, plus the address that vLLM would use on it."""
    resources = {"CPU": float(os.cpu_count() or 1), "memory": 100e9, "object_store_memory": float(object_store),
                 f"node:{ip}": 1.0}
    if gpus:
        resources["GPU"] = gpus
    if head:
        resources["node:__internal_head__"] = 1.0
    node_id = secrets.token_hex(28)
    return {
        "NodeID": node_id, "Alive": True, "alive": True, "NodeManagerAddress": ip,
        "NodeManagerHostname": socket.gethostname(), "NodeName": ip, "NodeManagerPort": 0, "ObjectManagerPort": 0,
        "Resources": resources, "Labels": {"ray.io/node-id": node_id}, "DeathReason": 0, "DeathReasonMessage": "",
        "stub_vllm_ip": host_ip(),
    }


class Gcs(socketserver.ThreadingTCPServer):
    """Knows the nodes, and the stage that `vllm serve` has reached (workers act out their scenarios by it)."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, head: Node) -> None:
        super().__init__(("0.0.0.0", port), Connection)
        self.lock = threading.Lock()
        self.nodes: list[Node] = [head]
        self.stage = "idle"

    def add(self, node: Node) -> None:
        with self.lock:
            self.nodes.append(node)

    def bury(self, node: Node, reason: str) -> None:
        with self.lock:
            node.update(Alive=False, alive=False, Resources={}, DeathReason=2, DeathReasonMessage=reason)

    def listing(self) -> list[Node]:
        with self.lock:
            return [dict(node) for node in self.nodes]


class Connection(socketserver.StreamRequestHandler):
    server: Gcs

    def handle(self) -> None:
        node: Node | None = None
        reason = "Unexpected termination: the raylet's connection was closed."
        try:
            for line in self.rfile:
                request = json.loads(line)
                if request["op"] == "register":
                    self.connection.settimeout(SILENCE)  # nodes have to beat; other clients may sit idle
                    node = request["node"]
                    self.server.add(node)
                elif request["op"] == "link" and node is not None:
                    node["linked"] = True
                elif request["op"] == "stage":
                    self.server.stage = request["stage"]
                nodes = self.server.listing() if request["op"] == "nodes" else []
                self.wfile.write(json.dumps({"stage": self.server.stage, "nodes": nodes}).encode() + b"\n")
        except TimeoutError:
            reason = "Health check failed due to missing too many heartbeats"
        except (OSError, ValueError, KeyError):
            pass  # a port scan, or a peer that went away in the middle of a line
        finally:
            if node is not None:
                self.server.bury(node, reason)


class Client:
    """One connection to the GCS."""

    def __init__(self, address: str, patience: float = 3.0) -> None:
        host, _, port = address.rpartition(":")
        deadline = time.monotonic() + patience
        while True:
            try:
                self._socket = socket.create_connection((host, int(port)), timeout=SILENCE)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConnectionError(UNREACHABLE.format(address)) from error
                time.sleep(0.2)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        try:
            with self._lock:
                self._socket.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
                line = self._lines.readline()
        except OSError as error:
            raise ConnectionError(f"GCS lost: {error}") from error
        if not line:
            raise ConnectionError("GCS lost: connection closed")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def nodes(self) -> list[Node]:
        nodes: list[Node] = self.ask("nodes")["nodes"]
        return nodes

    def beat(self) -> Iterator[str]:
        """Keep a registered node alive; yields vLLM's stage. Ends with ConnectionError when the GCS is gone."""
        while True:
            yield self.ask("beat")["stage"]
            time.sleep(BEAT)

    def close(self) -> None:
        # The file object holds the socket open, so both have to go for the peer to see the end.
        self._lines.close()
        self._socket.close()
