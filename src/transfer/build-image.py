# Builds an image from an archive of a folder.
# Arguments: the archive's size in bytes, the image's name, the build's arguments as NAME=VALUE.
# Input: the archive; the end of input before the end of the work stops the build.
# Output: what the build says, line by line. Works with the classic builder and with BuildKit.
import os, signal, subprocess, sys, tempfile, threading

size, name, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
build = None


def leave(status, words=""):
    if words:
        print(words, file=sys.stderr, flush=True)
    if build is not None and build.poll() is None:
        build.terminate()
        try:
            build.wait(10)
        except subprocess.TimeoutExpired:
            build.kill()
    os._exit(status)


def watch():
    while sys.stdin.buffer.read(4096):
        pass
    leave(1, "stopped: the connection to sparkctl is gone")


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: leave(1, "stopped by a signal"))
with tempfile.TemporaryFile() as archive:
    left = size
    while left:
        block = sys.stdin.buffer.read(min(left, 1 << 20))
        if not block:
            leave(1, "stopped: the archive did not come whole")
        archive.write(block)
        left -= len(block)
    archive.seek(0)
    threading.Thread(target=watch, daemon=True).start()
    flags = [word for argument in arguments for word in ("--build-arg", argument)]
    # No `--progress`: the classic builder does not know it.
    environment = dict(os.environ, BUILDKIT_PROGRESS="plain")
    try:
        build = subprocess.Popen(
            # The classic builder keeps the container of a step that failed otherwise.
            ["docker", "build", "--force-rm", "--tag", name, *flags, "-"],
            stdin=archive, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
        )
    except OSError as error:
        leave(1, f"docker: {error.strerror}")
    for line in build.stdout:
        text = line.decode(errors="replace").rstrip()
        if text:
            print(text, flush=True)
    status = build.wait()
leave(0 if status == 0 else 1, "" if status == 0 else f"docker build ended with {status}")
