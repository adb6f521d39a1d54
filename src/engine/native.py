"""A rank of a native launch.

Arguments: ADDRESS[,ADDRESS...] RANK PORT FILE -- ENGINE_COMMAND...

The ranks gather at PORT of the first address; once all are there, each starts its engine. From then on the group is
one: when a rank's engine ends, or its node is lost, the others' engines are ended, as they would not notice, or wait
for ever. The head keeps the addresses of the ranks that are there in FILE. There is no time limit for gathering: whoever started the container has one.
"""
import os
import select
import signal
import socket
import subprocess
import sys
import time

# Seconds that an engine may take to end by itself.
GRACE = 6
told_to_stop = False


def say(text):
    print("sparkctl: " + text, flush=True)


def watched(connection):
    """A connection that breaks within half a minute of its other end's node."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    return connection


def is_closed(connection):
    """Whether a connection that never says anything has ended."""
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return connection.recv(1) == b""
    except OSError:
        return True


def listen(address, port):
    while True:
        try:
            return socket.create_server((address, port))
        except OSError as why:
            # A node that boots may start its containers before its addresses are up.
            say("cannot listen at %s port %s: %s" % (address, port, why.strerror))
            time.sleep(5)


def tell(addresses, path):
    with open(path + ".new", "w") as file:
        file.writelines(address + "\n" for address in sorted(addresses))
    os.rename(path + ".new", path)


def gather(door, wanted, path):
    """The head: waits until every worker is connected."""
    there, said = {}, None
    while True:
        missing = [address for address in wanted[1:] if address not in there]
        now = "native has %d of %d nodes" % (len(wanted) - len(missing), len(wanted))
        if missing:
            now += ", missing " + ", ".join(missing)
        if now != said:
            say(now)
            said = now
        tell([wanted[0], *there], path)
        if not missing:
            break
        if select.select([door], [], [], 1)[0]:
            connection, (address, _) = door.accept()
            if address in wanted[1:]:
                there[address] = watched(connection)
            else:
                say("a stranger at %s was turned away" % address)
                connection.close()
        there = {address: each for address, each in there.items() if not is_closed(each)}
    for connection in there.values():
        connection.sendall(b"!")
    return there


def join(own, head, port):
    """A worker: waits until the head says that all are there."""
    said = None
    while True:
        try:
            connection = watched(socket.create_connection((head, port), timeout=3, source_address=(own, 0)))
            say("joined %s port %s, waiting for the others" % (head, port))
            connection.settimeout(None)
            if connection.recv(1):
                return connection
            why = "it went away"
        except OSError as error:
            why = str(error)
        # Once a reason: a line is taken for a sign that something moves.
        if why != said:
            say("waiting for the head at %s port %s: %s" % (head, port, why))
            said = why
        time.sleep(1)


def lost(peers, door):
    """Which rank's script is gone, if any; one that comes anew was gone, too."""
    for address, connection in peers.items():
        if is_closed(connection):
            return address
    while door and select.select([door], [], [], 0)[0]:
        connection, (address, _) = door.accept()
        connection.close()
        if address in peers:
            return address
    return None


def has_ended(engine):
    try:
        engine.wait(0.3)
        return True
    except subprocess.TimeoutExpired:
        return False


def end(engine):
    for what, limit in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        try:
            os.killpg(engine.pid, what)
        except ProcessLookupError:
            pass
        try:
            return engine.wait(limit)
        except subprocess.TimeoutExpired:
            pass


def stop(_signal, _frame):
    global told_to_stop
    told_to_stop = True


def main():
    addresses, rank, port, path, _, *command = sys.argv[1:]
    addresses, rank, port = addresses.split(","), int(rank), int(port)
    door = None
    if rank == 0:
        # Not what this container's last run has left.
        tell(addresses[:1], path)
        door = listen(addresses[0], port)
        peers = gather(door, addresses, path)
    else:
        peers = {addresses[0]: join(addresses[rank], addresses[0], port)}
    signal.signal(signal.SIGTERM, stop)
    # A session of its own, so that it can be ended with all of its processes.
    engine = subprocess.Popen(command, start_new_session=True)
    while not has_ended(engine):
        if told_to_stop:
            end(engine)
            break
        gone = lost(peers, door)
        if gone:
            say("rank %d at %s is gone: ending the engine of rank %d" % (addresses.index(gone), gone, rank))
            end(engine)
            sys.exit(1)
    code = engine.returncode
    # As a shell says it, and as Docker would: 128 and the signal.
    sys.exit(code if code >= 0 else 128 - code)


main()
