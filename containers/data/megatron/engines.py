"""What turns texts into ids: gigatoken where it knows the vocabulary, else tokenizers; the ids are the same.

A third is a class with `encode`, and a row of ENGINES; the first that opens is taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import Ids
from slipway.containers.data.megatron.vocabulary import HINT, BpeVocabulary

if TYPE_CHECKING:
    import gigatoken
    import tokenizers

# gigatoken remembers every word it met; text of random letters takes ten bytes for each of its own.
MOST_REMEMBERED_BYTES = 512 << 20
_STATM = Path("/proc/self/statm")  # proc(5): its second number counts resident pages


class BpeEngine(Protocol):
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text."""


class CannotOpen(Exception):
    """The library is not installed, or does not know this kind of vocabulary."""


class GigatokenEngine:
    """Encode with gigatoken; what it remembers is dropped when it grows large."""

    def __init__(self, content: bytes, most_bytes: int = MOST_REMEMBERED_BYTES) -> None:
        self._content, self._most_bytes = content, most_bytes
        self._open()

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        if resident_bytes() > self._limit:
            del self._tokenizer
            self._open()
        # One by one: its batches are arrays of awkward, whose import takes as long as encoding some corpora.
        encode = self._tokenizer.encode
        return [encode(text) for text in texts]

    def _open(self) -> None:
        try:
            from gigatoken import Tokenizer
        except ImportError as error:
            raise CannotOpen(f"there is no Python package {error.name}") from None
        try:
            self._tokenizer: gigatoken.Tokenizer = Tokenizer.from_json(self._content)
        except RuntimeError as error:
            raise CannotOpen(f"gigatoken cannot: {str(error).splitlines()[0]}") from None
        self._limit = resident_bytes() + self._most_bytes


class TokenizersEngine:
    """Encode with Hugging Face's tokenizers."""

    def __init__(self, content: bytes) -> None:
        # Each worker has a processor; the library would start threads for all of them in each.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise CannotOpen(f"there is no Python package {error.name}") from None
        try:
            self._tokenizer: tokenizers.Tokenizer = Tokenizer.from_str(content.decode())
        except Exception as error:  # noqa: BLE001  # the library raises nothing narrower
            raise CannotOpen(f"tokenizers cannot: {str(error).splitlines()[0]}") from None

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.uint32) for encoding in found]


ENGINES: Mapping[str, Callable[[bytes], BpeEngine]] = {
    "gigatoken": GigatokenEngine,
    "tokenizers": TokenizersEngine,
}


def best_engine(vocabulary: BpeVocabulary) -> tuple[str, str]:
    """Return the fastest engine that knows the vocabulary, and why it is not the first one, if so."""
    reasons: list[str] = []
    for name in ENGINES:
        try:
            open_engine(name, vocabulary.json)
        except CannotOpen as error:
            reasons.append(str(error))
        else:
            return name, "; ".join(reasons)
    raise DataError(f"nothing here reads {vocabulary.name}: {'; '.join(reasons)}", hint=HINT)


@lru_cache(maxsize=1)
def open_engine(name: str, content: bytes) -> BpeEngine:
    """Open an engine on a tokenizer.json, once in each process."""
    return ENGINES[name](content)


def resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
