"""The head of a Ray cluster, then the engine: ADDRESS[,ADDRESS...] -- RAY_COMMAND... -- ENGINE_COMMAND...

Starts Ray's head node, waits until Ray counts a live node at every ADDRESS, and becomes the engine.
There is no time limit: whoever started the container has one.
"""
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


def main():
    wanted, _, *rest = sys.argv[1:]
    wanted = wanted.split(",")
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
