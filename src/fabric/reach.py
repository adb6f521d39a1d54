# The end that reaches: probes the way to each listener, all at once.
# Arguments: for each way OWN,PEER,TCP,UDP: addresses, and the listener's ports.
# Input: the secret. Prints `way` for each: by which interface it goes, whether a connection came about,
# and the largest packet that arrives in one piece.
LIMIT = 2.0
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # of linux/in.h: never in pieces, whatever the kernel believes
HEADERS = 28  # of IPv4 and UDP
LEAST = 8 + 32  # of a datagram: its own bytes and the proof
# MTUs that are set in the world; tried first when the interface's own does not pass.
USUAL = (576, 1280, 1400, 1420, 1450, 1492, 1500, 2044, 4092, 4096, 4200, 8000, 8192, 8900, 8950, 8966, 9000)


def ip(*words):
    """What `ip` prints as JSON; nothing where it refuses or is absent."""
    try:
        done = subprocess.run(["ip", "-j", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        return json.loads(done.stdout or b"[]") if done.returncode == 0 else []
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def route(own, peer, found_ways):
    """Where packets of this way go out, and which address they have where none is asked for."""
    free = ip("route", "get", peer)
    found = (ip("route", "get", peer, "from", own) or free or [{}])[0]
    if "dev" in found:
        source = (free or [{}])[0].get("prefsrc")
        found_ways.append({"interface": found["dev"], "source": source, "gateway": found.get("gateway")})


def silent(peer, interface):
    """Whether the kernel asked the network for the peer's Ethernet address and nobody answered."""
    neighbours = ip("neigh", "show", peer, "dev", interface)
    states = [state for neighbour in neighbours for state in neighbour.get("state", [])]
    return "FAILED" in states or "INCOMPLETE" in states


def reach(own, peer, tcp):
    """The word for how it went, and the connection."""
    words = {
        errno.ECONNREFUSED: "refused", errno.ENETUNREACH: "no-route", errno.EHOSTUNREACH: "unreachable",
        errno.EADDRNOTAVAIL: "no-address", errno.ECONNRESET: "stranger", errno.EPIPE: "stranger",
    }
    try:
        return "connected", connect(own, peer, tcp, LIMIT, b"r")
    except socket.timeout:
        return "timed-out", None
    except OSError as error:
        return words.get(error.errno, "timed-out" if error.errno == errno.ETIMEDOUT else "refused"), None


def datagram(size):
    own = secrets.token_bytes(8)
    answer = own + proof(b"answer", own, struct.pack(">I", size - HEADERS))
    return (own + proof(b"ask", own)).ljust(size - HEADERS, b"\0"), answer


def passing(sizes, asker, address):
    """Which of these sizes arrive. Each is sent up to three times: a single loss says nothing."""
    left, passed = {}, set()
    for size in sizes:
        data, answer = datagram(size)
        left[answer] = (size, data)
    for wait in (0.1, 0.2, 0.4):
        for size, data in left.values():
            try:
                asker.sendto(data, address)
            except OSError:
                pass  # larger than the interface takes, or turned away here
        until = time.monotonic() + wait
        while left and (rest := until - time.monotonic()) > 0:
            asker.settimeout(rest)
            try:
                answer = asker.recv(64)
            except OSError:
                continue
            if answer in left:
                passed.add(left.pop(answer)[0])
        if not left:
            break
    return passed


def path(own, peer, udp, interface, connection):
    """The interface's MTU, and what of it passes from end to end."""
    with open(f"/sys/class/net/{interface}/mtu") as file:
        expected = min(int(file.read()), 65535)
    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asker.bind((own, 0))
    asker.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
    address = (peer, udp)
    told = {"expected": expected, "by": "datagrams"}
    if passing([expected], asker, address):
        return {**told, "passed": expected}
    good, bad = LEAST + HEADERS, expected
    if not passing([good], asker, address):
        # No datagram arrives, so the kernel's word for this connection has to do (struct tcp_info).
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        segment, known = struct.unpack_from("I", info, 16)[0], struct.unpack_from("I", info, 60)[0]
        whole = segment + 40 + (12 if info[5] & 1 else 0)
        return {**told, "passed": min(whole, known), "by": "segments"}
    sizes = [size + more for size in USUAL for more in (0, 4)]
    for _ in range(4):
        sizes = [size for size in sizes if good < size < bad]
        passed = passing(sizes, asker, address)
        good = max(passed, default=good)
        bad = min((size for size in sizes if size > good), default=bad)
        if bad - good <= 4:
            break
        sizes = range(good, bad, max(1, (bad - good) // 24))
    # Once more, lest a moment's load be taken for a narrow way.
    return {**told, "passed": expected if passing([expected], asker, address) else good}


def knock(own, peer, udp):
    """A few datagrams, so that the other end can say whether this direction is open."""
    try:
        asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        asker.bind((own, 0))
    except OSError:
        return
    for wait in (0.3, 0.5, 0.5, 0):
        try:
            asker.sendto(datagram(LEAST + HEADERS)[0], (peer, udp))
        except OSError:
            pass
        time.sleep(wait)


def probe(own, peer, tcp, udp):
    threading.Thread(target=knock, args=(own, peer, udp), daemon=True).start()
    ways, mtu = [], None
    asking = threading.Thread(target=route, args=(own, peer, ways), daemon=True)
    asking.start()
    word, connection = reach(own, peer, tcp)
    asking.join()
    way = ways[0] if ways else None
    if word == "timed-out" and way and not way["gateway"] and silent(peer, way["interface"]):
        word = "unreachable"
    if connection and way:
        try:
            mtu = path(own, peer, udp, way["interface"], connection)
        except (OSError, ValueError):
            pass
    tell("way", **{"from": own, "to": peer, "route": way, "reach": word, "mtu": mtu})


probes = []
for argument in sys.argv[1:]:
    own, peer, tcp, udp = argument.split(",")
    probes.append(threading.Thread(target=probe, args=(own, peer, int(tcp), int(udp)), daemon=True))
    probes[-1].start()
for each in probes:
    each.join()
leave(0)
