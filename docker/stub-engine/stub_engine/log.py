"""vLLM's log lines: prefixes, process tags, progress bars and tracebacks."""

import os
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

SITE = "/usr/local/lib/python3.12/dist-packages"
PYTHON = "/usr/lib/python3.12"

_lock = threading.Lock()


class Frame(NamedTuple):
    """One frame of a traceback; `^` marks cover the code, as Python 3.12 prints most of them."""

    file: str
    line: int
    function: str
    code: str


def say(text: str, error: bool = False) -> None:
    """Write whole lines. vLLM logs to stdout; progress bars, tracebacks and Ray's own lines go to stderr."""
    stream = sys.stderr if error else sys.stdout
    with _lock:
        stream.write(text + "\n")
        stream.flush()


def ray_logger_line(where: str, text: str, tag: str = "") -> None:
    stamp = datetime.now().strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    say(f"{tag}{stamp}\tINFO {where} -- {text}", error=True)


def traceback_lines(frames: Sequence[Frame], error: str) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for file, line, function, code in frames:
        lines.append(f'  File "{file}", line {line}, in {function}')
        lines.append(f"    {code}")
        # Python prints no marks under a statement that is a fault as a whole.
        if not code.startswith(("raise ", "self.", "with ", "async with ", "super()")):
            start = len("return ") if code.startswith("return ") else code.find(" = ") + 3 if " = " in code else 0
            lines.append("    " + " " * start + "^" * (len(code) - start))
    return [*lines, *error.splitlines()]


class Process:
    """One of vLLM's processes as the log shows it. The stub is a single process, so all ids but its own are made up."""

    def __init__(self, name: str, pid: int, within: str = "") -> None:
        self.name = name
        self.pid = pid
        self.within = within

    @property
    def tag(self) -> str:
        return f"{self.within}({self.name} pid={self.pid}) "

    def log(self, where: str, text: str, level: str = "INFO") -> None:
        stamp = datetime.now().strftime("%m-%d %H:%M:%S")
        # vLLM repeats the whole prefix on each line of a message.
        say("\n".join(f"{self.tag}{level} {stamp} [{where}] {line}" for line in text.split("\n")))

    def plain(self, text: str) -> None:
        """A line that comes from elsewhere than vLLM's logger, such as uvicorn's."""
        say(self.tag + text)

    def log_traceback(self, where: str, head: str, frames: Sequence[Frame], error: str) -> None:
        self.log(where, "\n".join([head, *traceback_lines(frames, error)]), "ERROR")

    def print_traceback(self, frames: Sequence[Frame], error: str, head: str = "") -> None:
        lines = ([head] if head else []) + traceback_lines(frames, error)
        say("\n".join(self.tag + line for line in lines), error=True)

    def bar(self, text: str, first: bool = False) -> None:
        """One state of a tqdm bar: carriage returns part the states; the tag comes once, on a line of its own."""
        with _lock:
            sys.stderr.write((f"{self.tag}\n" if first else "") + f"\r{text}")
            sys.stderr.flush()

    def bar_end(self) -> None:
        say(f"\n{self.tag}", error=True)


def ray_actor_tag(name: str, pid: int, ip: str | None) -> str:
    """The prefix by which a Ray driver marks a line that one of its actors printed; `ip` on other nodes only."""
    tag = f"({name} pid={pid}{f', ip={ip}' if ip else ''})"
    return f"{tag} " if os.environ.get("RAY_COLOR_PREFIX") == "0" else f"\x1b[36m{tag}\x1b[0m "
