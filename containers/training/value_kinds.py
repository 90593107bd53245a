"""The kinds of values a setting may have: each reads text strictly, or says what it wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

# [0-9] and not \d: that takes the digits of every script.
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,20})?([eE]-?[0-9]{1,2})?", re.ASCII)
# Slower than any training: at 0, or near it, one trains for hours and learns nothing.
_SLOWEST_RATE = 1e-9
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_PATH = re.compile(rf"{_NAME}(/{_NAME}){{0,8}}", re.ASCII)


class ValueKind(Protocol):
    """Read one kind of value, and say in words what is wanted."""

    @property
    def wanted(self) -> str: ...

    def read(self, text: str) -> int | float | str | None:
        """Return the value, or None if the text is not of this kind."""


@dataclass(frozen=True, slots=True)
class Whole:
    low: int
    high: int

    @property
    def wanted(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def read(self, text: str) -> int | None:
        return int(text) if _WHOLE.fullmatch(text) and self.low <= int(text) <= self.high else None


@dataclass(frozen=True, slots=True)
class Number:
    low: float
    high: float

    @property
    def wanted(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}, such as 0.003 or 3e-3"

    def read(self, text: str) -> float | None:
        return float(text) if _DECIMAL.fullmatch(text) and self.low <= float(text) <= self.high else None


LEARNING_RATE = Number(_SLOWEST_RATE, 1.0)


@dataclass(frozen=True, slots=True)
class Choice:
    allowed: tuple[str, ...]

    @property
    def wanted(self) -> str:
        return " or ".join(self.allowed)

    def read(self, text: str) -> str | None:
        return text if text in self.allowed else None


@dataclass(frozen=True, slots=True)
class StepRange:
    """Read the first and the last of some steps, counted from 1."""

    wanted: str = "a first and a last step, such as 10:15"

    def read(self, text: str) -> str | None:
        first, _, last = text.partition(":")
        if not (_WHOLE.fullmatch(first) and _WHOLE.fullmatch(last)):
            return None
        return text if 1 <= int(first) <= int(last) else None


@dataclass(frozen=True, slots=True)
class RelativePath:
    wanted: str = "a name or path below its root, of letters, digits and . _ - /"

    def read(self, text: str) -> str | None:
        return text if _PATH.fullmatch(text) else None
