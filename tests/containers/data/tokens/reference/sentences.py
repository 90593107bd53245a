"""Tells where a sentence ends from two neighbouring chunks of a line, as native/text.c does.

The rules are for languages that write blanks and full stops; other text comes one sentence per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.containers.data.tokens.engine import ABBREVIATIONS

OPENERS = re.compile("(?:[\"'(\\[{]|“|‘)*".encode())
CLOSERS = re.compile("(?:[\"')\\]}]|”|’)*\\Z".encode())
ENDS = (b"!", b"?", "…".encode())
INITIALS = re.compile(rb"[A-Za-z](?:\.[A-Za-z])*")
KNOWN = frozenset(word.encode() for word in ABBREVIATIONS)
CANNOT_BEGIN = frozenset(b"abcdefghijklmnopqrstuvwxyz,;:-)]}.!?")


def sentences_of(chunks: list[bytes]) -> Iterator[list[bytes]]:
    begin = 0
    for at in range(1, len(chunks)):
        if begins_sentence(chunks[at]) and ends_sentence(chunks[at - 1]):
            yield chunks[begin:at]
            begin = at
    yield chunks[begin:]


def ends_sentence(chunk: bytes) -> bool:
    chunk = _without_closers(chunk)
    if chunk.endswith(ENDS):
        return True
    if not chunk.endswith(b"."):
        return False
    word = chunk[_length_of_openers(chunk[:-1]) : -1]
    return word not in KNOWN and not INITIALS.fullmatch(word)


def begins_sentence(chunk: bytes) -> bool:
    rest = chunk[_length_of_openers(chunk) :]
    return bool(rest) and rest[0] not in CANNOT_BEGIN


def _length_of_openers(chunk: bytes) -> int:
    found = OPENERS.match(chunk)
    return found.end() if found else 0


def _without_closers(chunk: bytes) -> bytes:
    found = CLOSERS.search(chunk)
    return chunk[: found.start()] if found else chunk
