"""A worker of a Ray cluster: HEAD_ADDRESS PORT -- RAY_COMMAND...

Waits until the head's Ray answers, then becomes RAY_COMMAND, which ends when the head does.
"""
import os
import shutil
import socket
import sys
import time


def main():
    head, port, _, *ray_command = sys.argv[1:]
    shutil.rmtree("/tmp/ray", ignore_errors=True)
    said = None
    while True:
        try:
            socket.create_connection((head, int(port)), timeout=3).close()
            break
        except OSError as why:
            # Once a reason: a line is taken for a sign that something moves.
            if str(why) != said:
                print("sparkctl: waiting for ray at %s port %s: %s" % (head, port, why), flush=True)
                said = str(why)
            time.sleep(1)
    print("sparkctl: ray answers at %s port %s, joining" % (head, port), flush=True)
    os.execvp(ray_command[0], ray_command)


main()
