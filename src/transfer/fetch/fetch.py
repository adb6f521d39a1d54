# Downloads a model from a Hub into a folder of this node: several ranges at once, continued where a run before was cut,
# each file verified and only then given its name. Behind hub.py and files.py.
# Argument: the folder.
# Input: a line of JSON (`repository`, `revision`, `snapshot` where the folder is one of a Hub's cache, `endpoint`,
# `token`, `include`, `exclude`, `connections`, `part` and `patience`); the end of input before the end of the work stops
# it.
# Prints lines of JSON: `chosen` (what is to be there, and how much is), `bytes` twice a second, `told` (for people), and
# last `finished` or `failed`.
#
# Beside the files, in `.sparkctl`: `fetch/` has unfinished files and which ranges of each are there, `seen.json` what was
# verified, `manifest.json` what the model is. A range is noted behind its bytes, so what is noted is there; a power cut
# may break that, and then the file's digest shows it.
import fcntl, shutil, signal



class Work:
    # Everything under way, shared by the threads; all of it under one condition.
    def __init__(self, hub, folder, asked):
        self.hub, self.folder, self.snapshot = hub, folder, asked.get("snapshot")
        self.part_size = asked.get("part") or 64 << 20
        self.own = beside(folder)
        self.changed = threading.Condition()
        self.parts, self.hashing, self.left, self.failure = [], [], 0, None
        self.bytes, self.moved = 0, 0
        self.seen = read(os.path.join(self.own, "seen.json")) or {"format": 1, "files": {}}
        self.manifest = read(os.path.join(self.own, "manifest.json"))

    def count(self, received, bytes):
        with self.changed:
            self.moved += received
            self.bytes += bytes

    def queue(self, item, first=False):
        # With `changed` held: what of a file has to come, or its hashing where nothing has to.
        parts = [(item, a, b) for a, b in item.gaps(self.part_size)]
        item.open = len(parts)
        if parts:
            self.parts[0 if first else len(self.parts):0 if first else len(self.parts)] = parts
        else:
            self.hashing.append((item, item.part))
        self.changed.notify_all()

    def take(self, of):
        with self.changed:
            while not of and self.left and not self.failure:
                self.changed.wait()
            return of.pop(0) if of and not self.failure else None

    def thread(self, of, act):
        def run():
            while True:
                task = self.take(of)
                if task is None:
                    return
                try:
                    act(*task)
                except Exception as error:
                    with self.changed:
                        self.failure = self.failure or error
                        self.changed.notify_all()
                    return
        threading.Thread(target=run, daemon=True).start()

    def download(self, item, start, end):
        at, limit, me = start, end, object()

        def act():
            nonlocal at, limit
            answer, skip = self.hub.range(item.path, at, limit, item.size)
            if answer.code == 200:
                # It gives whole files only: then one connection does for this one, from its beginning.
                with self.changed:
                    if item.whole not in (None, me):
                        return answer.close()
                    if item.whole is None:
                        others = [part for part in self.parts if part[0] is item]
                        self.parts[:] = [part for part in self.parts if part[0] is not item]
                        item.open -= len(others)
                        item.whole, at, limit, skip = me, 0, item.size, 0
            begun = noted = at
            when = time.monotonic()
            try:
                while at < limit:
                    data = memoryview(answer.read1(1 << 18))
                    if not data:
                        raise Again("%s: the connection ended early" % self.hub.host)
                    self.hub.progressed()
                    dropped = min(skip, len(data))
                    skip -= dropped
                    data = data[dropped:min(len(data), dropped + limit - at)]
                    item.put(data, at)
                    at += len(data)
                    if at - noted > 1 << 22 or time.monotonic() - when > 0.2:
                        self.count(at - noted, item.note(begun, at))
                        noted, when = at, time.monotonic()
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise Again("%s: %s" % (self.hub.host, words(error)))
            finally:
                answer.close()
                if at > noted:
                    self.count(at - noted, item.note(begun, at))

        item.ready()
        self.hub.patiently(act, tell)
        with self.changed:
            item.open -= 1
            if item.open <= 0 and not item.gaps(self.part_size):
                self.hashing.append((item, item.part))
            elif item.open <= 0:
                self.queue(item)
            self.changed.notify_all()

    def verify(self, item, path):
        if path == item.part:
            item.ready()
        if item.is_right(path):
            if path == item.part:
                local(lambda: self.publish(item), item.target)
            elif path != item.target:
                local(lambda: self.link(item), item.target)
            with self.changed:
                if path != item.part:
                    self.bytes += item.size
                self.saw(item)
                self.left -= 1
                self.changed.notify_all()
            return
        if path == item.part:
            item.failures += 1
            if item.failures > 1:
                item.forget()
                raise Fatal("%s came twice, and both times it was not what the Hub says it is" % item.path,
                            "a proxy or mirror on the way changes files: take another way, or another HF_ENDPOINT")
            tell("%s did not arrive as what it is: it is fetched again" % item.path)
        with self.changed:
            self.bytes -= item.there() if path == item.part else 0
            if path == item.part:
                item.forget()
            else:
                tell("%s is there and is another one: it is fetched anew" % item.path)
                self.bytes += item.there()
            self.queue(item, first=True)

    def publish(self, item):
        # On the disk first, then under its name: what has the name is whole, whatever happens.
        os.fsync(item.ready())
        item.close()
        if self.snapshot is None:
            os.makedirs(os.path.dirname(item.target), exist_ok=True)
            os.replace(item.part, item.target)
        else:
            os.makedirs(os.path.dirname(self.blob(item)), exist_ok=True)
            os.replace(item.part, self.blob(item))
            self.link(item)
        if os.path.exists(item.notes):
            os.remove(item.notes)

    def blob(self, item):
        # Where a Hub's cache has a file's content, for all snapshots.
        return os.path.join(self.folder, "../../blobs", item.digest)

    def link(self, item):
        os.makedirs(os.path.dirname(item.target), exist_ok=True)
        new = item.part + ".link"
        if os.path.lexists(new):
            os.remove(new)
        os.symlink(os.path.relpath(self.blob(item), os.path.dirname(item.target)), new)
        os.replace(new, item.target)

    def saw(self, item):
        self.seen["files"][item.path] = dict(state_of(item.target), sha256=item.sha256)
        write(os.path.join(self.own, "seen.json"), self.seen)

    def is_known(self, item):
        # Whether a file is there and was verified in the state that it is in.
        seen = dict(self.seen["files"].get(item.path) or {})
        item.sha256 = seen.pop("sha256", None)
        if item.kind == "sha256":
            same = item.sha256 == item.digest
        else:
            before = (self.manifest or {}).get("files", {}).get(item.path, {})
            same = (self.manifest or {}).get("revision") == self.hub.commit and before.get("sha256") == item.sha256
        try:
            return same and seen == state_of(item.target)
        except OSError:
            return False

    def run(self, chosen, every, connections):
        places = os.path.join(self.own, "fetch")
        items = [Item(file, self.folder, places) for file in sorted(chosen, key=lambda file: (file.size, file.path))]
        missing = there = 0
        for item in items:
            if self.is_known(item):
                there += item.size
                continue
            self.left += 1
            places_of = [item.target] + ([self.blob(item)] if self.snapshot is not None else [])
            found = [path for path in places_of if os.path.isfile(path) and os.path.getsize(path) == item.size]
            if found:
                self.hashing.append((item, found[0]))
            else:
                missing += item.size - item.there()
                there += item.there()
                with self.changed:
                    self.queue(item)
        total = sum(item.size for item in items)
        before, source = self.manifest or {}, "hf:" + self.hub.repository
        other = [file for file in every if file not in chosen]
        is_other = before.get("revision") != self.hub.commit or before.get("source") != source
        say(chosen={
            "commit": self.hub.commit, "files": len(items), "bytes": total, "there": there,
            "left_out": {"files": len(other), "bytes": sum(file.size for file in other)},
            "before": before.get("revision") if before and is_other else None,
        })
        free = shutil.disk_usage(self.folder).free
        if free < missing:
            raise Fatal("%d bytes are missing, and %d are free at %s" % (missing, free, self.folder),
                        "free some space on that file system")
        self.bytes = there
        for _ in range(connections):
            self.thread(self.parts, self.download)
        for _ in range(min(4, os.cpu_count() or 1)):
            self.thread(self.hashing, self.verify)
        told, at = None, 0.0
        while True:
            with self.changed:
                if self.failure:
                    raise self.failure
                if not self.left:
                    break
                self.changed.wait(0.5)
                now = self.bytes
            if now != told and time.monotonic() - at >= 0.5:
                told, at = now, time.monotonic()
                say(bytes=told)
        self.finish(items, source)

    def finish(self, items, source):
        files = {} if (self.manifest or {}).get("revision") != self.hub.commit else dict(self.manifest["files"])
        files = {path: file for path, file in files.items() if os.path.isfile(os.path.join(self.folder, path))}
        files.update({item.path: {"size": item.size, "sha256": item.sha256} for item in items})
        write(os.path.join(self.own, "manifest.json"),
              {"format": 1, "source": source, "revision": self.hub.commit, "files": files})
        shutil.rmtree(os.path.join(self.own, "fetch"), ignore_errors=True)
        if self.snapshot is not None:
            refs = os.path.join(self.folder, "../../refs")
            if self.hub.revision != self.hub.commit:
                def act():
                    path = os.path.join(refs, self.hub.revision)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "w") as file:
                        file.write(self.hub.commit)
                local(act, refs)
        further = []
        for top, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths = [os.path.relpath(os.path.join(top, name), self.folder) for name in sorted(names)]
            further += [path for path in paths if path not in files and not os.path.basename(path).startswith(".")]
        say(bytes=self.bytes)
        say(finished={"commit": self.hub.commit, "files": len(items), "received": self.moved,
                      "further": further[:20], "further_count": len(further)})


def own_token():
    # The node's own, where huggingface_hub looks for it, and what it is called.
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if os.environ.get(name, "").strip():
            return os.environ[name].strip(), "%s of this node" % name
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    path = os.path.expanduser(os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token"))
    try:
        with open(path) as file:
            token = file.read().strip()
        return (token, path + " of this node") if token else (None, None)
    except OSError:
        return None, None


def main():
    folder, asked = os.path.abspath(sys.argv[1]), json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=watch, daemon=True).start()
    token, whose = (asked["token"], "HF_TOKEN of the operator") if asked.get("token") else own_token()
    endpoint = asked.get("endpoint") or os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    if not re.match("https?://[^/]", endpoint):
        raise Fatal("HF_ENDPOINT is no address: `%s`" % endpoint, "write https://HOST")
    hub = Hub(endpoint, asked["repository"], asked["revision"], token, whose, asked.get("patience") or 300)
    every = hub.patiently(hub.files, tell)
    if asked.get("snapshot") not in (None, hub.commit):
        raise Fatal(
            "`model.path` is the snapshot %s, and %s of %s is %s" % (asked["snapshot"], hub.revision, hub.repository,
                                                                     hub.commit),
            "end `model.path` with /snapshots/%s, or name a plain folder" % hub.commit,
        )
    chosen = choose(every, asked.get("include") or [], asked.get("exclude") or [])
    wanted = [file for file in chosen if file.size and not os.path.isfile(os.path.join(folder, file.path))]
    if wanted:
        # The list of a gated repository is open to all, its files are not: said before anything is made here.
        first = min(wanted, key=lambda file: file.size)
        hub.patiently(lambda: hub.range(first.path, 0, 1, first.size)[0].close(), tell)
    own = beside(folder)
    places = os.path.join(own, "fetch")
    local(lambda: [os.makedirs(path, exist_ok=True) for path in (folder, places)], places)
    lock = local(lambda: os.open(os.path.join(own, "fetch.lock"), os.O_RDWR | os.O_CREAT, 0o644), places)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Fatal("another fetch into %s is at work" % folder, "let it end")
    Work(hub, folder, asked).run(chosen, every, max(1, min(64, asked.get("connections") or 8)))


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leave(1, "stopped by a signal"))
try:
    main()
except Fatal as fatal:
    say(failed={"why": fatal.why, "hint": fatal.hint})
    leave(1, fatal.why)
except OSError as error:
    say(failed={"why": "%s: %s" % (error.filename or "the system", words(error)), "hint": None})
    leave(1, words(error))
leave(0)
