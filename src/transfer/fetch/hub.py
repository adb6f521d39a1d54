# Speaks to a Hub: which files a model has at a revision, and any range of any of them. Used by fetch.py.
#
# The token goes to the Hub's own host and to no other: what the Hub redirects to (a CDN, signed for a while) never sees
# it, so redirects are followed here and not by urllib, which would pass every header on. Proxies (`http_proxy`,
# `https_proxy`, `no_proxy`) and certificates (`SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE`) are the node's own.
import email.utils, fnmatch, http.client, json, os, random, re, ssl, threading, time
import urllib.error, urllib.parse, urllib.request


class Fatal(Exception):
    # What no second try would mend, and what to do about it.
    def __init__(self, why, hint=None):
        super().__init__(why)
        self.why, self.hint = why, hint


class Again(Exception):
    # What another try may mend. `pause`: seconds that the other side asks for.
    def __init__(self, why, pause=None):
        super().__init__(why)
        self.why, self.pause = why, pause


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def words(error):
    # What an error of the network or the system says, without its class and number.
    reason = getattr(error, "reason", None)
    if isinstance(reason, Exception):
        return words(reason)
    if isinstance(error, TimeoutError) or "timed out" in str(error):
        return "it did not answer in time"
    return getattr(error, "strerror", None) or str(reason or error) or type(error).__name__


def place(url):
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def pause_of(headers):
    # Seconds until the Hub lets in again: `Retry-After`, as a number or a date, or its own `RateLimit: "api";r=0;t=55`.
    after = headers.get("Retry-After", "").strip()
    if after.isdigit():
        return int(after)
    try:
        return max(0, email.utils.parsedate_to_datetime(after).timestamp() - time.time())
    except (TypeError, ValueError, IndexError):
        pass
    reset = re.search(r"\bt=(\d+)", headers.get("RateLimit", ""))
    return int(reset.group(1)) if reset else None


class Hub:
    FIRST = 15  # seconds of trying while nothing has worked yet

    def __init__(self, endpoint, repository, revision, token, whose, patience):
        self.endpoint, self.repository, self.revision = endpoint.rstrip("/"), repository, revision
        self.token, self.whose, self.patience = token, whose, patience
        self.host = urllib.parse.urlsplit(self.endpoint).netloc.rpartition("@")[2]
        self.page = self.endpoint + "/" + repository
        self.commit = None
        self.signed = {}  # by file: where its bytes are, for a while
        self.moved, self.worked, self.not_before = time.monotonic(), False, 0.0
        self.lock = threading.Lock()
        context = ssl.create_default_context()
        bundle = os.environ.get("REQUESTS_CA_BUNDLE")
        if bundle and os.path.isfile(bundle):
            context.load_verify_locations(bundle)
        self.opener = urllib.request.build_opener(Stay, urllib.request.HTTPSHandler(context=context))

    def open(self, url, headers):
        # An answer of any status. Only the Hub itself is told who asks.
        request = urllib.request.Request(url, headers=dict(headers, **{"User-Agent": "sparkctl"}))
        if self.token and place(url) == place(self.endpoint):
            request.add_unredirected_header("Authorization", "Bearer " + self.token)
        host = urllib.parse.urlsplit(url).netloc
        try:
            return self.opener.open(request, timeout=30)
        except urllib.error.HTTPError as answer:
            return answer
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise Fatal(
                    "the certificate of %s is not trusted here: %s" % (host, reason.verify_message),
                    "name the file of your CA's certificates in SSL_CERT_FILE in this node's /etc/environment",
                )
            raise Again("%s: %s" % (host, words(error)))

    def follow(self, url, headers):
        # The answer behind redirects within the Hub, such as those of a repository that was renamed.
        for _ in range(5):
            answer = self.open(url, headers)
            target = answer.headers.get("Location") if answer.code in (301, 302, 303, 307, 308) else None
            if target is None:
                return answer
            answer.close()
            url = urllib.parse.urljoin(url, target)
            if place(url) != place(self.endpoint):
                return url
        raise Fatal("%s redirects in a circle" % self.host)

    def refuse(self, answer, what):
        # Raises what an answer other than the wanted one means.
        code, headers = answer.code, answer.headers
        try:
            body = answer.read(4096)
        except (OSError, http.client.HTTPException):
            body = b""
        answer.close()
        if code in (408, 425, 429) or code >= 500:
            raise Again("%s answers HTTP %d" % (self.host, code), pause_of(headers))
        try:
            said = json.loads(body.decode("utf-8", "replace"))["error"]
        except (ValueError, KeyError, TypeError):
            said = headers.get("X-Error-Message") or ""
        kind, name = headers.get("X-Error-Code"), self.repository
        if kind == "GatedRepo":
            accept = "accept the terms at %s" % self.page
            if self.token:
                why = "%s is gated, and the user of the token (%s) may not read it" % (name, self.whose)
                raise Fatal(why, accept + " as that user; a fine-grained token also has to allow gated repositories")
            raise Fatal("%s is gated: whoever reads it has to accept its terms" % name, accept + ", then set HF_TOKEN")
        if kind == "RevisionNotFound":
            why = "%s has no revision `%s`" % (name, self.revision)
            raise Fatal(why, "correct `model.source`: %s/commits/main lists what there is" % self.page)
        if kind == "RepoNotFound" or (code == 404 and what is None):
            why = "there is no repository %s at %s, or it is private" % (name, self.host)
            other = "" if self.token else "; for a private one set HF_TOKEN"
            raise Fatal(why, "correct `model.source`" + other)
        if kind == "EntryNotFound":
            raise Fatal("%s has no file %s any more" % (name, what))
        if code == 401 and self.token:
            hint = "make a new one at %s/settings/tokens, or take it away: public models need none" % self.endpoint
            raise Fatal("%s does not accept the token (%s)" % (self.host, self.whose), hint)
        raise Fatal("%s answers HTTP %d%s" % (self.host, code, ": " + str(said)[:300] if said else ""))

    def patiently(self, act, tell):
        # Tries until it works, or nothing at all has worked for too long.
        pause = 0.5
        while True:
            time.sleep(max(0, self.not_before - time.monotonic()))
            try:
                return act()
            except Again as again:
                now = time.monotonic()
                if again.pause is not None:
                    asked = min(again.pause, 900)
                    with self.lock:
                        if now + asked > self.not_before + 1:
                            tell("%s; it asks to wait %d s" % (again.why, asked))
                        self.not_before = max(self.not_before, now + asked)
                        self.moved = max(self.moved, self.not_before)
                    continue
                limit = self.patience if self.worked else min(self.FIRST, self.patience)
                if now - self.moved > limit:
                    if not self.worked:
                        raise Fatal(
                            "cannot reach %s" % again.why if again.why.startswith(self.host) else again.why,
                            "this node needs a way there: a proxy as https_proxy in its /etc/environment, or a mirror "
                            "as HF_ENDPOINT; else bring the files to `model.path` by hand",
                        )
                    raise Fatal("nothing came for %d s: %s" % (limit, again.why), "fetch again: it goes on where it is")
                time.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, 20)

    def progressed(self):
        self.worked = True
        self.moved = max(self.moved, time.monotonic())

    def files(self):
        # The commit, and all files with their sizes and digests.
        revision = urllib.parse.quote(self.revision, safe="")
        answer = self.follow("%s/api/models/%s/revision/%s?blobs=true" % (self.endpoint, self.repository, revision), {})
        if isinstance(answer, str):
            raise Fatal("%s redirects to %s" % (self.host, answer), "correct HF_ENDPOINT")
        if answer.code != 200:
            self.refuse(answer, None)
        try:
            info = json.loads(answer.read())
            commit = info["sha"]
            found = [File(sibling) for sibling in info["siblings"]]
        except (OSError, http.client.HTTPException) as error:
            raise Again("%s: %s" % (self.host, words(error)))
        except (ValueError, KeyError, TypeError) as error:
            raise Fatal("%s does not answer as a Hub does: %r" % (self.host, error), "correct HF_ENDPOINT")
        if not re.fullmatch("[0-9a-f]{40}", commit):
            raise Fatal("%s names no commit but `%s`" % (self.host, commit))
        self.commit = commit
        self.progressed()
        return sorted(found, key=lambda file: file.path)

    def range(self, path, start, end, size):
        # An answer that gives the bytes of a file from `start` to before `end`, and how many come ahead of those.
        url, fresh = self.signed.get(path), False
        if url is None:
            url, fresh = "%s/%s/resolve/%s/%s" % (self.endpoint, self.repository, self.commit,
                                                  urllib.parse.quote(path)), True
        headers = {"Range": "bytes=%d-%d" % (start, end - 1)}
        for _ in range(5):
            answer = self.follow(url, headers) if place(url) == place(self.endpoint) else self.open(url, headers)
            target = answer if isinstance(answer, str) else answer.headers.get("Location")
            if target is None or (not isinstance(answer, str) and answer.code not in (301, 302, 303, 307, 308)):
                break
            url = urllib.parse.urljoin(url, target)
            if fresh:
                self.signed[path] = url
        else:
            raise Again("%s redirects in a circle" % self.host)
        if answer.code == 206:
            given = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", answer.headers.get("Content-Range", ""))
            if given and int(given.group(1)) == start and given.group(3) in ("*", str(size)):
                return answer, 0
            answer.close()
            raise Again("%s gave another part of %s than was asked for" % (urllib.parse.urlsplit(url).netloc, path))
        if answer.code == 200:
            return answer, start
        if place(url) == place(self.endpoint):
            self.refuse(answer, path)
        # A signed address ends some time, and then says so in one of many ways: the Hub gives a new one.
        self.signed.pop(path, None)
        answer.close()
        raise Again("%s answers HTTP %d for %s" % (urllib.parse.urlsplit(url).netloc, answer.code, path),
                    pause_of(answer.headers) if answer.code in (429, 503) else None)


class File:
    # A file of a repository. One of LFS is known by its SHA-256, any other by the SHA-1 of its git blob.
    def __init__(self, sibling):
        self.path, lfs = sibling["rfilename"], sibling.get("lfs")
        self.size = int((lfs or sibling)["size"])
        self.kind, self.digest = ("sha256", lfs["sha256"]) if lfs else ("sha1", sibling["blobId"])
        parts = self.path.split("/")
        if "\0" in self.path or "\n" in self.path or any(part in ("", ".", "..", ".sparkctl") for part in parts):
            raise Fatal("the repository has a file that cannot be a file here: %r" % self.path)
        if not re.fullmatch("[0-9a-f]{%d}" % {"sha256": 64, "sha1": 40}[self.kind], self.digest):
            raise Fatal("the repository names no digest of %s but `%s`" % (self.path, self.digest))


# The same weights in a form that the engines do not read, where safetensors are there.
OTHER_FORMS = ["*.bin", "*.pth", "*.ckpt", "*.gguf", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.onnx_data", "*.tflite",
               "*.mlmodel", "original/", "onnx/", "openvino/", "coreml/", "metal/"]
# The same where PyTorch's own form is all there is.
OTHER_THAN_BIN = [form for form in OTHER_FORMS if form not in ("*.bin", "*.pth")]
NEVER = [".git*"]


def matches(path, patterns):
    # `*` also matches `/`, as in `hf download`; a pattern that ends with `/` is a folder.
    return any(path.startswith(p) if p.endswith("/") else fnmatch.fnmatchcase(path, p) for p in patterns)


def choose(files, include, exclude):
    # Which files of a repository make the model.
    names = [file.path for file in files]
    if include:
        rule = lambda path: not matches(path, include)
    else:
        top = [name for name in names if "/" not in name and name.endswith(".safetensors")]
        other = list(OTHER_FORMS if top else OTHER_THAN_BIN)
        if any(not name.startswith("consolidated") for name in top):
            other.append("consolidated*.safetensors")
        rule = lambda path: matches(path, other) or matches(path, NEVER)
    taken = [file for file in files if not rule(file.path) and not matches(file.path, exclude)]
    weights = (".safetensors", ".bin", ".pth", ".pt")
    if not taken:
        raise Fatal("no file of the repository is chosen", "correct --include and --exclude")
    if not include and not any(file.path.endswith(weights) for file in taken):
        gguf = any(name.endswith(".gguf") for name in names)
        raise Fatal(
            "the repository has no weights that vLLM or SGLang are given here%s" % (", only GGUF" if gguf else ""),
            "name one with safetensors as `model.source`, or pick files by --include",
        )
    return taken
