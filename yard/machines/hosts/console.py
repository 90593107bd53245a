"""What a host has printed on its console since it was launched: as on EC2, the last 64 KB of it."""

from __future__ import annotations

import re
import threading

MOST_BYTES = 64 * 1024
# A unit that nobody would miss until it is wanted: systemd tells of it in one line and starts without it.
_DROPPED = re.compile(r"Job (\S+)/start deleted to break ordering cycle")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\r")


class Console:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = ""
        self._dropped: dict[str, None] = {}

    def begin_boot(self) -> None:
        """Keep the text, and forget what was true of the boot before."""
        with self._lock:
            self._dropped.clear()

    def add(self, line: str) -> str:
        """Keep the line; return it as a log shows it."""
        plain = _COLOURS.sub("", line).rstrip()
        with self._lock:
            self._kept = f"{self._kept}{plain}\n"[-MOST_BYTES:]
            self._dropped.update(dict.fromkeys(_DROPPED.findall(plain)))
        return plain

    @property
    def text(self) -> str:
        with self._lock:
            return self._kept

    def dropped_units(self) -> list[str]:
        """Name the units that systemd did not start at this boot because they were ordered in a circle."""
        with self._lock:
            return list(self._dropped)
