# Fetches files from another node's serve-weights.py into a folder: several rsyncs at once, every file verified.
# Arguments: the folder, `direct` or `ssh`, how many streams, then for each rail the other node's address, its port, and
# the address to come from. With `ssh` the port is one of that node's loopback, and connections go through `ssh -W`.
# Input: a line with the secret, a line with a length, then that many bytes of JSON: `files` (path, size, mtime), and
# `verify`. The end of input before the end of the work stops it. Behind seen.py.
# Prints `bytes NUMBER` as it goes on; `hash SHA256 PATH` of each file that is right; at the end `moved BYTES FILES`.
#
# A file grows in `incoming` (beside what was seen) and is hashed as it grows. It gets its name only when its hash is the
# one that the other node computed; one that is not is fetched once more from its beginning. What was cut is gone on with.
import collections, hmac, shutil, signal, socket, struct, subprocess, sys, tempfile, time

# Called by rsync in place of `ssh`: passes bytes between it and the connection, in the kernel where it can.
RELAY = r"""
import json, os, socket, struct, sys, threading
connection = socket.socket(fileno=int(sys.argv[1]))
os.set_blocking(0, True)
os.set_blocking(1, True)
command = json.dumps({"rsync": sys.argv[sys.argv.index("rsync"):]}).encode()
connection.sendall(struct.pack(">I", len(command)) + command)
def out():
    while True:
        data = os.read(0, 1 << 20)
        if not data:
            break
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=out, daemon=True).start()
def write(data):
    while data:
        data = data[os.write(1, data):]
try:
    into, outof = os.pipe()
    held = 0
    while True:
        held = os.splice(connection.fileno(), outof, 1 << 16)
        if not held:
            os._exit(0)
        while held:
            held -= os.splice(into, 1, held)
except (AttributeError, OSError):
    # An older Python or kernel: what is in the pipe, then the rest.
    while held:
        data = os.read(into, held)
        held -= len(data)
        write(data)
buffer = memoryview(bytearray(1 << 20))
while True:
    count = connection.recv_into(buffer)
    if not count:
        break
    write(buffer[:count])
os._exit(0)
"""
SMALL, BATCH = 1 << 26, 1 << 28
folder, way, streams = sys.argv[1], sys.argv[2], int(sys.argv[3])
rails = collections.deque(zip(sys.argv[4::3], sys.argv[5::3], sys.argv[6::3]))
secret = sys.stdin.buffer.readline().strip()
job = json.loads(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))
private = tempfile.mkdtemp(prefix="sparkctl-pull-")  # mode 0700
children, turn, leaving = set(), threading.Condition(), threading.Lock()


def leave(status, words=""):
    leaving.acquire()  # for good: the first reason is the one that is told
    if words:
        print(words, file=sys.stderr, flush=True)
    for child in list(children):
        if child.poll() is None:
            # It keeps what it has of a file for the next time.
            child.terminate()
    for child in list(children):
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
    try:
        seen.save()
    except (NameError, OSError):
        pass
    shutil.rmtree(private, ignore_errors=True)
    os._exit(status)


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    leave(1, "stopped: the connection to sparkctl is gone")


def read(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise OSError("it closed the connection")
        data += part
    return data


def through_ssh(address, port):
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(
        ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ControlPath=none", "-o", "Compression=no",
         "-c", "aes128-gcm@openssh.com,aes256-gcm@openssh.com", "-W", "127.0.0.1:%s" % port, address],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
    theirs.close()
    children.add(child)
    return ours, child


def greet(connection):
    challenge = read(connection, 32)
    connection.sendall(hmac.new(secret, challenge, "sha256").digest())
    connection.settimeout(None)
    return connection


def connect():
    # Over the next rail; one that does not lead there is left out while another does.
    while True:
        with turn:
            rail = rails[0]
            rails.rotate(-1)
        address, port, own = rail
        if way == "ssh":
            connection, child = through_ssh(address, port)
            try:
                return greet(connection)
            except OSError:
                connection.close()
                words = child.communicate()[1].decode(errors="replace").strip().replace("\n", "; ")
                why = "cannot log in to %s by ssh: %s; give this node a key that is let in there, and know its host key, " \
                      "or set `cluster.transfer.weights: direct`" % (address, words or "it ended without a word")
        else:
            try:
                return greet(socket.create_connection((address, int(port)), 30, (own, 0)))
            except OSError as error:
                why = "cannot reach %s from %s: %s" % (address, own, error)
        with turn:
            if len(rails) == 1:
                break
            if rail in rails:
                rails.remove(rail)
        print(why, file=sys.stderr, flush=True)
    leave(1, why)


def explain(error, path):
    if error.errno == 28:
        return "No space left on device: %s" % path
    if error.errno in (1, 13, 30):
        place = path
        while not os.path.exists(place):
            place = os.path.dirname(place)
        stat = os.stat(place)
        return "%s cannot be written: %s is of uid %d, this user is %d; let it write there: sudo chown -R USER FOLDER" % (
            path, place, stat.st_uid, os.getuid())
    return "%s: %s" % (path, error.strerror or error)


class File:
    def __init__(self, of):
        self.path, self.size, self.mtime = of["path"], of["size"], of["mtime"]
        self.target = os.path.join(folder, self.path)
        self.incoming = os.path.join(incoming, self.path)
        self.tries, self.base, self.counted, self.expected, self.refused = 0, 0, 0, None, None
        self.hashed, self.running = None, False

    def grown(self):
        try:
            return min(os.stat(self.incoming).st_size, self.size)
        except OSError:
            return 0


def threaded(work, *arguments):
    def run():
        try:
            work(*arguments)
        except OSError as error:
            leave(1, explain(error, error.filename or folder))
        except Exception as error:
            leave(1, "%s: %s" % (type(error).__name__, error))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def expectations():
    # The other node's hashes, as they come.
    connection = connect()
    wish = json.dumps({"hashes": [file.path for file in files]}).encode()
    connection.sendall(struct.pack(">I", len(wish)) + wish)
    lines = connection.makefile("rb")
    origin.update(json.loads(lines.readline() or b"{}"))
    for line in lines:
        said = json.loads(line)
        with turn:
            file = by_path[said["path"]]
            file.expected, file.refused = said.get("sha256"), said.get("error")
            turn.notify_all()
    with turn:
        for file in files:
            if file.expected is None and file.refused is None:
                file.refused = "the other node does not say its hash"
        turn.notify_all()


def expected(file):
    with turn:
        while file.expected is None and file.refused is None:
            turn.wait()
    if file.refused:
        leave(1, "%s on the other node: %s" % (file.path, file.refused))
    return file.expected


def follow(file):
    # Hashes a file while it grows.
    gently()
    sha256, buffer, at = hashlib.sha256(), memoryview(bytearray(BLOCK)), 0
    source = None
    while True:
        running = file.running
        if source is None:
            try:
                source = open(file.incoming, "rb", buffering=0)
            except FileNotFoundError:
                if not running:
                    return
        got = source.readinto(buffer) if source else 0
        if got:
            sha256.update(buffer[:got])
            at += got
        elif not running:
            break
        else:
            time.sleep(0.02)
    source.close()
    file.hashed = (at, sha256.hexdigest())


def rsync(item, append):
    with tempfile.NamedTemporaryFile(dir=private, delete=False) as names:
        names.write(b"".join(os.fsencode(file.path) + b"\0" for file in item))
    connection = connect()
    relay = "%s -I -S %s %d" % (sys.executable, os.path.join(private, "relay"), connection.fileno())
    # What went on before is hashed again here, so rsync need not hash it, and what is new is sent whole.
    how = ["--append"] if append else ["--inplace", "--whole-file", "--checksum-choice=none"]
    with turn:
        child = subprocess.Popen(
            ["rsync", "--copy-links"] + how + ["--from0", "--files-from", names.name, "--timeout=120",
             "--outbuf=L", "--rsh", relay, "node:/", incoming + "/"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[connection.fileno()])
        children.add(child)
    connection.close()
    words = child.communicate()[1].decode(errors="replace").strip().replace("\n", "; ")
    children.discard(child)
    os.remove(names.name)
    return child.returncode, words


def copy(item):
    for file in item:
        os.makedirs(os.path.dirname(file.incoming), exist_ok=True)
        there = file.grown()
        if os.path.lexists(file.incoming) and (len(item) > 1 or file.tries or not 0 < there
                                               or os.stat(file.incoming).st_size > file.size):
            os.remove(file.incoming)
            there = 0
        file.base, file.hashed, file.running = there, None, True
    append = item[0].base > 0
    whole = item[0].base == item[0].size and item[0].size > 0
    follower = threaded(follow, item[0]) if len(item) == 1 and item[0].size > SMALL else None
    status, words = (0, "") if whole else rsync(item, append)
    for file in item:
        file.running = False
    if status:
        leave(status if status > 0 else 1, words or "rsync ended with %d" % status)
    with turn:
        moved[0] += sum(file.size - file.base for file in item)
    threaded(verify, item, follower)


def verify(item, follower):
    if follower:
        follower.join()
    else:
        gently()
    again = []
    for file in item:
        if file.hashed is None:
            sha256, state = digest(file.incoming)
            file.hashed = (state["size"], sha256)
        if file.hashed == (file.size, expected(file)):
            settle(file)
        elif file.tries:
            leave(1, "%s came twice, and twice not as the other node has it" % file.path)
        else:
            file.tries = 1
            again.append(file)
    with turn:
        for file in again:
            items.append([file])
        outstanding[0] += len(again) - 1
        turn.notify_all()


def settle(file):
    # Under its name, on the disk, and noted.
    os.chmod(file.incoming, 0o644)
    os.utime(file.incoming, ns=(file.mtime * 10**9, file.mtime * 10**9))
    with open(file.incoming, "rb") as whole:
        os.fsync(whole.fileno())
    os.makedirs(os.path.dirname(file.target), exist_ok=True)
    os.replace(file.incoming, file.target)
    right(file, state_of(os.stat(file.target)), file.expected)
    with turn:
        came[0] += 1
    if file.size > SMALL:
        seen.save()


def right(file, state, sha256):
    seen.note(file.path, state, sha256)
    with turn:
        print("hash %s %s" % (sha256, file.path), flush=True)
        done[0] += file.size - file.counted
        file.counted = file.size
        finished.add(file.path)


def compare():
    # Files that may be right already: of the same size.
    gently()
    while True:
        with turn:
            if not candidates:
                return
            file = candidates.popleft()
        state = state_of(os.stat(file.target))
        sha256 = seen.known(file.path, state)

        def count(got):
            with turn:
                file.counted += got
                done[0] += got
        if sha256 is None:
            sha256, state = digest(file.target, count)
        if sha256 == expected(file):
            right(file, state, sha256)
            with turn:
                outstanding[0] -= 1
                turn.notify_all()
        else:
            with turn:
                done[0] -= file.counted
                file.counted = 0
                items.append([file])
                turn.notify_all()


def stream():
    while True:
        with turn:
            while not items and outstanding[0]:
                turn.wait()
            if not items:
                return
            item = items.popleft()
        copy(item)


def tell():
    while True:
        time.sleep(0.5)
        with turn:
            growing = sum(file.grown() for file in files if file.running and file.path not in finished)
            waiting = sum(file.size for file in files
                          if not file.running and file.hashed and file.path not in finished)
            print("bytes %d" % (done[0] + growing + waiting), flush=True)


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leaving.locked() or leave(1, "stopped by a signal"))
threading.Thread(target=watch, daemon=True).start()
if shutil.which("rsync") is None:
    leave(1, "rsync is not installed")
incoming = os.path.join(beside(folder), "incoming")
try:
    os.makedirs(folder, exist_ok=True)
    os.makedirs(incoming, exist_ok=True)
    with open(os.path.join(private, "relay"), "w") as relay:
        relay.write(RELAY)
except OSError as error:
    leave(1, explain(error, error.filename or folder))
seen = Seen(folder, job["verify"])
files = sorted((File(of) for of in job["files"]), key=lambda file: -file.size)
by_path = {file.path: file for file in files}
items, candidates, origin = collections.deque(), collections.deque(), {}
done, moved, came, finished, batch = [0], [0], [0], set(), []
for file in files:
    try:
        same = os.stat(file.target).st_size == file.size
    except OSError:
        same = False
    if same:
        candidates.append(file)
    elif file.size > SMALL:
        items.append([file])
    else:
        if batch and (sum(one.size for one in batch) + file.size > BATCH or len(batch) >= 1000):
            items.append(batch)
            batch = []
        batch.append(file)
if batch:
    items.append(batch)
outstanding = [len(items) + len(candidates)]
if files:
    threaded(tell)
    workers = [threaded(expectations)]
    workers += [threaded(compare) for _ in range(min(os.cpu_count() or 1, len(candidates)))]
    workers += [threaded(stream) for _ in range(streams)]
    for worker in workers:
        worker.join()
try:
    seen.save()
    seen.save_manifest(origin.get("source"), origin.get("revision"))
except OSError as error:
    print("cannot note what was seen: %s" % error, file=sys.stderr, flush=True)
shutil.rmtree(incoming, ignore_errors=True)
print("bytes %d" % done[0])
print("moved %d %d" % (moved[0], came[0]), flush=True)
leave(0)
