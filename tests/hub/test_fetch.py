# Tests of src/transfer/fetch by itself: the script that a node runs, against a Hub with faults. python3 test_fetch.py
import fcntl, hashlib, json, os, random, shutil, signal, subprocess, sys, tempfile, time, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from server import Hub, Repository

SCRIPTS = os.path.join(HERE, "../../src/transfer/fetch")
PARTS = ["hub.py", "files.py", "fetch.py"]
random.seed(7)


def program():
    text = ""
    for name in PARTS:
        with open(os.path.join(SCRIPTS, name)) as file:
            text += file.read() + "\n"
    return text


def write(folder, files):
    for path, data in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "wb") as file:
            file.write(data)


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


MODEL = {
    "config.json": b'{"architectures": ["X"]}',
    "empty.txt": b"",
    "sub dir/tokenizer \xc3\xbc.json".encode("latin1").decode("utf-8"): b"t" * 5000,
    "model-00001-of-00002.safetensors": random.getrandbits(8 * 3_000_000).to_bytes(3_000_000, "big"),
    "model-00002-of-00002.safetensors": random.getrandbits(8 * 1_234_567).to_bytes(1_234_567, "big"),
    "same.safetensors": b"s" * 50_000,
    "twin.safetensors": b"s" * 50_000,
}
OTHER = {"original/consolidated.00.pth": b"o" * 20_000, "pytorch_model.bin": b"b" * 20_000, ".gitattributes": b"x",
         "onnx/model.onnx": b"n" * 30, "model-Q4.gguf": b"g" * 20}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fetch-")
        self.source, self.target = os.path.join(self.folder, "hub"), os.path.join(self.folder, "a/model")
        write(self.source, dict(MODEL, **OTHER))
        self.hub = Hub()
        self.hub.repositories["o/n"] = Repository(self.source)
        self.commit = self.hub.repositories["o/n"].commit
        with open(os.path.join(self.folder, "program.py"), "w") as file:
            file.write(program())

    def tearDown(self):
        self.hub.close()
        shutil.rmtree(self.folder)

    def start(self, target=None, environment=None, **asked):
        asked = dict({"repository": "o/n", "revision": "main", "endpoint": self.hub.endpoint, "part": 400_000,
                      "patience": 4}, **asked)
        env = {key: value for key, value in os.environ.items() if "proxy" not in key.lower() and "HF_" not in key}
        env.update({"HOME": self.folder}, **(environment or {}))
        child = subprocess.Popen([sys.executable, os.path.join(self.folder, "program.py"), target or self.target],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        child.stdin.write(json.dumps(asked).encode() + b"\n")
        child.stdin.flush()
        return child

    def fetch(self, **asked):
        child = self.start(**asked)
        out, err = b"", b""
        # Its input stays open until it ends.
        out = child.stdout.read()
        err = child.stderr.read()
        child.stdin.close()
        code = child.wait()
        child.stdout.close()
        child.stderr.close()
        self.lines = [json.loads(line) for line in out.splitlines()]
        self.assertTrue(self.lines, err.decode())
        last = self.lines[-1]
        self.assertEqual(code, 0 if "finished" in last else 1, err.decode())
        self.chosen = next((line["chosen"] for line in self.lines if "chosen" in line), None)
        return last.get("finished") or last["failed"]

    def told(self):
        return "; ".join(line["told"] for line in self.lines if "told" in line)

    def assert_whole(self, files=MODEL, target=None, own=None):
        target = target or self.target
        own = own or os.path.join(target, ".sparkctl")
        manifest, seen = json.loads(read(own, "manifest.json")), json.loads(read(own, "seen.json"))
        self.assertEqual((manifest["source"], manifest["revision"]), ("hf:o/n", self.commit))
        self.assertEqual(sorted(manifest["files"]), sorted(files))
        for path, data in files.items():
            self.assertEqual(read(target, path), data, path)
            sha256 = hashlib.sha256(data).hexdigest()
            self.assertEqual(manifest["files"][path], {"size": len(data), "sha256": sha256})
            stat = os.stat(os.path.join(target, path))
            self.assertEqual(seen["files"][path], {"size": len(data), "mtime_ns": stat.st_mtime_ns,
                                                   "inode": stat.st_ino, "sha256": sha256})
        self.assertEqual(sorted(os.listdir(own)),
                         ["fetch.lock", "manifest.json", "seen.json"])

    def asked(self, port):
        return [request for request in self.hub.requests if request[0] == port]

    def test_everything_of_the_model_comes_and_nothing_twice(self):
        done = self.fetch()
        self.assert_whole()
        total = sum(map(len, MODEL.values()))
        self.assertEqual((self.chosen["bytes"], self.chosen["there"], self.chosen["before"]), (total, 0, None))
        self.assertEqual(self.chosen["left_out"]["files"], len(OTHER))
        self.assertEqual((done["received"], done["further"]), (total, []))
        self.assertEqual(sorted(os.listdir(self.target)),
                         sorted({path.split("/")[0] for path in MODEL} | {".sparkctl"}))
        # Again: one question to the Hub, and nothing else.
        self.hub.requests.clear()
        self.assertEqual((self.fetch()["received"], len(self.hub.requests)), (0, 1))
        self.assertEqual(self.chosen["there"], total)
        self.assert_whole()

    def test_what_is_there_is_verified_and_only_what_is_wrong_comes(self):
        large, small = "model-00001-of-00002.safetensors", "config.json"
        write(self.target, dict(MODEL, **{"notes.txt": b"mine", "model-00009-of-00009.safetensors": b"stale"}))
        done = self.fetch()
        self.assertEqual(done["received"], 0)
        self.assertEqual(done["further"], ["model-00009-of-00009.safetensors", "notes.txt"])
        self.assert_whole()
        wrong = bytearray(MODEL[large])
        wrong[1_000_000] ^= 1
        write(self.target, {large: bytes(wrong), small: MODEL[small].replace(b"X", b"Y"), "empty.txt": b"no"})
        self.assertEqual(self.fetch()["received"], len(MODEL[large]) + len(MODEL[small]))
        self.assertIn(large + " is there and is another one", self.told())
        self.assert_whole()

    def test_killed_at_any_byte_it_goes_on(self):
        self.hub.rate = 250_000
        last, kills = 0, 0
        for _ in range(15):
            child = self.start(connections=4)
            time.sleep(random.uniform(0.6, 1.4))
            how = random.choice(["kill", "close", "term"])
            if child.poll() is None:
                kills += 1
                if how == "kill":
                    child.kill()
                elif how == "term":
                    child.terminate()
            child.stdin.close()
            out = child.stdout.read()
            child.stderr.read()
            child.wait(5)
            child.stdout.close()
            child.stderr.close()
            lines = [json.loads(line) for line in out.splitlines() if line.endswith(b"}")]
            chosen = [line["chosen"] for line in lines if "chosen" in line]
            if chosen:
                self.assertGreaterEqual(chosen[0]["there"], last, "what was there once is there")
                last = chosen[0]["there"]
            for path, data in MODEL.items():
                if os.path.exists(os.path.join(self.target, path)):
                    self.assertEqual(read(self.target, path), data, "a name means a whole file")
            if any("finished" in line for line in lines):
                break
        self.assertGreater(kills, 2)
        self.hub.rate = None
        received = self.fetch()["received"]
        self.assert_whole()
        small = sum(len(data) for data in MODEL.values() if len(data) < 10_000)  # their digests are computed anew
        self.assertAlmostEqual(received, sum(map(len, MODEL.values())) - self.chosen["there"], delta=small)
        self.assertGreater(last, 1_000_000)

    def test_a_network_with_every_fault(self):
        self.hub.cut, self.hub.reset, self.hub.uses = 4, 3, 2
        self.hub.corrupt = {"model-00002-of-00002.safetensors": 1}
        self.hub.statuses = [("cdn", 500, {}), ("cdn", 503, {"Retry-After": "1"}), ("hub", 502, {}),
                             ("hub", 429, {"RateLimit": '"resolvers";r=0;t=1'})]
        self.fetch(connections=3, patience=20)
        self.assert_whole()
        self.assertIn("asks to wait 1 s", self.told())
        self.assertIn("model-00002-of-00002.safetensors did not arrive as what it is", self.told())

    def test_a_server_without_ranges(self):
        self.hub.whole = True
        received = self.fetch(connections=4)["received"]
        self.assert_whole()
        self.assertLess(received, 1.5 * sum(map(len, MODEL.values())))

    def test_bytes_that_are_wrong_twice_are_never_given_a_name(self):
        self.hub.corrupt = {"model-00002-of-00002.safetensors": 99, "config.json": 99}
        failed = self.fetch()
        self.assertRegex(failed["why"], "came twice")
        self.assertFalse(os.path.exists(os.path.join(self.target, "model-00002-of-00002.safetensors")))
        self.assertFalse(os.path.exists(os.path.join(self.target, ".sparkctl/manifest.json")))
        self.hub.corrupt = {}
        self.fetch()
        self.assert_whole()

    def test_another_revision_replaces_the_files_that_differ(self):
        self.fetch()
        before, self.commit = self.commit, "c" * 40
        write(self.source, {"config.json": b"{}"})
        os.remove(os.path.join(self.source, "twin.safetensors"))
        self.hub.repositories["o/n"].revisions.update({"refs/pr/7": self.commit, self.commit: self.commit})
        done = self.fetch(revision="refs/pr/7")
        self.assertEqual(self.chosen["before"], before)
        # What is not of LFS is compared by its hash; what is of it was seen.
        self.assertEqual((done["received"], done["further"]), (2, ["twin.safetensors"]))
        model = {path: data for path, data in MODEL.items() if path != "twin.safetensors"}
        self.assert_whole(dict(model, **{"config.json": b"{}"}))

    def test_chosen_files(self):
        self.assertEqual(self.fetch(include=["*.json", "*.gguf", "original/"], exclude=["sub*"])["files"], 3)
        self.assertEqual(sorted(json.loads(read(self.target, ".sparkctl/manifest.json"))["files"]),
                         ["config.json", "model-Q4.gguf", "original/consolidated.00.pth"])
        # The rest of the same revision joins it.
        self.fetch()
        files = json.loads(read(self.target, ".sparkctl/manifest.json"))["files"]
        self.assertEqual(len(files), len(MODEL) + 2)
        self.assertEqual(self.fetch(include=["nothing*"])["why"], "no file of the repository is chosen")

    def test_which_form_of_the_weights(self):
        def chosen(*names):
            sizes = {"sha256": "0" * 64}
            files = [scope["File"]({"rfilename": n, "size": 1, "blobId": "0" * 40}) for n in names]
            try:
                return [file.path for file in scope["choose"](files, [], [])]
            except scope["Fatal"] as fatal:
                return fatal.why
        scope = {}
        exec(compile(program().split("# Downloads a model")[0], "hub", "exec"), scope)
        self.assertEqual(chosen("config.json", "pytorch_model.bin", "original/x.pth", "m.gguf", "tf_model.h5"),
                         ["config.json", "pytorch_model.bin"])
        mistral = ["consolidated-00001-of-00002.safetensors", "consolidated.safetensors"]
        self.assertEqual(chosen("params.json", *mistral), ["params.json"] + mistral)
        self.assertEqual(chosen("model.safetensors", "params.json", *mistral), ["model.safetensors", "params.json"])
        self.assertEqual(chosen("model.safetensors", "spk_dict.pt", "metal/model.bin", "tokenizer/special.json"),
                         ["model.safetensors", "spk_dict.pt", "tokenizer/special.json"])
        self.assertIn("only GGUF", chosen("config.json", "Q4.gguf"))

    def test_refusals_are_explained(self):
        repository = self.hub.repositories["o/n"]
        rows = [
            ({"repository": "o/none"}, {}, "no repository o/none at", "set HF_TOKEN"),
            ({"repository": "o/none", "token": "hf_good"}, {}, "no repository o/none at", "correct `model.source`"),
            ({"revision": "v9"}, {}, "o/n has no revision `v9`", "/o/n/commits/main"),
            ({"token": "hf_bad"}, {}, "does not accept the token (HF_TOKEN of the operator)", "/settings/tokens"),
            ({}, {"HF_TOKEN": "hf_bad"}, "does not accept the token (HF_TOKEN of this node)", "/settings/tokens"),
            ({}, {"gated": True}, "o/n is gated: whoever reads it", "/o/n, then set HF_TOKEN"),
            ({"token": "hf_good"}, {"gated": True}, "the user of the token (HF_TOKEN of the operator) may not",
             "as that user"),
            ({"endpoint": "http://127.0.0.1:9"}, {}, "cannot reach 127.0.0.1:9: Connection refused", "mirror"),
            ({"endpoint": "hub.example"}, {}, "HF_ENDPOINT is no address", "https://HOST"),
            ({"endpoint": self.hub.cdn_endpoint}, {}, "HTTP 403", None),
        ]
        for asked, other, why, hint in rows:
            repository.gated = other.get("gated", False)
            environment = {"HF_TOKEN": other["HF_TOKEN"]} if "HF_TOKEN" in other else {}
            failed = self.fetch(environment=environment, **dict({"patience": 1}, **asked))
            self.assertIn(why, failed["why"])
            self.assertIn(hint or "", failed["hint"] or "")
            self.assertNotIn("hf_", json.dumps(self.lines).replace("hf_token", ""))

    def test_the_token_goes_to_the_hub_alone(self):
        self.hub.repositories["o/n"].gated = "granted"
        os.makedirs(os.path.join(self.folder, ".cache/huggingface"))
        with open(os.path.join(self.folder, ".cache/huggingface/token"), "w") as file:
            file.write("hf_good\n")
        self.fetch()
        self.assert_whole()
        self.assertTrue(all(h.get("Authorization") == "Bearer hf_good" for _, _, h in self.asked("hub")))
        self.assertTrue(self.asked("cdn"))
        self.assertFalse([h for _, _, h in self.asked("cdn") if "Authorization" in h])
        for top, _, names in os.walk(self.target):
            for name in names:
                self.assertNotIn(b"hf_good", read(top, name))

    def test_a_repository_that_was_renamed(self):
        self.hub.repositories["old/name"] = "o/n"
        self.fetch(repository="old/name")
        self.assertEqual(read(self.target, "config.json"), MODEL["config.json"])

    def test_names_that_lead_out_of_the_folder(self):
        repository, siblings = self.hub.repositories["o/n"], Repository(self.source).siblings()
        for name in ("../x", "/etc/x", "a//b", "a/../../x", ".sparkctl/manifest.json", "a\nb"):
            bad = dict(siblings[0], rfilename=name)
            repository.siblings = lambda: siblings + [bad]
            self.assertIn("cannot be a file here", self.fetch()["why"])
        self.assertFalse(os.path.exists(self.target))

    def test_a_snapshot_of_a_hub_cache(self):
        cache = os.path.join(self.folder, "cache/models--o--n")
        target = os.path.join(cache, "snapshots", self.commit)
        # One blob is there, from another snapshot.
        twin = hashlib.sha256(MODEL["twin.safetensors"]).hexdigest()
        write(cache, {"blobs/" + twin: MODEL["twin.safetensors"]})
        done = self.fetch(target=target, snapshot=self.commit)
        self.assertEqual(done["received"], sum(map(len, MODEL.values())) - 2 * 50_000)
        self.assert_whole(target=target, own=os.path.join(cache, ".sparkctl", self.commit))
        self.assertFalse([name for name in os.listdir(target) if name.startswith(".")])
        self.assertEqual(read(cache, "refs/main").decode(), self.commit)
        self.assertEqual(os.readlink(os.path.join(target, "config.json")), "../../blobs/" + hashlib.sha1(
            b"blob %d\0" % len(MODEL["config.json"]) + MODEL["config.json"]).hexdigest())
        nested = next(path for path in MODEL if "/" in path)
        self.assertTrue(os.readlink(os.path.join(target, nested)).startswith("../../../blobs/"))
        self.hub.requests.clear()
        self.fetch(target=target, snapshot=self.commit)
        self.assertEqual(len(self.hub.requests), 1)
        failed = self.fetch(target=os.path.join(cache, "snapshots/" + "d" * 40), snapshot="d" * 40)
        self.assertIn("`model.path` is the snapshot dddd", failed["why"])
        self.assertIn("/snapshots/" + self.commit, failed["hint"])

    def test_two_at_a_time_and_a_folder_that_cannot_be_written(self):
        os.makedirs(os.path.join(self.target, ".sparkctl"))
        with open(os.path.join(self.target, ".sparkctl/fetch.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("another fetch into", self.fetch()["why"])
        write(self.folder, {"a file": b""})
        failed = self.fetch(target=os.path.join(self.folder, "a file/model"))
        self.assertIn("cannot write", failed["why"])

    def test_a_disk_that_is_too_small(self):
        small = os.path.join(self.folder, "small")
        os.makedirs(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", small], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("only root can make a small disk")
        try:
            failed = self.fetch(target=small + "/model")
            self.assertRegex(failed["why"], r"^\d+ bytes are missing, and \d+ are free at ")
            self.assertFalse(self.asked("cdn"))
            # It fills while files come.
            write(small, {"filler": b"f" * 1_000_000})
            self.hub.rate = 2_000_000
            child = self.start(target=small + "/model", include=["model-00002*", "config.json"], connections=1)
            time.sleep(0.4)
            write(small, {"filler2": b"f" * 1_300_000})
            out = child.stdout.read()
            child.stderr.read()
            child.stdin.close(), child.wait(), child.stdout.close(), child.stderr.close()
            self.assertIn("the disk is full", json.loads(out.splitlines()[-1])["failed"]["why"])
        finally:
            subprocess.run(["umount", small], check=True)

    def test_a_stall_ends(self):
        self.hub.statuses = [("cdn", 500, {})] * 10_000
        begun = time.monotonic()
        failed = self.fetch(patience=2)
        self.assertRegex(failed["why"], r"^nothing came for 2 s: 127.0.0.1:\d+ answers HTTP 500 for ")
        self.assertLess(time.monotonic() - begun, 30)


if __name__ == "__main__":
    unittest.main()
