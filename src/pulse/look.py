"""What a rank uses, again and again: CONTAINER FABRIC_ADDRESS SECONDS. A line of JSON each; ends with its standard input.

No rights are needed: what the kernel tells everybody is read. What cannot be had is left out.
"""
import glob
import json
import os
import re
import select
import subprocess
import sys

TICK = os.sysconf("SC_CLK_TCK")
# Whole disks: partitions would be counted twice.
DISK = re.compile(r"(nvme\d+n\d+|[shv]d[a-z]+|xvd[a-z]+|mmcblk\d+)$")


def said(*command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def first_process(container):
    """The container's first process, as the node numbers it; 0 while it does not run."""
    text = said("docker", "inspect", "-f", "{{.State.Pid}}", container).strip()
    return int(text) if text.isdigit() else 0


def cpu(first):
    """Seconds of all processes below the first one, and of those that ended below them."""
    parents, times = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        # The name may hold blanks and brackets.
        fields = read(path).rpartition(")")[2].split()
        if len(fields) > 14:
            pid = int(path.split("/")[2])
            parents[pid] = int(fields[1])
            times[pid] = sum(map(int, fields[11:15]))
    if first not in times:
        return None
    children = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    total, left = 0, [first]
    while left:
        pid = left.pop()
        total += times[pid]
        left.extend(children.get(pid, ()))
    return total / TICK


def disk(first):
    """Bytes that the container read from disks, by its control group; else all that the node read."""
    total = None
    for line in read("/proc/%d/cgroup" % first).splitlines():
        _, controllers, path = line.split(":", 2)
        if path == "/":
            continue
        if not controllers:
            for word in read("/sys/fs/cgroup%s/io.stat" % path).split():
                if word.startswith("rbytes="):
                    total = (total or 0) + int(word[len("rbytes="):])
        elif "blkio" in controllers.split(","):
            counted = read("/sys/fs/cgroup/blkio%s/blkio.throttle.io_service_bytes" % path)
            for row in map(str.split, counted.splitlines()):
                if len(row) == 3 and row[1] == "Read":
                    total = (total or 0) + int(row[2])
    if total is not None:
        return total
    for line in read("/proc/diskstats").splitlines():
        fields = line.split()
        if len(fields) > 5 and DISK.match(fields[2]):
            total = (total or 0) + int(fields[5]) * 512
    return total


def interface(address):
    for line in said("ip", "-o", "-4", "addr", "show").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3].split("/")[0] == address:
            return fields[1]
    return None


def fabric(name):
    """Bytes in and out of the interface, and by RDMA, which the interface does not count."""
    if not name:
        return None
    paths = [("/sys/class/net/%s/statistics/%s_bytes" % (name, way), 1) for way in ("rx", "tx")]
    ports = "/sys/class/infiniband/*/ports/*/counters/port_%s_data"
    # In words of four bytes.
    paths += [(path, 4) for way in ("rcv", "xmit") for path in glob.glob(ports % way)]
    counted = [(read(path).strip(), factor) for path, factor in paths]
    counted = [int(text) * factor for text, factor in counted if text.isdigit()]
    return sum(counted) if counted else None


def gpu():
    text = said("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
    numbers = [int(line) for line in text.split() if line.isdigit()]
    return max(numbers) if numbers else None


def main():
    container, address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    first, name = 0, interface(address)
    while True:
        if not first or not os.path.exists("/proc/%d" % first):
            first = first_process(container)
        look = {"cpu": cpu(first) if first else None, "read": disk(first) if first else None, "fabric": fabric(name), "gpu": gpu()}
        print(json.dumps({sign: value for sign, value in look.items() if value is not None}), flush=True)
        if select.select([0], [], [], seconds)[0] and not os.read(0, 4096):
            return


main()
