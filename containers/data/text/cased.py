"""The table for vocabularies that know capitals: BertNormalizer without lower case.

What the tokenizers library drops as no character is told by the table of the lower-case rules; marks, which
those rules drop too, stay.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np

from slipway.containers.data.text.unicode_table import (
    CODE,
    CODES,
    PAD,
    PUNCTUATION,
    SPACE,
    Draft,
    UnicodeTable,
    unicode_table,
)

_MARKS = "M"
_BLANKS = ("Zs", "Zl", "Zp", "Cc")


@cache
def cased_table() -> UnicodeTable:
    lower, draft = unicode_table(), Draft()
    for code in np.flatnonzero(lower.entries != np.arange(CODES)).tolist():  # the others stay as they are
        draft.entries[code] = _entry(draft, code, lower.expand(code))
    return UnicodeTable(entries=draft.entries, items=np.array(draft.items, dtype=np.uint32))


def _entry(draft: Draft, code: int, items: list[int]) -> int:
    """Return a character's entry: dropped, a blank, a word by itself, or the character."""
    category = unicodedata.category(chr(code))
    if not items and not category.startswith(_MARKS):
        return draft.several(())
    if SPACE in items and category in _BLANKS:
        return SPACE
    return code | PUNCTUATION if _stands_alone(code, items, category) else code


def _stands_alone(code: int, items: list[int], category: str) -> bool:
    """Return True for a character that is a word by itself, by the table if it knows it, else by its
    category."""
    if items and items[0] & PAD:
        return True
    if len(items) == 1 and items[0] & CODE == code:
        return bool(items[0] & PUNCTUATION)
    return category.startswith("P")
