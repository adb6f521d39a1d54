# Sends an image, as `docker save` writes it, to another node.
# Arguments: the image, the address to send from, the address and port to send to.
# Input: a line with the secret; the end of input before the end of the work stops it.
# The stream is described in receive-image.py.
import hmac, os, signal, socket, struct, subprocess, sys, threading

image, own, address, port = sys.argv[1:5]
secret = sys.stdin.buffer.readline().strip()
save = None


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


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leave(1, "stopped by a signal"))
threading.Thread(target=watch, daemon=True).start()
try:
    connection = socket.create_connection((address, int(port)), 30, (own, 0))
except OSError as error:
    leave(1, f"cannot reach {address} from {own}: {error}")
connection.settimeout(600)  # `docker load` may stop reading for long
try:
    challenge = b""
    while len(challenge) < 32:
        part = connection.recv(32 - len(challenge))
        if not part:
            leave(1, f"{address} closed the connection")
        challenge += part
    connection.sendall(hmac.new(secret, challenge, "sha256").digest())
    try:
        save = subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        leave(1, f"docker: {error.strerror}")
    said = []
    reader = threading.Thread(target=lambda: said.append(save.stderr.read().decode(errors="replace")), daemon=True)
    reader.start()
    digest = hmac.new(secret, digestmod="sha256")
    while block := save.stdout.read(1 << 20):
        digest.update(block)
        connection.sendall(struct.pack(">I", len(block)))
        connection.sendall(block)
    status = save.wait()
    reader.join(10)
    if status != 0:
        # No end mark: the other side sees a cut stream.
        leave(1, "docker save: " + ("".join(said).strip() or f"it ended with {status}"))
    connection.sendall(struct.pack(">I", 0) + digest.digest())
    # Until the other side is done, so that both ends live and die together.
    connection.settimeout(None)
    if connection.recv(4) != b"done":
        leave(3)
except OSError as error:
    leave(3, f"the other side closed the connection ({error})")
os._exit(0)
