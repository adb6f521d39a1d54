# Takes an image from another node and feeds it to `docker load`.
# Arguments: the address to listen on, the address to let in, the name that the image in the archive has.
# Input: a line with the secret; the end of input before the end of the work stops it.
# Prints `port NUMBER`, then `bytes NUMBER` twice a second, then what `docker load` prints.
#
# However a load fails, the name is afterwards where it was: the containerd store gives it away even to an
# image that it could not unpack. That is done here, as sparkctl may be gone by then.
#
# The stream: 32 bytes of challenge to the sender, 32 bytes of answer (HMAC-SHA256 of the challenge)
# back; then blocks, each with its length in 4 bytes; a length of 0, then HMAC-SHA256 of all blocks.
# The last block is held back until that is right, so that `docker load` never sees a whole archive
# of a stream that was cut or changed; if it is not, `docker load` is killed in the middle.
import hmac, os, secrets, signal, socket, struct, subprocess, sys, threading, time

address, admitted, name = sys.argv[1:4]
secret = sys.stdin.buffer.readline().strip()
load = None
finished = False
leaving = threading.Lock()


def docker(*command):
    try:
        done = subprocess.run(("docker",) + command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode().strip() if done.returncode == 0 else ""


def holder():
    return docker("image", "inspect", "--format", "{{.Id}}", name)


def put_name_back():
    # An engine may take a moment to see that its client is gone.
    for _ in range(4):
        now = holder()
        if now != before:
            if now:
                docker("rmi", name)
            if before:
                docker("tag", before, name)
            return
        time.sleep(0.25)


def leave(status, words=""):
    if not leaving.acquire(blocking=False):
        threading.Event().wait()
    if load is not None:
        if load.poll() is None:
            load.kill()
            load.wait()
        put_name_back()
    try:
        if words:
            print(words, file=sys.stderr, flush=True)
    except OSError:
        pass
    os._exit(status)


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    if not finished:
        leave(1, "stopped: the connection to sparkctl is gone")


def read(connection, count):
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            return None
        data += part
    return bytes(data)


def admit(listener):
    while True:
        connection, peer = listener.accept()
        if peer[0] == admitted:
            connection.settimeout(30)
            challenge = secrets.token_bytes(32)
            try:
                connection.sendall(challenge)
                answer = read(connection, 32)
            except OSError:
                answer = None
            if answer and hmac.compare_digest(answer, hmac.new(secret, challenge, "sha256").digest()):
                # An engine may spool the whole image before it gives the first byte.
                connection.settimeout(None)
                return connection
        connection.close()


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: threading.Thread(target=leave, args=(1, "stopped by a signal")).start())
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
threading.Thread(target=watch, daemon=True).start()
try:
    listener = socket.create_server((address, 0))
except OSError as error:
    leave(1, f"cannot listen on {address}: {os.strerror(error.errno)}")
print(f"port {listener.getsockname()[1]}", flush=True)
connection = admit(listener)
listener.close()
before = holder()
try:
    load = subprocess.Popen(["docker", "load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
except OSError as error:
    leave(1, f"docker: {os.strerror(error.errno)}")
said = []
reader = threading.Thread(target=lambda: said.append(load.stdout.read().decode(errors="replace")), daemon=True)
reader.start()
digest = hmac.new(secret, digestmod="sha256")
held, count, told = b"", 0, time.monotonic()


def feed(block):
    try:
        load.stdin.write(block)
        load.stdin.flush()
    except OSError:
        # It ended by itself: its own words say why.
        load.wait()
        reader.join(10)
        leave(1, "docker load: " + ("".join(said).strip() or f"it ended with {load.returncode}"))


try:
    while True:
        header = read(connection, 4)
        if header is None:
            leave(1, f"the stream was cut after {count} bytes")
        length = struct.unpack(">I", header)[0]
        if length == 0:
            break
        block = read(connection, length) if length <= 1 << 24 else None
        if block is None:
            leave(1, f"the stream was cut after {count} bytes")
        digest.update(block)
        feed(held)
        held, count = block, count + length
        if time.monotonic() - told >= 0.5:
            told = time.monotonic()
            print(f"bytes {count}", flush=True)
    if read(connection, 32) != digest.digest():
        leave(1, "the stream was changed on its way")
except OSError as error:
    leave(1, f"the stream was cut after {count} bytes: {error}")
print(f"bytes {count}", flush=True)
feed(held)
try:
    load.stdin.close()
except OSError:
    pass
status = load.wait()
reader.join(10)
words = "".join(said).strip()
if status != 0:
    leave(1, "docker load: " + (words or f"it ended with {status}"))
finished = True
print(words, flush=True)
try:
    connection.sendall(b"done")
except OSError:
    pass
os._exit(0)
