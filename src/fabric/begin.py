# What the programs of the fabric's probes begin with; sparkctl puts it ahead of each.
# The first line of input is the secret of this probe: who knows it is one of us.
import errno, hmac, json, os, secrets, signal, socket, struct, subprocess, sys, threading, time

secret = sys.stdin.buffer.readline().strip()
telling = threading.Lock()


def leave(status, words=""):
    if words:
        print(words, file=sys.stderr, flush=True)
    os._exit(status)


def tell(what, **told):
    with telling:
        print(json.dumps({what: told}), flush=True)


def proof(*parts):
    return hmac.new(secret, b"".join(parts), "sha256").digest()


def read(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
        data += part
    return data


def connect(own, peer, port, limit, kind, session=bytes(8), streams=0):
    """A connection to a listener of this probe, which has proved to be one: see listen.py."""
    connection = socket.create_connection((peer, port), limit, (own, 0))
    challenge = read(connection, 32)
    connection.sendall(proof(b"come", challenge) + struct.pack(">c8sB", kind, session, streams))
    if not hmac.compare_digest(read(connection, 32), proof(b"here", challenge)):
        raise ConnectionResetError(errno.ECONNRESET, "it does not know the secret")
    return connection


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leave(1, "stopped by a signal"))
