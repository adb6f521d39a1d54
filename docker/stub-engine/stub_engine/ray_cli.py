"""The `ray` command: start, status, stop."""

import argparse
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from stub_engine import RAY_VERSION
from stub_engine.gcs import UNREACHABLE, Client, Gcs, address_file, describe_node, ray_folder, resolve
from stub_engine.log import say
from stub_engine.process import die_by_sigkill
from stub_engine.scenario import Scenario

STARTED = """
--------------------
Ray runtime started.
--------------------
"""
NEXT_STEPS = """Next steps
  To add another node to this Ray cluster, run
    ray start --address='{}'

  To connect to this Ray cluster:
    import ray
    ray.init()

  To terminate the Ray runtime, run
    ray stop

  To view the status of the cluster, use
    ray status"""
BLOCK = """
--block
  This command will now block forever until terminated by a signal.
  Running subprocesses are monitored and a message will be printed if any of them terminate unexpectedly. \
Subprocesses exit with SIGTERM will be treated as graceful, thus NOT reported."""
GCS_LOST = (
    "Failed to connect to GCS within 60 seconds. GCS may have been killed. It's either GCS is terminated by `ray stop` "
    "or is killed unexpectedly. If it is killed unexpectedly, see the log file gcs_server.out. The current GCS address "
    "is {}. The program will terminate."
)
PORT_TAKEN = (
    "Check failed: server_ Failed to start the grpc server. The specified port is {port}. This means that Ray's core "
    "components will not be able to function correctly. If the server startup error message is `Address already in "
    "use`, it indicates the server fails to start because the port is already used by other processes (such as "
    "--node-manager-port, --object-manager-port, --gcs-server-port, and ports between --min-worker-port, "
    "--max-worker-port). Try running sudo lsof -i :{port} to check if there are other processes listening to the port."
)


def main(args: Sequence[str]) -> int:
    commands: dict[str, Callable[[Sequence[str]], int]] = {"start": start, "status": status, "stop": stop}
    if args and args[0] == "--version":
        say(f"ray, version {RAY_VERSION}")
        return 0
    if not args or args[0] not in commands:
        say(f"Error: No such command '{args[0] if args else ''}'.", error=True)
        return 2
    return commands[args[0]](args[1:])


def start(args: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("ray start", allow_abbrev=False)
    for flag in ("--head", "--block", "--disable-usage-stats"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--address", "--node-ip-address", "--include-dashboard"):
        parser.add_argument(flag)
    parser.add_argument("--port", type=int)
    parser.add_argument("--num-gpus", type=float, default=0.0)
    parser.add_argument("--object-store-memory", type=int, default=10**9)
    options, _ = parser.parse_known_args(args)

    if not options.head:
        if options.address is None:
            return abort("`--address` is a required flag unless starting a head node with `--head`.")
        for flag, value in (("--port", options.port), ("--include-dashboard", options.include_dashboard)):
            if value is not None:
                return abort(f"`{flag}` should only be specified when starting head node with `--head`.")
    if options.disable_usage_stats:
        say("Usage stats collection is disabled.\n", error=True)
    ip = options.node_ip_address or socket.gethostbyname(socket.gethostname())
    say(f"Local node IP: {ip}", error=True)
    if not is_local(ip):
        # The real one fails later and less clearly: its processes can't bind or reach the address.
        return abort(f"OSError: [Errno 99] Cannot assign requested address: {ip}")
    if options.head:
        return start_head(ip, options.port or 6379, options.num_gpus, options.object_store_memory, options.block)
    return start_worker(options.address, ip, options.num_gpus, options.object_store_memory, options.block)


def start_head(ip: str, port: int, gpus: float, object_store: int, block: bool) -> int:
    address = f"{ip}:{port}"
    try:
        # Bound before going to the background, so that a taken port is this command's failure.
        gcs = Gcs(port, describe_node(ip, gpus, object_store, head=True))
    except OSError:
        if address_file().exists() and address_file().read_text() == address:
            return abort(f"ConnectionError: Ray is trying to start at {address}, but is already running at {address}. "
                         "Please specify a different port using the `--port` flag of `ray start` command.")
        return abort(PORT_TAKEN.format(port=port))
    remember(address)
    say(STARTED + "\n" + NEXT_STEPS.format(address), error=True)
    if not block:
        go_on_in_background("gcs_server", gcs.serve_forever)
        return 0
    say(BLOCK, error=True)
    exit_on_sigterm()
    gcs.serve_forever()
    return 1


def start_worker(address: str, ip: str, gpus: float, object_store: int, block: bool) -> int:
    try:
        client = Client(address, patience=5.0)
    except ConnectionError:
        return abort(f"ConnectionError: {UNREACHABLE.format(address)}")
    client.ask("register", node=describe_node(ip, gpus, object_store, head=False))
    remember(address)
    say(STARTED + "\nTo terminate the Ray runtime, run\n  ray stop", error=True)
    if not block:
        go_on_in_background("raylet", lambda: stay(client, address))
        return 0
    say(BLOCK, error=True)
    exit_on_sigterm()
    return stay(client, address)


def stay(client: Client, address: str) -> int:
    """Be a node until the GCS is gone, or until the scenario ends this one in the middle of loading."""
    scenario = Scenario.from_env()
    try:
        for stage in client.beat():
            if stage == "load" and "worker-oom" in scenario:
                die_by_sigkill()
            if stage == "load" and "worker-crash" in scenario:
                return subprocess_died("raylet", "-6 (signal 6)", "*** SIGABRT received (worker-crash) ***")
    except ConnectionError:
        pass
    return subprocess_died("raylet", "1", GCS_LOST.format(address))


def subprocess_died(name: str, code: str, tail: str) -> int:
    say(f"\nSome Ray subprocesses exited unexpectedly:\n  {name} [exit code={code}]\n\n"
        f"----- BEGIN {name}.err tail (exit code(s)={code}) -----\n{tail}\n"
        f"----- END {name}.err tail (exit code(s)={code}) -----\n\nRemaining processes will be killed.", error=True)
    return 1


def status(args: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("ray status", allow_abbrev=False)
    parser.add_argument("--address")
    options, _ = parser.parse_known_args(args)
    try:
        address = resolve(options.address)
        client = Client(address)
    except ConnectionError as error:
        return abort(f"ConnectionError: {error}")
    nodes = client.nodes()
    client.close()
    alive = [node for node in nodes if node["Alive"]]
    dead = [node for node in nodes if not node["Alive"]]
    total: Counter[str] = Counter()
    for node in alive:
        total.update(node["Resources"])
    title = f"======== Autoscaler status: {datetime.now()} ========"
    rule = "-" * len(title)
    lines = [title, "Node status", rule, "Active:", *(f" 1 node_{node['NodeID']}" for node in alive), "Pending:",
             " (no pending nodes)", "Recent failures:",
             *([f" node_{node['NodeID']}: NodeTerminated (ip: {node['NodeManagerAddress']})" for node in dead]
               or [" (no failures)"]),
             "", "Resources", rule, "Total Usage:", f" 0.0/{total['CPU']} CPU"]
    if total["GPU"]:
        lines.append(f" 0.0/{total['GPU']} GPU")
    lines += [f" 0B/{total['memory'] / 2**30:.2f}GiB memory",
              f" 0B/{total['object_store_memory'] / 2**30:.2f}GiB object_store_memory",
              "", "From request_resources:", " (none)", "Pending Demands:", " (no resource demands)"]
    say("\n".join(lines))
    return 0


def stop(_args: Sequence[str]) -> int:
    """Ends what `ray start` without --block left in the background here."""
    stopped = 0
    for note in ray_folder().glob("*.pid"):
        try:
            os.kill(int(note.read_text()), signal.SIGTERM)
            stopped += 1
        except ProcessLookupError:
            pass
        note.unlink()
    address_file().unlink(missing_ok=True)
    say(f"Stopped all {stopped} Ray processes." if stopped else "Did not find any active Ray processes.", error=True)
    return 0


def abort(text: str) -> int:
    say(text, error=True)
    return 1


def is_local(ip: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
    return True


def remember(address: str) -> None:
    ray_folder().mkdir(parents=True, exist_ok=True)
    address_file().write_text(address)


def exit_on_sigterm() -> None:
    """`ray start --block` ends with code 1 when it is told to stop, and so do we."""

    def leave(_signal: int, _frame: object) -> NoReturn:
        os._exit(1)

    signal.signal(signal.SIGTERM, leave)


def go_on_in_background(name: str, work: Callable[[], object]) -> None:
    """Fork a daemon that does `work`, its output in Ray's log folder and its process id beside it."""
    if pid := os.fork():
        Path(ray_folder() / f"{name}.pid").write_text(str(pid))
        return
    os.setsid()
    logs = ray_folder() / "session_latest" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    out = os.open(logs / f"{name}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, out), (2, out)):
        os.dup2(source, target)
    try:
        work()
    finally:
        os._exit(1)
