# Sends an image, as `docker save` writes it, to one node or to several at once.
# Arguments: the image, the address to send from, and ADDRESS:PORT of each node that takes it.
# Input: a line with the secret, a line with the names of archive members that are left out; the end of
# input before the end of the work stops it.
# Prints, at the end, `left-out MEMBERS BYTES`. The stream is described in receive-image.py.
#
# The archive passes header by header: a member whose name is to be left out is read and not sent, names
# that are not in it do no harm. Not `tarfile`, which takes six times as long. The slowest taker governs
# the pace; one that dies is dropped, and the others go on.
import hmac, json, os, signal, socket, struct, subprocess, sys, threading

image, own = sys.argv[1:3]
takers = [taker.rsplit(":", 1) for taker in sys.argv[3:]]
secret = sys.stdin.buffer.readline().strip()
unwanted = set(sys.stdin.buffer.readline().split())
CHUNK = 1 << 20
save = None
peers = []
why_gone = ""


def leave(status, words=""):
    if words:
        print(words, file=sys.stderr, flush=True)
    if save is not None and save.poll() is None:
        save.kill()
        save.wait()
    os._exit(status)


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    leave(1, "stopped: the connection to sparkctl is gone")


def connect(address, port):
    try:
        connection = socket.create_connection((address, int(port)), 30, (own, 0))
    except OSError as error:
        return None, f"cannot reach {address} from {own}: {error}"
    connection.settimeout(600)  # `docker load` may stop reading for long
    try:
        challenge = b""
        while len(challenge) < 32:
            part = connection.recv(32 - len(challenge))
            if not part:
                return None, f"{address} closed the connection"
            challenge += part
        connection.sendall(hmac.new(secret, challenge, "sha256").digest())
    except OSError as error:
        return None, f"{address} closed the connection ({error})"
    return connection, ""


def drop(peer, why):
    global why_gone
    peers.remove(peer)
    peer.close()
    why_gone = f"the other side closed the connection ({why})"
    if not peers:
        leave(3, why_gone)


def give(*parts):
    for peer in list(peers):
        try:
            for part in parts:
                peer.sendall(part)
        except OSError as error:
            drop(peer, error)


def padded(size):
    return (size + 511) // 512 * 512


def number(field):
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
    return int(field.split(b"\0")[0].strip() or b"0", 8)


def records(body):
    # Of an extended header: `LENGTH KEY=VALUE\n`, again and again.
    found = {}
    while body[:1].isdigit():
        length = int(body.split(b" ", 1)[0])
        key, _, value = body[:length].split(b" ", 1)[1].rstrip(b"\n").partition(b"=")
        found[key] = value
        body = body[length:]
    return found


def parts(source, note):
    # The archive's bytes without what is left out. What is said of the next member waits for it.
    ahead, told = [], {}
    while True:
        header = source.read(512)
        if len(header) < 512 or not header.strip(b"\0"):
            yield from ahead
            while header:
                yield header
                header = source.read(CHUNK)
            return
        kind, size = header[156:157], number(header[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            body = source.read(padded(size))
            ahead += [header, body]
            if kind == b"x":
                told.update(records(body[:size]))
            elif kind == b"L":
                told[b"path"] = body[:size].rstrip(b"\0")
            continue
        name = header[:100].split(b"\0")[0]
        if header[257:263] == b"ustar\0" and header[345]:
            name = header[345:500].split(b"\0")[0] + b"/" + name
        name, size = told.get(b"path", name), int(told.get(b"size", size))
        wanted = name not in unwanted
        rest = padded(size)
        note(name, 512 + rest + sum(map(len, ahead)), wanted)
        if wanted:
            yield from ahead
            yield header
        ahead, told = [], {}
        whole = b""
        while rest:
            chunk = source.read(min(rest, CHUNK))
            if not chunk:
                return
            rest -= len(chunk)
            if name == b"manifest.json" and len(whole) < CHUNK:
                whole += chunk
            if wanted:
                yield chunk
        if whole:
            manifest.append(whole[:size])


members, manifest = set(), []
left_out = [0, 0]


def note(name, size, wanted):
    members.add(name)
    if not wanted:
        left_out[0] += 1
        left_out[1] += size


def lacking():
    # A containerd store may lack what its manifest names; `docker save` then leaves it out, and says nothing.
    try:
        images = json.loads(manifest[0]) if manifest else []
        return [layer for image in images for layer in image["Layers"] if layer.encode() not in members]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


for number_of in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number_of, lambda *_: leave(1, "stopped by a signal"))
threading.Thread(target=watch, daemon=True).start()
for address, port in takers:
    connection, why = connect(address, port)
    if connection is None:
        why_gone = why
    else:
        peers.append(connection)
if not peers:
    leave(1, why_gone)
try:
    save = subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=CHUNK)
except OSError as error:
    leave(1, f"docker: {error.strerror}")
said = []
reader = threading.Thread(target=lambda: said.append(save.stderr.read().decode(errors="replace")), daemon=True)
reader.start()
digest = hmac.new(secret, digestmod="sha256")
waiting = bytearray()


def send(block):
    digest.update(block)
    give(struct.pack(">I", len(block)), block)


try:
    for part in parts(save.stdout, note):
        # Headers and small members travel together.
        if len(waiting) + len(part) > CHUNK and waiting:
            send(bytes(waiting))
            waiting.clear()
        if len(part) == CHUNK:
            send(part)
        else:
            waiting += part
except (ValueError, IndexError):
    leave(1, "docker save: what it wrote is no archive")
if waiting:
    send(bytes(waiting))
status = save.wait()
reader.join(10)
if status != 0:
    # No end mark: the other side sees a cut stream.
    leave(1, "docker save: " + ("".join(said).strip() or f"it ended with {status}"))
missing = lacking()
if missing:
    leave(1, f"docker save: the image is not whole on this node, {len(missing)} of its layers are missing; pull it again")
print(f"left-out {left_out[0]} {left_out[1]}", flush=True)
give(struct.pack(">I", 0), digest.digest())
# Until the other sides are done, so that all ends live and die together.
for peer in list(peers):
    peer.settimeout(None)
    try:
        if peer.recv(4) != b"done":
            drop(peer, "it was not done")
    except OSError as error:
        drop(peer, error)
os._exit(0)
