# What of sparkctl's lies on this node, as one document of JSON: the records of all deployments with the bytes of their
# folders, what they need, what cut copies left, and the volumes.
# Arguments: a deployment, the paths of the models that its records name. No input.
import json, os, subprocess, sys, time

deployment, models = sys.argv[1], sys.argv[2:]
state = os.path.join(os.path.expanduser("~"), ".local/state/sparkctl")
# What was written lately may be of a copy that goes on now.
RECENT = time.time() - 3600


def names(folder):
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def weight(folder):
    seen, total, newest = set(), 0, 0
    for place, folders, files in os.walk(folder):
        for name in files:
            try:
                found = os.lstat(os.path.join(place, name))
            except OSError:
                continue
            newest = max(newest, found.st_mtime)
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                total += found.st_blocks * 512
    return total, newest


def record(folder):
    said = {"bytes": weight(folder)[0], "image": None, "model": None}
    try:
        with open(os.path.join(folder, "release.json"), encoding="utf-8") as file:
            release = json.load(file)
        said.update(image=str(release["image"]["content"]), model=str(release["profile"]["model"]["path"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return said


records = {}
for name in names(state):
    releases = os.path.join(state, name, "releases")
    there = {number: record(os.path.join(releases, number)) for number in names(releases)}
    if there:
        records[name] = there
partial, whole = {}, {}
for model in models:
    above, revision = os.path.split(os.path.abspath(model))
    notes = os.path.join(model, ".sparkctl")
    if os.path.basename(above) == "snapshots":
        notes = os.path.join(os.path.dirname(above), ".sparkctl", revision)
    for place in (os.path.join(notes, name) for name in ("incoming", "fetch")):
        size, newest = weight(place)
        if size and newest < RECENT:
            partial[place] = size
    # A snapshot of the Hub's cache is links: to remove it would free nothing, and break the cache.
    plain = os.path.isdir(model) and not os.path.islink(model) and "/snapshots/" not in model
    if plain and os.path.isfile(os.path.join(model, "config.json")):
        whole[model] = weight(model)[0]
try:
    listed = subprocess.run(["docker", "volume", "ls", "--quiet"], stdout=subprocess.PIPE, timeout=30).stdout.decode()
except (OSError, subprocess.TimeoutExpired):
    listed = ""
print(json.dumps({"records": records, "partial": partial, "models": whole, "volumes": listed.split()}))
