# Fetches files from another node's serve-weights.py into a folder, by rsync.
# Arguments: the folder, the other node's address, its port, the address to come from.
# Input: a line with the secret, a line with a length, then that many bytes: the paths of the files
# below the folder, a NUL behind each. The end of input before the end of the work stops it.
# Prints rsync's progress and, at the end, its statistics.
import hmac, os, shutil, signal, socket, subprocess, sys, tempfile, threading

# Called by rsync in place of `ssh`: passes bytes between it and the connection.
RELAY = r"""
import json, os, socket, struct, sys, threading
connection = socket.socket(fileno=int(sys.argv[1]))
os.set_blocking(0, True)
os.set_blocking(1, True)
command = json.dumps(sys.argv[sys.argv.index("rsync"):]).encode()
connection.sendall(struct.pack(">I", len(command)) + command)
def out():
    while data := os.read(0, 1 << 20):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=out, daemon=True).start()
buffer = memoryview(bytearray(1 << 20))
while count := connection.recv_into(buffer):
    data = buffer[:count]
    while data:
        data = data[os.write(1, data):]
os._exit(0)
"""

folder, address, port, own = sys.argv[1:5]
secret = sys.stdin.buffer.readline().strip()
files = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
private = tempfile.mkdtemp(prefix="sparkctl-pull-")  # mode 0700
rsync = None


def leave(status, words=""):
    if words:
        print(words, file=sys.stderr, flush=True)
    if rsync is not None and rsync.poll() is None:
        # It keeps what it has of a file for the next time.
        rsync.terminate()
        try:
            rsync.wait(10)
        except subprocess.TimeoutExpired:
            rsync.kill()
    shutil.rmtree(private, ignore_errors=True)
    os._exit(status)


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    leave(1, "stopped: the connection to sparkctl is gone")


def write(name, data):
    path = os.path.join(private, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def connect():
    connection = socket.create_connection((address, int(port)), 30, (own, 0))
    challenge = b""
    while len(challenge) < 32:
        part = connection.recv(32 - len(challenge))
        if not part:
            raise OSError("it closed the connection")
        challenge += part
    connection.sendall(hmac.new(secret, challenge, "sha256").digest())
    connection.settimeout(None)
    return connection


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leave(1, "stopped by a signal"))
threading.Thread(target=watch, daemon=True).start()
if shutil.which("rsync") is None:
    leave(1, "rsync is not installed")
try:
    os.makedirs(folder, exist_ok=True)
except OSError as error:
    leave(1, f"cannot make {folder}: {error.strerror}")
try:
    connection = connect()
except OSError as error:
    leave(1, f"cannot reach {address} from {own}: {error}")
relay = f"{sys.executable} {write('relay', RELAY.encode())} {connection.fileno()}"
# A file has its name only when it is complete; a cut one waits in the partial folder, and rsync
# continues it there.
rsync = subprocess.Popen([
    "rsync", "--recursive", "--times", "--copy-links", "--perms", "--chmod=D755,F644",
    "--partial-dir=.sparkctl-partial", "--from0", "--files-from", write("files", files), "--timeout=120",
    "--info=progress2,stats2", "--no-human-readable", "--outbuf=L", "--rsh", relay, "node:/", folder + "/",
], stdin=subprocess.DEVNULL, pass_fds=[connection.fileno()])
connection.close()
status = rsync.wait()
for place in {os.path.dirname(path) for path in files.decode().split("\0")}:
    try:
        os.rmdir(os.path.join(folder, place, ".sparkctl-partial"))
    except OSError:
        pass
leave(status if status >= 0 else 128 - status)
