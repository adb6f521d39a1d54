# The giving end of a measured transfer: as much as goes, over several connections at once.
# Arguments: own address, the listener's address and port, the transfer's id, streams, seconds.
# Input: the secret. Prints nothing: what came is counted by the listener.
own, peer, port, session, streams, seconds = sys.argv[1:]
BLOCK = 4 << 20
# Sent out of memory without a copy: copying would measure the processor.
memory = os.memfd_create("sparkctl")
os.write(memory, os.urandom(1 << 20) * (BLOCK >> 20))


def send(connection):
    try:
        while True:
            os.sendfile(connection.fileno(), memory, 0, BLOCK)
    except OSError as error:
        leave(1, f"the connection to {peer} was cut: {error.strerror}")


connections = []
try:
    for _ in range(int(streams)):
        connection = connect(own, peer, int(port), 2, b"m", bytes.fromhex(session), int(streams))
        connection.settimeout(None)
        # At the end what is still under way is thrown away, not waited for.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connections.append(connection)
except OSError as error:
    leave(1, f"cannot reach {peer} from {own}: {error}")
for connection in connections:
    threading.Thread(target=send, args=(connection,), daemon=True).start()
time.sleep(float(seconds))
leave(0)
