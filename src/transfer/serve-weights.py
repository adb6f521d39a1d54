# Gives a folder away, read-only, by rsync: to one address that knows the secret.
# Arguments: the folder, the address to listen on, the address to let in.
# Input: a line with the secret; the end of input ends all.
# Prints `port NUMBER`, and `ended STATUS` when rsync has: its client does not learn of files that it
# could not give by any other way.
#
# Not rsync's daemon: without root it cannot change its root, and newer ones then follow no links
# at all, while models of the Hub's cache are folders of links. So this program checks who comes
# (32 bytes of challenge, answered by HMAC-SHA256), and starts the same `rsync --server --sender` as
# a login over SSH would. The client says how it wants that called (4 bytes of length, a JSON list);
# only reading, only this folder and only known options are taken.
import hmac, json, os, re, secrets, shutil, signal, socket, struct, subprocess, sys, threading

folder, address, admitted = sys.argv[1:4]
secret = sys.stdin.buffer.readline().strip()
children = []
OPTION = re.compile(r"-[A-Za-z.]+|--(server|sender|from0|relative|no-[a-z-]+|numeric-ids|safe-links)"
                    r"|--files-from=-|--(timeout|protocol|info|msgs2stderr|partial-dir)(=[A-Za-z0-9.,-]+)?")


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
        part = connection.recv(count - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


def serve(connection, peer):
    with connection:
        if peer[0] != admitted:
            return
        connection.settimeout(30)
        challenge = secrets.token_bytes(32)
        try:
            connection.sendall(challenge)
            if not hmac.compare_digest(read(connection, 32), hmac.new(secret, challenge, "sha256").digest()):
                return
            command = json.loads(read(connection, min(struct.unpack(">I", read(connection, 4))[0], 65536)))
        except (OSError, ValueError):
            return
        options = command[1:-2]
        wrong = [option for option in options if not OPTION.fullmatch(option)]
        if command[:3] != ["rsync", "--server", "--sender"] or command[-2] != "." or wrong:
            print(f"refused to call {command}", file=sys.stderr, flush=True)
            return
        connection.setblocking(True)
        child = subprocess.Popen(["rsync"] + options + [".", folder + "/"], stdin=connection, stdout=connection)
        children.append(child)
    print(f"ended {child.wait()}", flush=True)


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leave(1))
if not os.path.isdir(folder):
    leave(1, f"{folder} is not a folder")
if shutil.which("rsync") is None:
    leave(1, "rsync is not installed")
try:
    listener = socket.create_server((address, 0))
except OSError as error:
    leave(1, f"cannot listen on {address}: {os.strerror(error.errno)}")
print(f"port {listener.getsockname()[1]}", flush=True)
threading.Thread(target=watch, daemon=True).start()
while True:
    threading.Thread(target=serve, args=listener.accept(), daemon=True).start()
