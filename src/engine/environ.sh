# What the processes in a container have of some variables: CONTAINER NAME...
# Prints a line of JSON for each process of the engine. Docker's own init, and what began after this script, are left out.
name=$1
shift
exec timeout -k 2 20 docker exec -i "$name" python3 - "$@" <<'PYTHON'
import json
import os
import sys

# What starts and ends by itself, and is no part of an engine.
OTHERS = ("docker-init", "tini", "sh", "bash")


def whole(data):
    """The variables; none where a process has written its title over them, as vLLM's and Ray's do."""
    pairs = [piece.partition(b"=") for piece in data.rstrip(b"\0").split(b"\0")]
    if any(not name or not equals or name.split() != [name] for name, equals, _ in pairs):
        return []
    return [(name, value) for name, _, value in pairs]


mine = set()
pid = os.getpid()
while pid > 1 and pid not in mine:
    mine.add(pid)
    with open("/proc/%d/stat" % pid) as file:
        pid = int(file.read().rsplit(")", 1)[1].split()[1])
for entry in os.listdir("/proc"):
    if not entry.isdigit() or int(entry) in mine:
        continue
    try:
        with open("/proc/%s/environ" % entry, "rb") as file:
            pairs = whole(file.read())
        with open("/proc/%s/comm" % entry) as file:
            command = file.read().strip()
    except OSError:
        continue
    if command in OTHERS or not pairs:
        continue
    env = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in pairs}
    found = {key: env[key] for key in sys.argv[1:] if key in env}
    print(json.dumps({"pid": int(entry), "command": command, "env": found}))
PYTHON
