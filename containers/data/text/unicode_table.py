"""What becomes of each code point: a packed number, read from unicode.csv, for the C core and for Python.

A new kind of rule is one line of RULES, one function, and one case of refresh_unicode.rule.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]

# An entry is a code point (21 bits) with what the next step must know of it, or a stretch of `items`.
CLASS_SHIFT = 21
PUNCTUATION = 1 << 29
PAD = 1 << 30  # a word of its own: Chinese characters
SEVERAL = 1 << 31  # 20 bits of offset into items, 4 bits of length; none at all is a dropped character
LENGTH_SHIFT = 20
CODES = 0x110000
SPACE = 32
CODE = (1 << CLASS_SHIFT) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UnicodeTable:
    entries: Codes
    items: Codes

    def expand(self, code: int) -> list[int]:
        entry = int(self.entries[code])
        if not entry & SEVERAL:
            return [entry]
        offset, length = entry & 0xFFFFF, entry >> LENGTH_SHIFT & 15
        return [int(item) for item in self.items[offset : offset + length]]


@dataclass(slots=True, kw_only=True)
class Draft:
    """Hold the table while it is read: entries that are plain code points, and marks that outputs carry."""

    entries: Codes = field(default_factory=lambda: np.arange(CODES, dtype=np.uint32))
    items: list[int] = field(default_factory=list)
    flags: Codes = field(default_factory=lambda: np.zeros(CODES, dtype=np.uint32))

    def several(self, codes: tuple[int, ...]) -> int:
        offset = len(self.items)
        self.items.extend(codes)
        return SEVERAL | len(codes) << LENGTH_SHIFT | offset


Rule = Callable[[Draft, slice, str], None]


@cache
def unicode_table() -> UnicodeTable:
    draft = Draft()
    with Path(__file__).with_name("unicode.csv").open(newline="", encoding="ascii") as file:
        for row in csv.DictReader(file):
            span = slice(int(row["first"], 16), int(row["last"], 16) + 1)
            RULES[row["does"]](draft, span, row["value"])
    items = np.array(draft.items, dtype=np.uint32)
    plain = draft.entries < SEVERAL
    draft.entries[plain] |= draft.flags[draft.entries[plain] & CODE]
    return UnicodeTable(entries=draft.entries, items=items | draft.flags[items])


def _drop(draft: Draft, span: slice, _: str) -> None:
    draft.entries[span] = draft.several(())


def _break(draft: Draft, span: slice, _: str) -> None:
    """Map to code point 0: nothing is left of it, but marks around it keep their order."""
    draft.entries[span] = draft.several((0,))


def _shift(draft: Draft, span: slice, value: str) -> None:
    draft.entries[span] = (np.arange(span.start, span.stop) + int(value)).astype(np.uint32)


def _pad(draft: Draft, span: slice, value: str) -> None:
    _shift(draft, span, value)
    draft.entries[span] |= PAD


def _become(draft: Draft, span: slice, value: str) -> None:
    draft.entries[span] = draft.several(tuple(int(code, 16) for code in value.split()))


def _hangul(draft: Draft, span: slice, _: str) -> None:
    """Split syllables into two or three letters by arithmetic (The Unicode Standard, section 3.12)."""
    for code in range(span.start, span.stop):
        leading, rest = divmod(code - 0xAC00, 588)
        vowel, trailing = divmod(rest, 28)
        letters = (0x1100 + leading, 0x1161 + vowel, *((0x11A7 + trailing,) if trailing else ()))
        draft.entries[code] = draft.several(letters)


def _punctuation(draft: Draft, span: slice, _: str) -> None:
    draft.flags[span] |= PUNCTUATION


def _class(draft: Draft, span: slice, value: str) -> None:
    draft.flags[span] |= int(value) << CLASS_SHIFT


RULES: Mapping[str, Rule] = {
    "drop": _drop,
    "break": _break,
    "shift": _shift,
    "pad": _pad,
    "become": _become,
    "hangul": _hangul,
    "punctuation": _punctuation,
    "class": _class,
}
