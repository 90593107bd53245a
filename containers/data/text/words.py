"""Split text into words, for training a vocabulary, by the tables that the C core uses too.

The rules are those of BertNormalizer and BertPreTokenizer of the tokenizers library; tokens/native/words.c
splits the words into pieces. "[MASK]" in a text is three words, so that a text cannot insert special tokens.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LONGEST_WORD_CHARACTERS = 100
_CHUNK = re.compile(rb"[^ \t\r\n]+")


def chunks_of(line: bytes) -> list[bytes]:
    return _CHUNK.findall(line)


def words_of(text: str, *, cased: bool) -> Iterator[str]:
    """Yield what the normaliser and the splitter leave of a text, word by word."""
    table = cased_table() if cased else unicode_table()
    word: list[int] = []
    waiting: list[int] = []  # marks since the last character of combining class 0
    for item in (item for character in text for item in table.expand(ord(character))):
        if item >> CLASS_SHIFT & 0xFF:
            waiting.append(item)
            continue
        word += _in_order(waiting)
        code, stands_alone = item & CODE, item & (PAD | PUNCTUATION)
        if (stands_alone or code == SPACE) and word:
            yield _spelled(word)
        if stands_alone:
            yield chr(code)
        elif code not in (SPACE, 0):  # 0 is a dropped character that kept marks in order
            word.append(code)
    word += _in_order(waiting)
    if word:
        yield _spelled(word)


def word_counts(chunks: Mapping[bytes, int], *, cased: bool) -> Counter[str]:
    """Count the words of counted chunks; words that are too long for a vocabulary do not count."""
    counts: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in words_of(chunk.decode("utf-8"), cased=cased):
            if len(word) <= LONGEST_WORD_CHARACTERS:
                counts[word] += count
    return counts


def _in_order(waiting: list[int]) -> list[int]:
    ordered = [item & CODE for item in sorted(waiting, key=lambda item: item >> CLASS_SHIFT & 0xFF)]
    waiting.clear()
    return ordered


def _spelled(word: list[int]) -> str:
    spelled = "".join(map(chr, word))
    word.clear()
    return spelled


# The table for cased vocabularies: BertNormalizer without lower case.
# It drops the characters that the lower-case table drops, except marks, which only lower-casing drops.
_MARKS = "M"
_BLANKS = ("Zs", "Zl", "Zp", "Cc")


@cache
def cased_table() -> UnicodeTable:
    lower, draft = unicode_table(), Draft()
    for code in np.flatnonzero(lower.entries != np.arange(CODES)).tolist():  # all others stay unchanged
        draft.entries[code] = _entry(draft, code, lower.expand(code))
    return UnicodeTable(entries=draft.entries, items=np.array(draft.items, dtype=np.uint32))


def _entry(draft: Draft, code: int, items: list[int]) -> int:
    """Return a character's entry: dropped, a blank, a word of its own, or itself."""
    category = unicodedata.category(chr(code))
    if not items and not category.startswith(_MARKS):
        return draft.several(())
    if SPACE in items and category in _BLANKS:
        return SPACE
    return code | PUNCTUATION if _stands_alone(code, items, category) else code


def _stands_alone(code: int, items: list[int], category: str) -> bool:
    """Return True for a character that is a word of its own: by the table, else by its category."""
    if items and items[0] & PAD:
        return True
    if len(items) == 1 and items[0] & CODE == code:
        return bool(items[0] & PUNCTUATION)
    return category.startswith("P")


# The table packs the result for each code point into a number, for the C core and for Python. It is read from
# unicode.csv. A new kind of rule is a row of RULES, a function, and a case of refresh_unicode.rule.
Codes = NDArray[np.uint32]

# An entry is a code point (21 bits) with its combining class and flags, or a stretch of `items`.
CLASS_SHIFT = 21
PUNCTUATION = 1 << 29
PAD = 1 << 30  # a word of its own: Chinese characters
SEVERAL = 1 << 31  # 20 bits of offset into items, 4 bits of length; length 0 drops the character
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
    """Hold the table while it is read: entries, items, and the flags of the characters that they produce."""

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
    """Map to code point 0, which is dropped later but keeps the marks around it in order."""
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
    leading, rest = np.divmod(np.arange(span.start, span.stop) - 0xAC00, 588)
    vowel, trailing = np.divmod(rest, 28)
    letters = np.stack((0x1100 + leading, 0x1161 + vowel, 0x11A7 + trailing), axis=1)
    is_there = np.stack((leading >= 0, vowel >= 0, trailing > 0), axis=1)
    lengths = is_there.sum(axis=1)
    offsets = len(draft.items) + np.cumsum(lengths) - lengths
    draft.items.extend(letters[is_there].tolist())
    draft.entries[span] = SEVERAL | lengths << LENGTH_SHIFT | offsets


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
