"""The head of a Ray cluster, then the engine: ADDRESS[,ADDRESS...] VARIABLE[,VARIABLE...] -- RAY_COMMAND... -- ENGINE_COMMAND...

Starts Ray's head node, waits until Ray counts a live node at every ADDRESS, and becomes the engine.
There is no time limit: whoever started the container has one. vLLM is told that each VARIABLE is a node's own: it
would copy some of them from here to its workers, where the interfaces may be called otherwise.
"""
import json
import os
import shutil
import subprocess
import sys
import time


def say(text):
    print("sparkctl: " + text, flush=True)


def live_addresses(address):
    """Addresses of the nodes that Ray counts as alive; a node that came back is listed twice, once dead."""
    import ray

    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    try:
        return {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    finally:
        ray.shutdown()


def keep_from_workers(names):
    """Adds the names to the file that vLLM reads them from, in every release from 0.11 on."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    folder = os.path.expanduser(os.environ.get("VLLM_CONFIG_ROOT") or os.path.join(config, "vllm"))
    path = os.path.join(folder, "ray_non_carry_over_env_vars.json")
    try:
        os.makedirs(folder, exist_ok=True)
        try:
            with open(path) as file:
                names = sorted({*names, *json.load(file)})
        except (OSError, ValueError, TypeError):
            pass
        with open(path, "w") as file:
            json.dump(names, file)
    except OSError as why:
        say("vLLM may copy variables of this node to the others: %s cannot be written: %s" % (path, why.strerror))


def main():
    wanted, own, _, *rest = sys.argv[1:]
    wanted = wanted.split(",")
    keep_from_workers(own.split(","))
    split = rest.index("--")
    ray_command, engine_command = rest[:split], rest[split + 1:]
    # A session left by this container's last run would be taken for one that lives.
    shutil.rmtree("/tmp/ray", ignore_errors=True)
    started = subprocess.run(ray_command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if started.returncode:
        print(started.stdout, flush=True)
        say("ray did not start")
        sys.exit(started.returncode)
    port = next(part.split("=")[1] for part in ray_command if part.startswith("--port="))
    address = wanted[0] + ":" + port
    said = None
    while True:
        there = live_addresses(address)
        missing = [each for each in wanted if each not in there]
        strangers = sorted(there - set(wanted))
        now = "ray has %d of %d nodes" % (len(wanted) - len(missing), len(wanted))
        if missing:
            now += ", missing " + ", ".join(missing)
        if strangers:
            now += ", and strangers at " + ", ".join(strangers)
        if now != said:
            say(now)
            said = now
        if not missing and not strangers:
            break
        time.sleep(1)
    os.environ["RAY_ADDRESS"] = address
    os.execvp(engine_command[0], engine_command)


main()
