# Gives a folder away, read-only: by rsync, and the hashes of its files, to the addresses that know the secret.
# Arguments: the folder, then twice as many addresses as there are rails: where to listen, whom to let in.
# Input: a line with the secret, a line `verify` or an empty one; the end of input ends all.
# Prints `port NUMBER...`, a port a rail. Behind seen.py.
#
# Not rsync's daemon: without root it cannot change its root, and newer ones then follow no links
# at all, while models of the Hub's cache are folders of links. So this program checks who comes
# (32 bytes of challenge, answered by HMAC-SHA256), and starts the same `rsync --server --sender` as
# a login over SSH would. The client says what it wants (4 bytes of length, JSON): how rsync is to be
# called, of which only reading, only this folder and only known options are taken; or the hashes of
# files, which are computed on all cores while files are sent, and come as lines of JSON as they are known.
import hmac, queue, re, secrets, shutil, signal, socket, struct, subprocess, sys

folder = sys.argv[1]
rails = list(zip(sys.argv[2::2], sys.argv[3::2]))
secret = sys.stdin.buffer.readline().strip()
verify = sys.stdin.buffer.readline().strip() == b"verify"
children = []
OPTION = re.compile(r"-[A-Za-z.]+|--(server|sender|from0|relative|no-[a-z-]+|numeric-ids|safe-links|inplace|append)"
                    r"|--files-from=-|--checksum-choice=none"
                    r"|--(timeout|protocol|info|msgs2stderr)(=[A-Za-z0-9.,-]+)?")
seen = Seen(folder, verify)
manifest = read_manifest(folder) or {"files": {}}


def leave(status, words=""):
    if words:
        print(words, file=sys.stderr, flush=True)
    for child in children:
        if child.poll() is None:
            child.kill()
    os._exit(status)


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    leave(0)


def read(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(min(count - len(data), 1 << 16))
        if not part:
            raise OSError("closed")
        data += part
    return data


def sha256_of(path):
    full = os.path.join(folder, path)
    if os.path.relpath(os.path.abspath(full), os.path.abspath(folder)).startswith(".."):
        raise OSError(0, "it is not in the folder")
    sha256 = seen.known(path, state_of(os.stat(full)))
    if sha256 is None:
        # One hashes, whoever else gives the same model waits for that and reads what was seen.
        with open(full, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except (AttributeError, OSError):
                pass
            if not verify:
                seen.again()
            state = state_of(os.stat(full))
            sha256 = seen.known(path, state)
            if sha256 is None:
                sha256, state = digest(full)
                if seen.earlier(path, state) not in (None, sha256):
                    raise OSError(0, "its bytes changed since they were hashed, and its time did not: it is damaged")
                seen.note(path, state, sha256)
                if state["size"] > 1 << 26:
                    seen.save()
    said = manifest["files"].get(path)
    if manifest.get("source") and said and said["sha256"] != sha256:
        raise OSError(0, "it is not what %s has: fetch it again" % manifest["source"])
    return sha256


def hashes(connection, paths):
    todo, write = queue.Queue(), threading.Lock()

    def say(**line):
        with write:
            connection.sendall(json.dumps(line).encode() + b"\n")

    def work():
        gently()
        while True:
            try:
                path = todo.get_nowait()
            except queue.Empty:
                return
            try:
                say(path=path, sha256=sha256_of(path))
            except OSError as error:
                try:
                    say(path=path, error=error.strerror or str(error))
                except OSError:
                    return

    connection.settimeout(None)
    say(source=manifest.get("source"), revision=manifest.get("revision"))
    for path in paths:
        todo.put(path)
    workers = [threading.Thread(target=work, daemon=True) for _ in range(os.cpu_count() or 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    try:
        seen.save()
        if not manifest.get("source"):
            seen.save_manifest()
    except OSError as error:
        print("cannot note what was seen: %s" % error, file=sys.stderr, flush=True)
    connection.shutdown(socket.SHUT_WR)


def serve(connection, peer, admitted):
    with connection:
        if peer[0] != admitted:
            return
        connection.settimeout(30)
        challenge = secrets.token_bytes(32)
        try:
            connection.sendall(challenge)
            if not hmac.compare_digest(read(connection, 32), hmac.new(secret, challenge, "sha256").digest()):
                return
            wish = json.loads(read(connection, min(struct.unpack(">I", read(connection, 4))[0], 1 << 26)))
            if "hashes" in wish:
                return hashes(connection, wish["hashes"])
            command = wish["rsync"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        options = command[1:-2]
        wrong = [option for option in options if not OPTION.fullmatch(option)]
        if command[:3] != ["rsync", "--server", "--sender"] or command[-2] != "." or wrong:
            print("refused to call %s" % command, file=sys.stderr, flush=True)
            return
        connection.setblocking(True)
        child = subprocess.Popen(["rsync"] + options + [".", folder + "/"], stdin=connection, stdout=connection)
        children.append(child)
    child.wait()
    children.remove(child)


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leave(1))
if not os.path.isdir(folder):
    leave(1, "%s is not a folder" % folder)
if shutil.which("rsync") is None:
    leave(1, "rsync is not installed")
listeners = []
for address, admitted in rails:
    try:
        listeners.append((socket.create_server((address, 0), backlog=64), admitted))
    except OSError as error:
        leave(1, "cannot listen on %s: %s" % (address, os.strerror(error.errno)))
print("port %s" % " ".join(str(listener.getsockname()[1]) for listener, _ in listeners), flush=True)


def accept(listener, admitted):
    while True:
        connection, peer = listener.accept()
        threading.Thread(target=serve, args=(connection, peer, admitted), daemon=True).start()


for listener, admitted in listeners:
    threading.Thread(target=accept, args=(listener, admitted), daemon=True).start()
watch()
