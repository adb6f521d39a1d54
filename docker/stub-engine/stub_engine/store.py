"""The stand-in for torch's TCPStore and the message queues above it: how the ranks of a native launch meet.

The ranks meet at the master's port; that part needs the master's address only. Then each announces an address of its
own, where the others connect to it: one that is out of their reach leaves all of them waiting for ever, as in reality.
"""

import contextlib
import os
import socket
import threading
import time
from typing import Any

from stub_engine.gcs import Client, Gcs

# What torch says when the ranks do not meet.
SERVER_TAKEN = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
    "{port}, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)
TOO_FEW = (
    "torch.distributed.DistStoreError: Timed out after {seconds} seconds waiting for clients. {came}/{size} clients "
    "joined."
)
NO_MASTER = (
    "torch.distributed.DistNetworkError: The client socket has timed out after {seconds}000ms while trying to connect "
    "to ({host}, {port})."
)
NOT_LOCAL = "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://{ip}:0')"
# How far the leader is, in this order.
STAGES = ("idle", "met", "connected", "load", "kv")
PATIENCE = 600.0
TRIES = 2.0


class Failed(Exception):
    """The ranks cannot meet; the text is the error itself."""


def own_ip(*variables: str) -> str:
    """The address that an engine announces: of the first variable that is set, else of the default route."""
    for variable in variables:
        if configured := os.environ.get(variable):
            return configured
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 80))
            return str(probe.getsockname()[0])
        except OSError:
            return "0.0.0.0"


def announce(ip: str) -> socket.socket:
    try:
        return socket.create_server((ip, 0))
    except OSError:
        raise Failed(NOT_LOCAL.format(ip=ip)) from None


def reaches(ip: str, port: int) -> bool:
    try:
        socket.create_connection((ip, port), timeout=TRIES).close()
        return True
    except OSError:
        return False


class Leader:
    """Rank 0's end."""

    def __init__(self, port: int, size: int, ip: str) -> None:
        self.size = size
        self._queue = announce(ip)
        rank = {"rank": 0, "ip": ip, "port": self._queue.getsockname()[1], "linked": True, "Alive": True}
        try:
            self._store = Gcs(port, rank)
        except OSError:
            raise Failed(SERVER_TAKEN.format(port=port)) from None
        threading.Thread(target=self._store.serve_forever, daemon=True).start()

    def meet(self) -> None:
        """Wait for all ranks, and until each reaches each: for ever, where one cannot."""
        deadline = time.monotonic() + PATIENCE
        while len(self._alive()) < self.size:
            if time.monotonic() > deadline:
                raise Failed(TOO_FEW.format(seconds=int(PATIENCE) + 1, came=len(self._alive()), size=self.size))
            time.sleep(0.05)
        self.tell("met")

    def connect(self) -> None:
        while not all(rank["linked"] and reaches(rank["ip"], rank["port"]) for rank in self._alive()):
            time.sleep(0.2)
        while len(self._alive()) < self.size:
            time.sleep(1)  # a rank died meanwhile, and the others do not notice
        self.tell("connected")

    def tell(self, stage: str) -> None:
        self._store.stage = stage

    def is_whole(self) -> bool:
        return len(self._alive()) == self.size

    def _alive(self) -> list[dict[str, Any]]:
        return [rank for rank in self._store.listing() if rank["Alive"]]


class Follower:
    """Another rank's end."""

    def __init__(self, host: str, port: int, rank: int, ip: str) -> None:
        self._queue = announce(ip)
        try:
            self._client = Client(f"{host}:{port}", patience=PATIENCE)
        except ConnectionError:
            raise Failed(NO_MASTER.format(seconds=int(PATIENCE), host=host, port=port)) from None
        port_of_queue = self._queue.getsockname()[1]
        self._client.ask("register", node={"rank": rank, "ip": ip, "port": port_of_queue, "linked": False,
                                           "Alive": True})
        self._stage = "idle"
        threading.Thread(target=self._beat, daemon=True).start()

    def wait_for(self, wanted: str) -> None:
        while STAGES.index(self._stage) < STAGES.index(wanted):
            time.sleep(0.05)

    def connect(self) -> None:
        leader = next(rank for rank in self._client.nodes() if rank["rank"] == 0)
        while not reaches(leader["ip"], leader["port"]):
            pass  # it tries for ever
        self._client.ask("link")

    def _beat(self) -> None:
        """As long as this rank lives. Without the leader it learns no more, and notices nothing either."""
        with contextlib.suppress(ConnectionError):
            for self._stage in self._client.beat():
                pass
