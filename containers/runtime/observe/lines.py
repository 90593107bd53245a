"""What a rank prints, made lines that cannot harm: bounded, and without control characters."""

from __future__ import annotations

import re

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
    return _HARMFUL.sub(_escaped, line.decode("utf-8", errors="backslashreplace"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
