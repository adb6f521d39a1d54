# Prints the models that lie in the usual places, and in the folders named, as JSON. Bounded in time and depth.
import json, os, re, sys, time

DEPTH = 4
until = time.monotonic() + 15
home = os.path.expanduser("~")
hubs = [os.environ.get("HF_HUB_CACHE"), os.environ.get("HF_HOME") and os.path.join(os.environ["HF_HOME"], "hub")]
hubs += [os.path.join(home, ".cache/huggingface/hub"), os.path.join(home, "models"), "/models"]
answer = {"models": [], "folders": [], "unreadable": {}, "cut": False}
WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")


class Late(Exception):
    pass


def text(path):
    return os.fsencode(path).decode("utf-8", "replace")


def entries(folder):
    if time.monotonic() > until or len(answer["models"]) >= 500:
        raise Late
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        if os.path.lexists(folder) and len(answer["unreadable"]) < 100:
            answer["unreadable"][text(folder)] = error.strerror or "unreadable"
        return []


def config(folder):
    try:
        with open(os.path.join(folder, "config.json"), "rb") as file:
            parsed = json.loads(file.read(1 << 20))
        names = parsed.get("architectures") or [None]
        method = (parsed.get("quantization_config") or {}).get("quant_method")
        return names[0] and str(names[0]), method and str(method)
    except Exception:
        return None, None


def lacking(folder, names, unfinished):
    lacks = [text(name) + " is unfinished" for name in unfinished]
    sizes = {}
    for name in names:
        path = os.path.join(folder, name)
        try:
            sizes[name] = os.stat(path).st_size
        except OSError:
            if os.path.islink(path):
                lacks.append(text(name) + " is a link that leads nowhere")
        if sizes.get(name) == 0 and name.endswith((".safetensors", ".bin", ".gguf", "config.json")):
            lacks.append(text(name) + " is empty")
    wanted = set()
    for name in names:
        shard = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})(\.safetensors|\.bin|\.gguf)", name)
        if shard:
            width = int(shard[3]) + 1
            wanted.update("%s-%05d-of-%s%s" % (shard[1], at, shard[3], shard[4]) for at in range(1, min(width, 2000)))
    try:
        with open(os.path.join(folder, "model.safetensors.index.json"), "rb") as file:
            wanted.update(str(name) for name in json.loads(file.read(1 << 28))["weight_map"].values())
    except FileNotFoundError:
        pass
    except Exception:
        lacks.append("model.safetensors.index.json cannot be read")
    lacks += [text(name) + " is missing" for name in sorted(wanted) if not os.path.lexists(os.path.join(folder, name))]
    if not any(name.endswith(WEIGHTS) for name in names) and not wanted:
        lacks.append("there are no weights")
    return lacks


def unfinished_in(folder):
    found = []
    for _, _, files in os.walk(folder):
        found += [name for name in files if name.endswith(".incomplete")]
    return sorted(found)


def found(folder, form, repo, revision, unfinished):
    names = [name for name in entries(folder) if not name.startswith(".")]
    lacks = lacking(folder, names, unfinished) if form != "hub-notes" else ["there is no snapshot"]
    architecture, quantization = config(folder)
    size, readable = 0, os.access(folder, os.R_OK | os.X_OK)
    for at, below, files in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in files:
            path = os.path.join(at, name)
            try:
                size += os.stat(path).st_size
                readable = readable and os.access(path, os.R_OK)
            except OSError:
                pass
    answer["models"].append({
        "path": text(folder), "form": form, "repo": repo and text(repo), "revision": revision and text(revision),
        "complete": not lacks, "lacks": lacks[:5], "bytes": size, "architecture": architecture,
        "quantization": quantization, "uid": os.stat(folder).st_uid, "readable": readable,
        "writable": os.access(folder, os.W_OK)})


def hub(folder, name):
    repo = "/".join(name.split("--")[1:])
    unfinished = unfinished_in(os.path.join(folder, "blobs"))
    snapshots = os.path.join(folder, "snapshots")
    revisions = entries(snapshots) if os.path.isdir(snapshots) else []
    revisions = [name for name in revisions if os.path.isdir(os.path.join(snapshots, name))]
    for revision in revisions:
        found(os.path.join(snapshots, revision), "hub-cache", repo, revision, unfinished)
    if not revisions:
        found(folder, "hub-notes", repo, None, unfinished)


def local_revision(folder):
    notes = os.path.join(folder, ".cache/huggingface/download/config.json.metadata")
    try:
        with open(notes, encoding="utf-8", errors="replace") as file:
            line = file.readline().strip()
        return line if re.fullmatch(r"[0-9a-f]{40}", line) else None
    except OSError:
        return None


def look(folder, depth):
    name = os.path.basename(folder)
    if name.startswith("models--"):
        return hub(folder, name)
    names = entries(folder)
    if "model_index.json" in names:
        return
    if "config.json" in names:
        local = os.path.isdir(os.path.join(folder, ".cache/huggingface"))
        unfinished = unfinished_in(os.path.join(folder, ".cache/huggingface")) if local else []
        revision = local_revision(folder) if local else None
        return found(folder, "local-folder" if local else "plain", None, revision, unfinished)
    for name in names if depth else []:
        below = os.path.join(folder, name)
        if not name.startswith(".") and os.path.isdir(below) and not os.path.islink(below):
            look(below, depth - 1)


seen = set()
try:
    for folder in sys.argv[1:] + [hub for hub in hubs if hub]:
        real = os.path.realpath(folder)
        if real in seen or not os.path.isdir(folder):
            continue
        seen.add(real)
        answer["folders"].append(text(folder))
        look(folder, DEPTH)
except Late:
    answer["cut"] = True
answer["models"].sort(key=lambda model: model["path"])
print(json.dumps(answer))
