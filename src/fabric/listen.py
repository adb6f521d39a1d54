# The end that is reached: listens on addresses of the node, at ports that the kernel picks.
# Arguments: for each address ADDRESS=ADMITTED,ADMITTED...: who is let in there.
# Input: the secret; the end of input ends all.
# Prints for each address `listening` or `failed`, then `ready`; `arrived` at the first datagram from
# a peer; `counted` at the end of a measured transfer.
#
# A connection gets 32 bytes of challenge, answers with a proof that it knows the secret, what it wants
# (`r`: to have reached, `m`: to be measured), the transfer's id and its number of streams; it gets a
# proof back, so that another machine of the same address is not taken for this one.
# A datagram has 8 bytes of its own, a proof, and padding; the answer is the 8 bytes and a proof.
sessions = {}
sessions_lock = threading.Lock()
# How long after the last stream has joined the counting begins: TCP is at full speed by then.
SETTLE = 0.25


class Session:
    """A measured transfer. What came is counted here, where it came, while all streams run."""

    def __init__(self, name, streams):
        self.name, self.streams, self.counts, self.over = name, streams, [], threading.Event()

    def join(self, connection):
        with sessions_lock:
            index = len(self.counts)
            self.counts.append(0)
            whole = len(self.counts) == self.streams
        if whole:
            threading.Thread(target=self.sample, daemon=True).start()
        connection.settimeout(3)
        buffer = bytearray(4 << 20)
        try:
            # The kernel counts and throws away: copying would measure the processor.
            while count := connection.recv_into(buffer, 0, socket.MSG_TRUNC):
                self.counts[index] += count
        except OSError:
            pass
        self.over.set()

    def sample(self):
        samples = []
        begun = time.monotonic()
        while not self.over.wait(0.02):
            samples.append((time.monotonic(), sum(self.counts)))
        settled = [sample for sample in samples if sample[0] - begun >= SETTLE]
        first, last = (settled or samples or [(0, 0)])[0], (samples or [(0, 0)])[-1]
        tell("counted", session=self.name.hex(), bytes=last[1] - first[1], seconds=last[0] - first[0])


def serve(connection, peer, admitted):
    with connection:
        if peer not in admitted:
            return
        connection.settimeout(5)
        challenge = secrets.token_bytes(32)
        try:
            connection.sendall(challenge)
            if not hmac.compare_digest(read(connection, 32), proof(b"come", challenge)):
                return
            kind, name, streams = struct.unpack(">c8sB", read(connection, 10))
            connection.sendall(proof(b"here", challenge))
        except OSError:
            return
        if kind == b"m":
            with sessions_lock:
                session = sessions.setdefault(name, Session(name, streams))
            session.join(connection)


def take_connections(listener, admitted):
    while True:
        connection, peer = listener.accept()
        threading.Thread(target=serve, args=(connection, peer[0], admitted), daemon=True).start()


def take_datagrams(datagrams, own, admitted):
    heard = set()
    while True:
        try:
            data, peer = datagrams.recvfrom(65536)
            if peer[0] not in admitted or not hmac.compare_digest(data[8:40], proof(b"ask", data[:8])):
                continue
            if peer[0] not in heard:
                heard.add(peer[0])
                tell("arrived", **{"from": peer[0], "to": own})
            datagrams.sendto(data[:8] + proof(b"answer", data[:8], struct.pack(">I", len(data))), peer)
        except OSError:
            pass


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    leave(0)


threading.Thread(target=watch, daemon=True).start()
for argument in sys.argv[1:]:
    own, admitted = argument.split("=")
    admitted = set(admitted.split(","))
    try:
        listener = socket.create_server((own, 0), backlog=128)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind((own, 0))
    except OSError as error:
        tell("failed", address=own, why=os.strerror(error.errno))
        continue
    threading.Thread(target=take_connections, args=(listener, admitted), daemon=True).start()
    threading.Thread(target=take_datagrams, args=(datagrams, own, admitted), daemon=True).start()
    tell("listening", address=own, tcp=listener.getsockname()[1], udp=datagrams.getsockname()[1])
tell("ready")
threading.Event().wait()
