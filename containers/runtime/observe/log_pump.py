"""Copy the output of ranks to the node's own output, line by line, in a thread of its own.

The thread blocks when nobody reads our output; then ranks block, too, as they would alone. Heartbeats go on.
"""

from __future__ import annotations

import os
import re
import selectors
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

# Turn a rank's output into harmless lines: of bounded length, without control characters.
MOST_LINE_BYTES = 32 << 10  # CloudWatch's agents cut or split longer ones in ways of their own

# Everything but tab that moves a cursor, hides or reorders text: C0, DEL, C1, direction marks and overrides.
_HARMFUL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_PLAIN = re.compile(rb"[\t\x20-\x7e]*")


class LineCutter:
    """Cut bytes into whole lines. A carriage return ends a line too: progress bars redraw with it."""

    def __init__(self) -> None:
        self._begun = bytearray()
        self._left_out = 0

    def feed(self, data: bytes) -> list[str]:
        data = bytes(self._begun[-1:]) + data if self._begun[-1:] == b"\r" else data
        if self._begun[-1:] == b"\r":
            del self._begun[-1:]
        ends_open = data.endswith(b"\r")  # half of a "\r\n", perhaps
        *whole, rest = data.replace(b"\r\n", b"\n").removesuffix(b"\r").replace(b"\r", b"\n").split(b"\n")
        found = [self._finish(part) for part in whole]
        self._begin(rest)
        if ends_open:
            self._begun += b"\r"
        return found

    def rest(self) -> list[str]:
        """Return what the rank printed without a line end."""
        return [self._finish(b"")] if self._begun.strip(b"\r") else []

    def _begin(self, part: bytes) -> None:
        room = MOST_LINE_BYTES - len(self._begun)
        self._left_out += max(0, len(part) - room)
        self._begun += part[: max(0, room)]

    def _finish(self, part: bytes) -> str:
        self._begin(part)
        line, left_out = bytes(self._begun).removesuffix(b"\r"), self._left_out
        self._begun.clear()
        self._left_out = 0
        return harmless(line) + (f" … ({left_out} bytes left out)" if left_out else "")


def harmless(line: bytes) -> str:
    if _PLAIN.fullmatch(line):
        return line.decode("ascii")
    text = line.decode("utf-8", errors="backslashreplace")
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


STDOUT, STDERR = 1, 2
_READ_BYTES = 64 << 10
_TAIL_LINES = 60
_SHOWN_LINES = 20
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(slots=True, kw_only=True)
class _Stream:
    rank: int
    descriptor: int
    target: int
    cutter: LineCutter = field(default_factory=LineCutter)


class LogPump:
    def __init__(self, node: int) -> None:
        self._name = f"[node {node}] "
        self._tails: dict[int, deque[str]] = {}
        self._ended: dict[int, threading.Semaphore] = {}
        self._asked: deque[_Stream | str] = deque()  # by other threads
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    def say(self, line: str) -> None:
        """Log a line of the launcher itself; never waits."""
        self._ask(f"{self._name}{line}\n")

    def say_for(self, rank: int, line: str) -> None:
        """Log a line as if this rank had printed it; never waits."""
        self._ask(f"[{rank}] {harmless(line.encode())}\n")

    def carry(self, rank: int, stdout: int, stderr: int) -> None:
        """Take over the two descriptors of a rank and log what it prints."""
        self._tails[rank] = deque(maxlen=_TAIL_LINES)
        self._ended[rank] = threading.Semaphore(0)
        self._ask(_Stream(rank=rank, descriptor=stdout, target=STDOUT))
        self._ask(_Stream(rank=rank, descriptor=stderr, target=STDERR))

    def last_words(self, rank: int, patience_seconds: float) -> Sequence[str]:
        """Return what an ended rank printed last on stderr, from its last traceback on if there is one."""
        self._ended[rank].acquire(timeout=patience_seconds)  # its last lines may still be in the pipe
        lines = list(self._tails[rank])
        begin = max((at for at, line in enumerate(lines) if _TRACEBACK in line), default=0)
        return lines[max(begin, len(lines) - _SHOWN_LINES) :]

    def close(self, patience_seconds: float) -> None:
        """Carry what is left in the pipes, once all ranks are gone; do not wait for a stranger that holds
        one open."""
        self._closing = True
        self._wake()
        self._thread.join(patience_seconds)

    def _ask(self, what: _Stream | str) -> None:
        self._asked.append(what)
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: it will wake up anyway
            os.write(self._wake_write, b"\0")

    def _run(self) -> None:
        while not (self._closing and not self._asked and len(self._selector.get_map()) == 1):
            for key, _ in self._selector.select():
                if isinstance(key.data, _Stream):
                    self._carry_some(key.data)
                else:
                    self._do_what_was_asked()

    def _do_what_was_asked(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_read, _READ_BYTES)
        while self._asked:
            asked = self._asked.popleft()
            if isinstance(asked, str):
                _write(STDERR, asked)
            else:
                self._selector.register(asked.descriptor, selectors.EVENT_READ, asked)

    def _carry_some(self, stream: _Stream) -> None:
        data = os.read(stream.descriptor, _READ_BYTES)
        lines = stream.cutter.feed(data) if data else stream.cutter.rest()
        if lines:
            _write(stream.target, "".join(f"[{stream.rank}] {line}\n" for line in lines))
        if stream.target == STDERR:
            self._tails[stream.rank].extend(lines)
        if not data:
            self._selector.unregister(stream.descriptor)
            os.close(stream.descriptor)
            if stream.target == STDERR:
                self._ended[stream.rank].release()


def _write(descriptor: int, text: str) -> None:
    """Write whole lines in one call where the kernel takes them; an output that is gone stops nothing."""
    rest = memoryview(text.encode("utf-8", errors="backslashreplace"))
    with suppress(OSError):
        while rest:
            rest = rest[os.write(descriptor, rest) :]
