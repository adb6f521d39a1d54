# Prints what is in a model's files as JSON; reads their headers only, never the weights.
# Behind transfer/seen.py.
import json, os, re, struct, sys, time

root = sys.argv[1]
until = time.monotonic() + 20
answer = {"config": None, "index": None, "safetensors": [], "incomplete": [], "foreign": [], "problems": {},
          "origin": None, "hashes": {}}


def text(path):
    return os.fsencode(path).decode("utf-8", "replace")


def problem(path, error):
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if len(answer["problems"]) < 100:
        answer["problems"][text(path)] = text(why)[:300]


def read(name, limit):
    with open(os.path.join(root, name), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError("it is larger than %d bytes" % limit)
    return data


def attempt(name, act):
    try:
        return act()
    except FileNotFoundError:
        if os.path.lexists(os.path.join(root, name)):
            problem(name, ValueError("it is a link that leads nowhere"))
    except Exception as error:
        problem(name, error)


def index():
    parsed = json.loads(read("model.safetensors.index.json", 1 << 28))
    shards = parsed["weight_map"]
    size = (parsed.get("metadata") or {}).get("total_size")
    size = int(size) if isinstance(size, (int, float)) and size >= 0 else None
    names = sorted({str(name) for name in shards.values()})
    return {"total_size": size, "shards": [text(name) for name in names], "tensors": len(shards)}


def part(name):
    words = name.split(".")[:-1]
    numbers = [at for at, word in enumerate(words) if word.isdigit()]
    return ".".join(words[: numbers[0] + 1] if numbers else words) or name


def header(name):
    seen = {"path": text(name), "expected": None, "tensors": 0, "bytes_by_type": {}, "bytes_by_part": {}}
    with open(os.path.join(root, name), "rb") as file:
        seen["size"] = os.fstat(file.fileno()).st_size
        answer["safetensors"].append(seen)
        first = file.read(8)
        if len(first) < 8:
            raise ValueError("it is too short for a header")
        (length,) = struct.unpack("<Q", first)
        if length > 100_000_000:
            raise ValueError("its header claims %d bytes, so it is no safetensors file" % length)
        data = file.read(length)
        if len(data) < length:
            raise ValueError("it ends within its header")
    end = 0
    for tensor, entry in json.loads(data).items():
        if tensor == "__metadata__":
            continue
        start, stop = entry["data_offsets"]
        if not 0 <= start <= stop < 1 << 60:
            raise ValueError("its header makes no sense")
        end = max(end, stop)
        seen["tensors"] += 1
        for key, value in (("bytes_by_type", entry["dtype"]), ("bytes_by_part", part(tensor))):
            value = text(str(value))
            seen[key][value] = seen[key].get(value, 0) + stop - start
    seen["expected"] = 8 + length + end


def foreign(path):
    full = os.path.join(root, path)
    uid = os.stat(full).st_uid
    if uid != os.geteuid() and len(answer["foreign"]) < 100:
        readable = os.access(full, os.R_OK | (os.X_OK if os.path.isdir(full) else 0))
        answer["foreign"].append(
            {"path": text(path), "uid": uid, "readable": readable, "writable": os.access(full, os.W_OK)})


def first_line(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.readline().strip()


def commits(lines):
    return sorted({line for line in lines if re.fullmatch("[0-9a-f]{40}", line)})


def by_manifest():
    try:
        with open(os.path.join(root, ".sparkctl/manifest.json"), "rb") as file:
            manifest = json.loads(file.read(1 << 26))
        source, revision = manifest.get("source"), manifest.get("revision")
    except (OSError, ValueError, AttributeError):
        return None
    repo = source[3:].split("@")[0] if isinstance(source, str) and source.startswith("hf:") else None
    revisions = commits([str(revision)])
    if repo or revisions:
        return {"told_by": "the model's manifest", "repo": repo, "revisions": revisions}


def by_cache():
    place = os.path.realpath(root).split(os.sep)
    if len(place) < 3 or place[-2] != "snapshots" or not place[-3].startswith("models--"):
        return None
    refs, folder = {}, os.sep.join(place[:-2] + ["refs"])
    for at, _, files in os.walk(folder):
        for name in files[:100]:
            path = os.path.join(at, name)
            for commit in commits([first_line(path)]):
                refs[text(os.path.relpath(path, folder))] = commit
    return {"told_by": "the Hub's cache", "repo": text("/".join(place[-3].split("--")[1:])),
            "revisions": commits([place[-1]]), "refs": refs}


def by_notes():
    folder = os.path.join(root, ".cache/huggingface/download")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    notes = [name for name in names if name.endswith(".metadata") and os.path.exists(os.path.join(root, name[:-9]))]
    revisions = commits(first_line(os.path.join(folder, name)) for name in notes)
    return {"told_by": "the notes of `hf download`", "revisions": revisions} if revisions else None


answer["config"] = attempt("config.json", lambda: read("config.json", 1 << 20).decode("utf-8", "replace"))
answer["index"] = attempt("model.safetensors.index.json", index)
folders = [root]
if os.path.basename(os.path.dirname(os.path.realpath(root))) == "snapshots":
    folders.append(os.path.join(os.path.realpath(root), "..", "..", "blobs"))
for folder in folders:
    for at, below, files in os.walk(folder):
        for name in [""] + files:
            path = os.path.relpath(os.path.join(at, name), root)
            if name.endswith(".incomplete"):
                answer["incomplete"].append(text(path))
            if folder is root:
                try:
                    foreign("" if path == "." else path)
                except OSError:
                    pass
answer["incomplete"].sort()
for told in (by_manifest, by_cache, by_notes):
    try:
        answer["origin"] = answer["origin"] or told()
    except OSError:
        pass
for name in sorted(attempt(".", lambda: os.listdir(root)) or []):
    if name.endswith(".safetensors") and not name.startswith("."):
        if time.monotonic() > until:
            problem(".", ValueError("there was no time for all headers"))
            break
        attempt(name, lambda: header(name))


def hashes():
    seen = Seen(root)
    for path in seen.before:
        try:
            sha256 = seen.known(path, state_of(os.stat(os.path.join(root, path))))
        except OSError:
            continue
        if sha256:
            answer["hashes"][path] = sha256


attempt(".sparkctl", hashes)
print(json.dumps(answer))
