"""The lines of a step's nodes, whole: srun carries long ones in pieces, and mixes those of several nodes.

With --label every piece names its task, and only a piece of the full size is not the end of its line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

_FULL_PIECE = 1024  # bytes; slurmstepd's, in every release from 22.05 to 25.11
_LABELLED = re.compile(rb" *([0-9]+): (.*)", re.DOTALL)


class SrunLines:
    def __init__(self, hear_line: Callable[[str], None]) -> None:
        self._hear_line = hear_line
        self._begun: defaultdict[bytes, bytearray] = defaultdict(bytearray)

    def hear(self, printed: bytes) -> None:
        """Take one line that srun printed; what has no label is srun's own."""
        piece = printed.removesuffix(b"\n")
        labelled = _LABELLED.fullmatch(piece)
        if labelled is None:
            self._say(piece)
            return
        task, text = labelled.groups()
        self._begun[task] += text
        if len(text) != _FULL_PIECE:
            self._say(bytes(self._begun.pop(task)))

    def end(self) -> None:
        """Say what a node had begun when it was lost."""
        while self._begun:
            self._say(bytes(self._begun.popitem()[1]))

    def _say(self, line: bytes) -> None:
        self._hear_line(line.decode(errors="replace"))
