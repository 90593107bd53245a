"""What went wrong while a host booted, in words that say how to mend it. Standard library only."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any


class Failures:
    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._plan = plan
        self._said: list[str] = []

    @property
    def words(self) -> str:
        """List the failures in words; return "" if nothing failed."""
        return "; ".join(dict.fromkeys(self._said))

    def step(self, argv: Sequence[str], code: int) -> None:
        program, log = argv[0], self._plan["keep_output"][-1]
        if self.has(program):
            self._said.append(
                f"at boot {program} ended with {code}; what it said: slipway yard logs, and {log} of the host"
            )

    def unit(self, name: str, code: int) -> None:
        self._said.append(f"{name} ends as soon as it starts, with {code}; what it said: slipway yard logs")

    def has(self, program: str, *others: str) -> bool:
        """Return True if one of the programs is there; if not, remember the first name as missing."""
        path = self._plan["environment"]["PATH"]
        if any(shutil.which(each, path=path) for each in (program, *others)):
            return True
        self._said.append(f"{program} is not there; {self._plan['mend']}")
        return False

    def look_for_programs(self) -> None:
        """Look for programs that jobs need although no step and no unit starts them."""
        for names in self._plan["programs"]:
            self.has(*names)
