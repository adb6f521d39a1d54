"""Ahead of the engine: {"before": [[WORD, ...], ...], "secrets": FILE} -- ENGINE_COMMAND...

Puts the secrets of FILE into the environment, runs each command of `before`, and becomes the engine. FILE has a line
`NAME VALUE` for each secret, the value in hexadecimal, and a last line `end`.
"""
import json
import os
import shlex
import subprocess
import sys


def say(text):
    print("sparkctl: " + text, flush=True)


def shown(argv):
    """A command on one line, not longer than a person reads."""
    line = " ".join(" ".join(shlex.quote(word) for word in argv).split())
    return line if len(line) <= 160 else line[:159] + "…"


def load_secrets(path):
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError as why:
        say("the secrets cannot be read by user %d: %s" % (os.getuid(), why.strerror))
        sys.exit(1)
    if lines[-1:] != ["end"]:
        say("the secrets cannot be read: their file is not whole")
        sys.exit(1)
    for line in lines[:-1]:
        name, value = line.split(" ")
        os.environb[name.encode()] = bytes.fromhex(value)


def run_before(commands):
    for number, argv in enumerate(commands):
        say("ahead of the engine, %d of %d: %s" % (number + 1, len(commands), shown(argv)))
        try:
            code = subprocess.call(argv)
        except OSError as why:
            how, status = "cannot be run (%s)" % why.strerror, 127
        else:
            if code == 0:
                continue
            # As a shell has it: 128 and the signal for what was killed.
            status = code if code > 0 else 128 - code
            how = "failed with exit status %d" % code if code > 0 else "was killed by signal %d" % -code
        say("engine.before[%d] %s: %s" % (number, how, shown(argv)))
        sys.exit(status)


def main():
    todo, _, *engine_command = sys.argv[1:]
    todo = json.loads(todo)
    if todo.get("secrets"):
        load_secrets(todo["secrets"])
    run_before(todo.get("before", []))
    try:
        os.execvp(engine_command[0], engine_command)
    except OSError as why:
        # In the words of Docker, which would start it without this script.
        say('exec: "%s": executable file not found in $PATH (%s)' % (engine_command[0], why.strerror))
        sys.exit(127)


main()
