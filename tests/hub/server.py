# A Hub for tests: serves folders by the API that fetching models needs, with faults.
#
# As the real one: a repository's files with sizes and digests by `/api/models/O/N/revision/R?blobs=true`; a file by
# `/O/N/resolve/COMMIT/FILE`, which redirects large ones to a signed address on another port and small ones within the
# Hub; ranges; `X-Error-Code`. By hand: server.py ADDRESS PORT [rate=N] OWNER/NAME=FOLDER[,gated]... serves folders until its input ends;
# `rate` is bytes a second of each connection.
import hashlib, http.server, json, os, re, socket, struct, sys, threading, time, urllib.parse

LARGE = 10_000  # bytes from which a file is in LFS


class Repository:
    def __init__(self, folder, gated=False, private=False, commit=None):
        self.folder, self.gated, self.private = folder, gated, private
        self.commit = commit or hashlib.sha1(folder.encode()).hexdigest()
        self.revisions = {"main": self.commit, self.commit: self.commit}

    def files(self):
        found = {}
        for top, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(top, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self.folder)] = file.read()
        return found

    def read(self, path):
        # One file alone: they may be large.
        try:
            with open(os.path.join(self.folder, path), "rb") as file:
                return file.read()
        except OSError:
            return None

    def siblings(self):
        answer = []
        for path, data in sorted(self.files().items()):
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            one = {"rfilename": path, "size": len(data), "blobId": blob}
            if len(data) >= LARGE:
                one["blobId"] = hashlib.sha1(b"pointer" + data).hexdigest()
                one["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 135}
            answer.append(one)
        return answer


class Hub:
    def __init__(self, address="127.0.0.1", port=0):
        self.repositories, self.requests, self.tokens = {}, [], {"hf_good"}
        self.lock, self.signatures = threading.Lock(), {}
        # Faults: each a number of times that it still happens, or a value.
        self.cut = 0            # answers of the CDN that end in the middle
        self.reset = 0          # connections to the CDN that are reset
        self.corrupt = {}       # by file: how many answers have a byte turned
        self.statuses = []      # (where, code, headers): answered once each, first come first served
        self.uses = None        # how often a signed address may be used
        self.rate = None        # bytes a second of each connection to the CDN
        self.whole = False      # the CDN knows no ranges
        self.hub = self.serve(address, port, self.answer_hub)
        self.cdn = self.serve(address, port + 1 if port else 0, self.answer_cdn)
        self.endpoint = "http://%s:%d" % self.hub.server_address
        self.cdn_endpoint = "http://%s:%d" % self.cdn.server_address

    def serve(self, address, port, answer):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.close_connection = True
                name = "hub" if answer == hub.answer_hub else "cdn"
                with hub.lock:
                    hub.requests.append((name, self.path, dict(self.headers)))
                    at = next((i for i, one in enumerate(hub.statuses) if one[0] == name), None)
                    forced = hub.statuses.pop(at) if at is not None else None
                try:
                    if forced:
                        return send(self, forced[1], b"", forced[2])
                    answer(self)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):
                pass

        server = Server((address, port), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def close(self):
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    def times(self, name):
        with self.lock:
            left = getattr(self, name)
            setattr(self, name, max(0, left - 1))
            return left > 0

    def answer_hub(self, request):
        url = urllib.parse.urlsplit(request.path)
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", url.path)
        file = re.fullmatch(r"(?:/api/resolve-cache/models)?/([^/]+/[^/]+)(?:/resolve)?/([^/]+)/(.+)", url.path)
        name, revision = (api or file).group(1, 2) if api or file else (None, None)
        token = request.headers.get("Authorization", "").replace("Bearer ", "")
        if token and token not in self.tokens:
            return refuse(request, 401, None, "Invalid username or password.")
        repository = self.repositories.get(name)
        if isinstance(repository, str):  # it was renamed
            return send(request, 307, b"", {"Location": request.path.replace(name, repository)})
        if repository is None or (repository.private and not token):
            return refuse(request, 404 if token else 401, "RepoNotFound", "Repository not found")
        commit = repository.revisions.get(urllib.parse.unquote(revision))
        if commit is None:
            return refuse(request, 404, "RevisionNotFound", "Invalid rev id: %s" % revision)
        if api:
            info = {"id": name, "sha": commit, "gated": "auto" if repository.gated else False,
                    "siblings": repository.siblings()}
            return send(request, 200, json.dumps(info).encode(), {"Content-Type": "application/json"})
        if repository.gated and not (token and repository.gated == "granted"):
            return refuse(request, 403 if token else 401, "GatedRepo", "Access to model %s is restricted." % name)
        path = urllib.parse.unquote(file.group(3))
        data = repository.read(path)
        if data is None:
            return refuse(request, 404, "EntryNotFound", "Entry not found")
        if len(data) >= LARGE:
            with self.lock:
                signature = "%08x" % (len(self.signatures) + 1)
                self.signatures[signature] = self.uses
            where = "%s/%s/%s?X-Signature=%s" % (self.cdn_endpoint, name, urllib.parse.quote(path), signature)
            return send(request, 302, b"", {"Location": where, "X-Repo-Commit": commit})
        if "resolve-cache" not in url.path:
            return send(request, 307, b"", {"Location": "/api/resolve-cache/models/%s/%s/%s" % (
                name, commit, urllib.parse.quote(path))})
        self.give(request, data, path)

    def answer_cdn(self, request):
        url = urllib.parse.urlsplit(request.path)
        signature = urllib.parse.parse_qs(url.query).get("X-Signature", [""])[0]
        with self.lock:
            uses = self.signatures.get(signature, 0)
            if uses is not None:
                self.signatures[signature] = uses - 1
        if uses is not None and uses <= 0:
            return send(request, 403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        _, owner, name, path = urllib.parse.unquote(url.path).split("/", 3)
        if self.times("reset"):
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.connection.close()
            return
        self.give(request, self.repositories[owner + "/" + name].read(path), path, cdn=True)

    def give(self, request, data, path, cdn=False):
        total, code, headers = len(data), 200, {}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        with self.lock:
            turned = self.corrupt.get(path, 0)
            self.corrupt[path] = max(0, turned - 1)
        if turned > 0:
            data = bytes([data[0] ^ 1]) + data[1:] if not asked or asked.group(1) == "0" else data
        if asked and not (cdn and self.whole):
            start, end = int(asked.group(1)), min(int(asked.group(2)), total - 1)
            if start >= total:
                return send(request, 416, b"")
            code, data = 206, data[start:end + 1]
            headers["Content-Range"] = "bytes %d-%d/%d" % (start, end, total)
        body = data[:len(data) // 2] if cdn and self.times("cut") else data
        request.send_response(code)
        for key, value in dict(headers, **{"Content-Length": str(len(data)), "Connection": "close"}).items():
            request.send_header(key, value)
        request.end_headers()
        step = max(1, self.rate // 20) if cdn and self.rate else len(body) or 1
        for at in range(0, len(body), step):
            request.wfile.write(body[at:at + step])
            if cdn and self.rate:
                time.sleep(step / self.rate)


def send(request, code, body, headers=None):
    request.send_response(code)
    for key, value in dict(headers or {}, **{"Content-Length": str(len(body)), "Connection": "close"}).items():
        request.send_header(key, value)
    request.end_headers()
    request.wfile.write(body)


def refuse(request, code, kind, message):
    headers = {"X-Error-Message": message, "Content-Type": "application/json"}
    if kind:
        headers["X-Error-Code"] = kind
    send(request, code, json.dumps({"error": message}).encode(), headers)


if __name__ == "__main__":
    served = Hub(sys.argv[1], int(sys.argv[2]))
    for argument in sys.argv[3:]:
        name, folder = argument.split("=", 1)
        if name == "rate":
            served.rate = int(folder)
        else:
            served.repositories[name] = Repository(folder.split(",")[0], gated=folder.endswith(",gated"))
    print(served.endpoint, flush=True)
    # Lives as long as whoever started it.
    sys.stdin.read()
