"""Text -> words, for training a vocabulary; tokens/native/words.c splits them into a vocabulary's pieces.

The rules are those of the tokenizers library's BertNormalizer and BertPreTokenizer. A "[MASK]" in the text is
three words and no mark: text cannot speak for the preparation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.containers.data.text.cased import cased_table
from slipway.containers.data.text.unicode_table import (
    CLASS_SHIFT,
    CODE,
    PAD,
    PUNCTUATION,
    SPACE,
    unicode_table,
)

LONGEST_WORD_CHARACTERS = 100
_CHUNK = re.compile(rb"[^ \t\r\n]+")


def chunks_of(line: bytes) -> list[bytes]:
    return _CHUNK.findall(line)


def words_of(text: str, *, cased: bool) -> Iterator[str]:
    """Yield what the normaliser and the splitter leave of a text, word by word."""
    table = cased_table() if cased else unicode_table()
    word: list[int] = []
    waiting: list[int] = []  # marks, until the next character of class 0
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
        elif code not in (SPACE, 0):  # 0: a dropped mark that held others apart
            word.append(code)
    word += _in_order(waiting)
    if word:
        yield _spelled(word)


def _in_order(waiting: list[int]) -> list[int]:
    ordered = [item & CODE for item in sorted(waiting, key=lambda item: item >> CLASS_SHIFT & 0xFF)]
    waiting.clear()
    return ordered


def _spelled(word: list[int]) -> str:
    spelled = "".join(map(chr, word))
    word.clear()
    return spelled
