# The files of one fetch, and how far each is; and what this node's disk may say. Behind hub.py, ahead of fetch.py.
import errno, hashlib, sys, zlib


def say(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def tell(text):
    say(told=text)


def leave(status, words=""):
    if words:
        print(words, file=sys.stderr, flush=True)
    os._exit(status)


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    leave(1, "stopped: the connection to sparkctl is gone")


def local(act, path):
    # What this node's own files may refuse.
    try:
        return act()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Fatal("the disk is full: %s" % path, "free some space, and fetch again: it goes on where it is")
        hint = None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "let the user write there: sudo mkdir -p FOLDER && sudo chown -R USER FOLDER"
        raise Fatal("cannot write %s: %s" % (path, error.strerror), hint)


def write(path, value):
    def act():
        with open(path + ".new", "w") as file:
            json.dump(value, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
    local(act, path)


def read(path):
    try:
        with open(path) as file:
            value = json.load(file)
        return value if value.get("format") == 1 and isinstance(value["files"], dict) else None
    except (OSError, ValueError, AttributeError, KeyError):
        return None


def beside(folder):
    # Where what is known of a model's folder lies: in it; for a snapshot of a Hub's cache beside all snapshots.
    above, revision = os.path.split(folder)
    model, snapshots = os.path.split(above)
    if snapshots == "snapshots" and os.path.basename(model).startswith("models--"):
        return os.path.join(model, ".sparkctl", revision)
    return os.path.join(folder, ".sparkctl")


def state_of(path):
    stat = os.stat(path)
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "inode": stat.st_ino}


class Item:
    # A file that is to be there, and how far it is.
    def __init__(self, file, folder, places):
        self.path, self.size, self.kind, self.digest = file.path, file.size, file.kind, file.digest
        self.target = os.path.join(folder, self.path)
        self.part = os.path.join(places, "%s-%08x" % (self.digest, zlib.crc32(self.path.encode())))
        self.notes = self.part + ".json"
        self.lock, self.noted, self.open, self.failures, self.sha256 = threading.Lock(), 0.0, 0, 0, None
        self.whole = None  # which download takes all of it, where the other side knows no ranges
        self.descriptor, self.done = None, []
        try:
            with open(self.notes) as notes:
                done = [(int(a), int(b)) for a, b in json.load(notes)["done"]]
            if 0 <= max(b for _, b in done) <= os.stat(self.part).st_size:
                self.done = done
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def there(self):
        return sum(b - a for a, b in self.done)

    def gaps(self, longest):
        at, gaps = 0, []
        for a, b in sorted(self.done) + [(self.size, self.size)]:
            while at < a:
                gaps.append((at, min(a, at + longest)))
                at = gaps[-1][1]
            at = max(at, b)
        return gaps

    def ready(self):
        with self.lock:
            if self.descriptor is None:
                flags = os.O_RDWR | os.O_CREAT
                self.descriptor = local(lambda: os.open(self.part, flags, 0o644), self.part)
        return self.descriptor

    def put(self, data, at):
        def act():
            view, place = data, at
            while view:
                count = os.pwrite(self.descriptor, view, place)
                view, place = view[count:], place + count
        local(act, self.part)

    def note(self, start, end):
        # Bytes from `start` to before `end` are there; how many of them were not before.
        with self.lock:
            merged, before = [], self.there()
            for a, b in sorted(self.done + [(start, end)]):
                if merged and a <= merged[-1][1]:
                    merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
                else:
                    merged.append((a, b))
            self.done = merged
            if time.monotonic() - self.noted > 0.2 or not self.gaps(self.size):
                self.noted = time.monotonic()
                self.write_notes()
            return self.there() - before

    def write_notes(self):
        def act():
            with open(self.notes + ".new", "w") as notes:
                json.dump({"done": self.done}, notes)
            os.replace(self.notes + ".new", self.notes)
        local(act, self.notes)

    def close(self):
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None

    def forget(self):
        with self.lock:
            self.close()
            self.done, self.whole = [], None
            for path in (self.notes, self.part):
                if os.path.exists(path):
                    os.remove(path)

    def is_right(self, path):
        # Whether a file's content is what it should be; its SHA-256 is known afterwards.
        sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % self.size)
        try:
            with open(path, "rb", buffering=0) as file:
                buffer = memoryview(bytearray(1 << 22))
                while True:
                    count = file.readinto(buffer)
                    if not count:
                        break
                    sha256.update(buffer[:count])
                    if self.kind == "sha1":
                        blob.update(buffer[:count])
        except OSError as error:
            raise Fatal("cannot read %s: %s" % (path, error.strerror))
        self.sha256 = sha256.hexdigest()
        return self.digest == (self.sha256 if self.kind == "sha256" else blob.hexdigest())
