"""Words as written, for vocabularies that know capitals: BertNormalizer without lower case, in Python.

What the tokenizers library drops as no character is told by the table of the lower-case rules; marks, which
those rules drop too, stay.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache

from slipway.containers.data.text.unicode_table import CODE, PAD, PUNCTUATION, unicode_table
from slipway.containers.data.text.words import SPACE, WordPieces

_MARKS = "M"


class CasedPieces(WordPieces):
    def words_of(self, text: str) -> Iterator[str]:
        word = ""
        for character in text:
            drops, ends, stands_alone = _treated(character)
            if ends and word:
                yield word
                word = ""
            if stands_alone:
                yield character
            elif not (ends or drops):
                word += character
        if word:
            yield word


@cache
def _treated(character: str) -> tuple[bool, bool, bool]:
    """Return three answers: is it dropped, does it end a word, is it a word by itself."""
    category = unicodedata.category(character)
    items = unicode_table().expand(ord(character))
    is_space = any(item == SPACE for item in items) and category in ("Zs", "Zl", "Zp", "Cc")
    is_word = _stands_alone(character, items, category)
    drops = not items and not category.startswith(_MARKS)
    return drops, is_space or is_word, is_word


def _stands_alone(character: str, items: list[int], category: str) -> bool:
    """Return True for a character that is a word by itself, by the table if it knows it, else by its
    category."""
    if items and items[0] & PAD:
        return True
    if len(items) == 1 and items[0] & CODE == ord(character):
        return bool(items[0] & PUNCTUATION)
    return category.startswith("P")
