# What this node knows of a model's files; stands ahead of the programs that need it.
#
# Two files: `manifest.json`, what the model is, and `seen.json`, of which files the SHA-256 was computed, and their size,
# time of change and inode then. They lie in the folder `.sparkctl` of the model's folder. Of a snapshot in a Hub's cache
# that is `models--OWNER--NAME/.sparkctl/REVISION`, which no tool of the Hub looks into. Where this user may not write
# there, they lie in sparkctl's own folder, under a name made of the path.
import hashlib, json, os, threading
try:
    import fcntl
except ImportError:
    fcntl = None

FORMAT = 1


def beside(folder):
    folder = os.path.abspath(folder)
    above, revision = os.path.split(folder)
    model, snapshots = os.path.split(above)
    if snapshots == "snapshots" and os.path.basename(model).startswith("models--"):
        return os.path.join(model, ".sparkctl", revision)
    return os.path.join(folder, ".sparkctl")


def apart(folder):
    name = hashlib.sha256(os.fsencode(os.path.abspath(folder))).hexdigest()
    return os.path.join(os.path.expanduser("~"), ".local", "state", "sparkctl", ".models", name)


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        return value if value["format"] == FORMAT and isinstance(value["files"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(folder, name, value):
    # Whole or not at all; where it lies now.
    error = None
    for place in (beside(folder), apart(folder)):
        path = os.path.join(place, name)
        new = "%s.%d" % (path, os.getpid())
        try:
            os.makedirs(place, exist_ok=True)
            with open(new, "w", encoding="utf-8") as file:
                json.dump(value, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
            return path
        except OSError as problem:
            error = error or problem
            try:
                os.remove(new)
            except OSError:
                pass
    raise error


def state_of(stat):
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "inode": stat.st_ino}


def read_seen(folder):
    # What lies apart is newer: it is only written where nothing can be written beside.
    files = {}
    for place in (beside(folder), apart(folder)):
        files.update((load(os.path.join(place, "seen.json")) or {"files": {}})["files"])
    return files


def read_manifest(folder):
    for place in (beside(folder), apart(folder)):
        manifest = load(os.path.join(place, "manifest.json"))
        if manifest:
            return manifest
    return None


def files_of(folder):
    # Every file that is not hidden, links followed, with its state.
    for at, below, names in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                full = os.path.join(at, name)
                try:
                    yield os.path.relpath(full, folder), state_of(os.stat(full))
                except OSError:
                    pass


def is_state(entry, state):
    return isinstance(entry, dict) and all(entry.get(key) == value for key, value in state.items())


class Seen:
    # `fresh`: what was seen before does not count.
    def __init__(self, folder, fresh=False):
        self.folder, self.fresh, self.lock, self.noted = folder, fresh, threading.Lock(), {}
        self.before = read_seen(folder)

    def known(self, path, state):
        with self.lock:
            entry = self.noted.get(path) or (None if self.fresh else self.before.get(path))
        return entry["sha256"] if is_state(entry, state) else None

    def earlier(self, path, state):
        # What was seen of a file in this very state, also where that does not count.
        entry = self.before.get(path)
        return entry["sha256"] if is_state(entry, state) else None

    def note(self, path, state, sha256):
        with self.lock:
            self.noted[path] = dict(state, sha256=sha256)

    def again(self):
        files = read_seen(self.folder)
        with self.lock:
            self.before = files

    def save(self):
        # Another program may have written in between: its files stay.
        with self.lock:
            files = read_seen(self.folder)
            files.update(self.noted)
            if self.noted:
                store(self.folder, "seen.json", {"format": FORMAT, "files": files})

    def save_manifest(self, source=None, revision=None):
        # What lies there, where every file's hash is known. What a Hub says of a model is not written over.
        files, manifest = {}, read_manifest(self.folder)
        for path, state in files_of(self.folder):
            sha256 = self.known(path, state)
            if sha256 is None:
                return
            files[path] = {"size": state["size"], "sha256": sha256}
        if manifest and manifest.get("source") and (manifest["source"], manifest.get("revision")) == (source, revision):
            return
        new = {"format": FORMAT, "files": files}
        new.update((key, value) for key, value in (("source", source), ("revision", revision)) if value)
        if new != manifest:
            store(self.folder, "manifest.json", new)


def gently():
    # Hashing gives way to copying.
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
    except (AttributeError, OSError):
        pass


BLOCK = 1 << 20


def digest(path, count=lambda count: None):
    # The SHA-256 of a file as it is now, and its state; hashlib lets other threads run meanwhile.
    sha256, buffer = hashlib.sha256(), memoryview(bytearray(BLOCK))
    with open(path, "rb", buffering=0) as file:
        before = state_of(os.fstat(file.fileno()))
        while True:
            got = file.readinto(buffer)
            if not got:
                break
            sha256.update(buffer[:got])
            count(got)
        if state_of(os.fstat(file.fileno())) != before:
            raise OSError(0, "it changes while it is read")
    return sha256.hexdigest(), before
