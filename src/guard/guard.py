# Stays on a node while sparkctl replaces a release there: FOLDER NUMBER. FOLDER/NUMBER.armed says what to bring back. Every
# change of FOLDER/NUMBER.beat puts the deadline off; when it passes, the new release's containers end, their logs kept, and
# those of the release before are made and started again. Whoever takes NUMBER.armed away first has decided: sparkctl, and
# this ends; or this, and sparkctl is told. Speaks to the Docker Engine's socket itself, and asks no clock that anybody sets.
import datetime, http.client, json, os, socket, struct, sys, time, urllib.parse

SOCKET = os.environ.get("SPARKCTL_GUARD_SOCKET", "/var/run/docker.sock")
GRACE = 20
# The engine may be down for a while, as everything else that led here.
TRIES, PAUSE = 60, 10
# What Rust takes for white space; Python strips more, and knows more ends of lines.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class Refused(Exception):
    pass


class Engine(http.client.HTTPConnection):
    def __init__(self):
        super().__init__("docker", timeout=180)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(SOCKET)


def ask(method, path, body=None, well=(200, 201, 204, 304)):
    """The answer of a request: status and JSON. Raises `Refused` with the engine's own words."""
    engine = Engine()
    try:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        engine.request(method, path, None if body is None else json.dumps(body), headers)
        answer = engine.getresponse()
        said = answer.read()
    finally:
        engine.close()
    if answer.status not in well:
        try:
            said = json.loads(said)["message"]
        except (ValueError, KeyError, TypeError):
            said = said.decode(errors="replace")
        raise Refused("%s %s: %s" % (method, path.partition("?")[0], said.strip()))
    try:
        return answer.status, json.loads(said)
    except ValueError:
        return answer.status, None


def query(**parameters):
    return "?" + urllib.parse.urlencode(parameters)


def places(secrets):
    """Values that no log may have, the longest first, and what stands in their place: as `delivery::redact` has it."""
    found = []
    for name in os.listdir(secrets) if os.path.isdir(secrets) else []:
        if name.startswith("."):
            continue
        with open(os.path.join(secrets, name), encoding="ascii") as file:
            for line in file:
                variable, _, value = line.rstrip("\n").partition(" ")
                for part in bytes.fromhex(value).decode().split("\n"):
                    part = part.strip(WHITE)
                    if len(part) >= 8:
                        found.append((part.encode(), ("‹secret %s›" % variable).encode()))
    return sorted(found, key=lambda place: -len(place[0]))


def lines(answer):
    """The lines of a log: the engine sends both streams in frames of one connection."""
    rest = b""
    while True:
        head = answer.read(8)
        if len(head) < 8:
            break
        (size,) = struct.unpack(">4xI", head)
        rest += answer.read(size)
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest


def save_log(state, container, release, rank):
    folder = os.path.join(state, "releases", "%04d" % release)
    os.makedirs(folder, exist_ok=True)
    name = "rank-%s.%s.log" % (rank, container[:12])
    hidden = places(os.path.join(state, "secrets"))
    engine = Engine()
    try:
        engine.request("GET", "/containers/%s/logs" % container + query(stdout=1, stderr=1, timestamps=1))
        answer = engine.getresponse()
        if answer.status != 200:
            raise Refused("its log is not given: HTTP %d" % answer.status)
        with open(os.path.join(folder, "." + name), "wb") as file:
            for line in lines(answer):
                for value, place in hidden:
                    line = line.replace(value, place)
                file.write(line)
    finally:
        engine.close()
    os.replace(os.path.join(folder, "." + name), os.path.join(folder, name))


def end(state, container, labels):
    """Ends a container for good. The restart policy goes first: a node that boots in the middle does not bring it back."""
    at = "/containers/" + container
    ask("POST", at + "/update", {"RestartPolicy": {"Name": "no"}})
    ask("POST", at + "/stop" + query(t=GRACE))
    release, rank = labels["sparkctl.release"], labels.get("sparkctl.rank", "0")
    try:
        save_log(state, container, int(release), rank)
    except (OSError, ValueError, http.client.HTTPException, Refused):
        # No log is lost: the container stays with it, out of the way, until the next deploy.
        name = "sparkctl-%s-%s-release-%s" % (labels["sparkctl.deployment"], rank, release)
        ask("POST", at + "/rename" + query(name=name))
        return
    ask("DELETE", at + query(v=1))


def act(state, data):
    """Brings the node to what it was, whatever of that is so already. Raises where it cannot."""
    filters = json.dumps({"label": ["sparkctl.deployment=" + data["deployment"]]})
    _, found = ask("GET", "/containers/json" + query(all=1, filters=filters))
    there = {}
    for container in found:
        labels, name = container["Labels"], container["Names"][0].lstrip("/")
        wanted = [one for one in data["bring"] if one["name"] == name]
        if wanted and same(labels, wanted[0]["body"]["Labels"]):
            there[name] = container["Id"]
        elif name.endswith("-release-" + labels.get("sparkctl.release", "")):
            pass  # Out of the way already.
        elif labels.get("sparkctl.release") in [str(number) for number in data["remove"]]:
            end(state, container["Id"], labels)
        elif wanted:
            raise Refused("`%s` is of release %s, which is none of this switch" % (name, labels.get("sparkctl.release")))
    for one in data["bring"]:
        name, policy = one["name"], {"RestartPolicy": {"Name": one["restart"]}}
        if name not in there:
            ask("POST", "/containers/create" + query(name=name), one["body"])
        # It was proven once: it comes back with the node, and its ranks gather again by themselves.
        ask("POST", "/containers/%s/update" % name, policy)
        # One that was left running may wait for ever for a rank that was ended.
        if name in there:
            ask("POST", "/containers/%s/restart" % name + query(t=GRACE))
        else:
            ask("POST", "/containers/%s/start" % name)
    for one in data["bring"]:
        _, seen = ask("GET", "/containers/%s/json" % one["name"])
        if not seen["State"]["Running"] and not seen["State"].get("Restarting"):
            raise Refused("`%s` ended again with status %s" % (one["name"], seen["State"]["ExitCode"]))


def same(labels, wanted):
    return all(labels.get("sparkctl." + key) == wanted["sparkctl." + key] for key in ("release", "spec"))


def write(path, document):
    with open(path + ".new", "w") as file:
        json.dump(document, file)
    os.replace(path + ".new", path)


def decide(armed, beat, lease, alive):
    """Waits for the deadline; false where sparkctl decided first."""

    def seen():
        try:
            return os.stat(beat).st_mtime_ns
        except FileNotFoundError:
            return None

    last, deadline, told = seen(), time.monotonic() + lease, False
    while time.monotonic() < deadline:
        if not os.path.exists(armed):
            return False
        if not told:
            try:
                ask("GET", "/_ping")
                write(alive, os.getpid())
                told = True
            except (OSError, http.client.HTTPException, Refused):
                pass
        now = seen()
        if now != last:
            last, deadline = now, time.monotonic() + lease
        time.sleep(min(1, lease / 4))
    return True


def main():
    folder, number = sys.argv[1:]
    os.umask(0o077)
    armed, acting, beat, alive = (os.path.join(folder, number + end) for end in (".armed", ".acting", ".beat", ".alive"))
    if not os.path.exists(acting):
        try:
            with open(armed) as file:
                lease = json.load(file)["lease_seconds"]
            if not decide(armed, beat, lease, alive):
                return
            os.rename(armed, acting)
        except FileNotFoundError:
            return
    with open(acting) as file:
        data = json.load(file)
    why = None
    for attempt in range(TRIES):
        try:
            act(os.path.dirname(folder), data)
            why = None
            break
        except (OSError, http.client.HTTPException) as error:
            why = "the Docker Engine does not answer: %s" % error
        except (Refused, KeyError, ValueError, TypeError) as error:
            why = str(error)
            if attempt >= 2:
                break
        time.sleep(PAUSE)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    outcome = {"format": 1, "failed": data["release"], "release": data["before"], "at": now, "why": why}
    write(os.path.join(folder, "outcome.json"), outcome)
    for path in (acting, beat, alive):
        try:
            os.remove(path)
        except FileNotFoundError:
            pass


main()
