"""Byte-pair encoding: read a BPE vocabulary, and turn texts into ids with the fastest library that can.

All engines give the same ids. To add one, add a row to ENGINES, fastest first: a class that takes the bytes
of a tokenizer.json, raises CannotOpen if it cannot use them, and has `encode`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import Ids
from slipway.containers.runtime.named_files import UnusableFile, read_bytes

if TYPE_CHECKING:
    import gigatoken
    import tokenizers


# gigatoken remembers every word. If nearly all are new, that takes ten bytes of memory per byte of text.
MOST_REMEMBERED_BYTES = 512 << 20
_STATM = Path("/proc/self/statm")  # the second number counts resident pages: proc(5)


class BpeEngine(Protocol):
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text."""


class CannotOpen(Exception):
    """The library is not installed, or cannot read this kind of vocabulary."""


class GigatokenEngine:
    """Encode with gigatoken; open it again when the words that it remembers take too much memory."""

    def __init__(self, content: bytes, most_bytes: int = MOST_REMEMBERED_BYTES) -> None:
        self._content, self._most_bytes = content, most_bytes
        self._open()

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        if resident_bytes() > self._limit:
            del self._tokenizer
            self._open()
        # One by one: batches need the library awkward, and to import it takes longer than a small corpus.
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
            raise CannotOpen(f"gigatoken cannot read it: {str(error).splitlines()[0]}") from None
        self._limit = resident_bytes() + self._most_bytes


class TokenizersEngine:
    """Encode with Hugging Face's tokenizers."""

    def __init__(self, content: bytes) -> None:
        # There is a worker per processor, and the library would start as many threads in each worker.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise CannotOpen(f"there is no Python package {error.name}") from None
        try:
            self._tokenizer: tokenizers.Tokenizer = Tokenizer.from_str(content.decode())
        except Exception as error:  # noqa: BLE001  # the library raises nothing narrower
            raise CannotOpen(f"tokenizers cannot read it: {str(error).splitlines()[0]}") from None

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.uint32) for encoding in found]


ENGINES: Mapping[str, Callable[[bytes], BpeEngine]] = {
    "gigatoken": GigatokenEngine,
    "tokenizers": TokenizersEngine,
}


def best_engine(vocabulary: BpeVocabulary) -> tuple[str, str]:
    """Return the first engine that opens the vocabulary, and why those before it did not ("" if none)."""
    reasons: list[str] = []
    for name in ENGINES:
        try:
            open_engine(name, vocabulary.json)
        except CannotOpen as error:
            reasons.append(str(error))
        else:
            return name, "; ".join(reasons)
    raise DataError(f"no engine reads {vocabulary.name}: {'; '.join(reasons)}", hint=HINT)


@lru_cache(maxsize=1)
def open_engine(name: str, content: bytes) -> BpeEngine:
    """Open an engine on a tokenizer.json, once in each process."""
    return ENGINES[name](content)


def resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# A BPE vocabulary is a tokenizer.json, as Pythia and GPT-NeoX publish it, or GPT-2's vocabulary and merges.
# Further file names are entries of JSONS and PAIRS.
JSONS = ("tokenizer.json", "20B_tokenizer.json")
# GPT-2's two files as named by transformers, OpenAI and Megatron-LM.
PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"), ("gpt2-vocab.json", "gpt2-merges.txt"))
MOST_BYTES = 64 << 20  # Pythia's vocabulary has 2 MB
END_OF_DOCUMENT = "<|endoftext|>"
HINT = "give a tokenizer.json, or a folder with one or with GPT-2's vocab.json and merges.txt"
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class BpeVocabulary:
    """Hold a tokenizer.json, and the facts of it that decide the token files."""

    name: str
    json: bytes = field(repr=False)
    size: int  # the largest id plus one
    # The ids of added tokens, such as the end of a document: no merge makes them.
    added: Mapping[str, int] = field(repr=False)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.json).hexdigest()

    def id_of(self, token: str) -> int:
        if token not in self.added:
            known = ", ".join(sorted(self.added)[:8]) or "none"
            raise DataError(
                f"{self.name} has no token {token!r} to end a document with",
                hint=f"set end_of_document to none or to a token of the vocabulary: {known}",
            )
        return self.added[token]


def read_bpe_vocabulary(path: Path) -> BpeVocabulary:
    """Read the vocabulary of a file or folder."""
    if path.is_dir():
        names = [entry.name for entry in path.iterdir()]
        return find_bpe_vocabulary(str(path), names, lambda name: _read(path / name))
    return find_bpe_vocabulary(str(path), [path.name], lambda _: _read(path))


def find_bpe_vocabulary(place: str, names: Collection[str], read: Callable[[str], bytes]) -> BpeVocabulary:
    """Find the vocabulary among files of these names; a lone file is taken for a tokenizer.json."""
    if len(names) == 1:
        (name,) = names
        return parse_bpe_vocabulary(place, read(name))
    for name in JSONS:
        if name in names:
            return parse_bpe_vocabulary(f"{place}/{name}", read(name))
    for vocab, merges in PAIRS:
        if vocab in names and merges in names:
            content = _joined(f"{place}/{vocab}", read(vocab), read(merges))
            return parse_bpe_vocabulary(f"{place}/{vocab}", content)
    raise DataError(f"{place} holds no BPE vocabulary among {len(names)} files", hint=HINT)


def parse_bpe_vocabulary(name: str, content: bytes) -> BpeVocabulary:
    """Parse a tokenizer.json; `name` is its path or address, for messages."""
    found = _object(name, content)
    model = found.get("model")
    kind, entries = (model.get("type"), model.get("vocab")) if isinstance(model, dict) else (None, None)
    has_ids = isinstance(entries, dict) and all(type(number) is int for number in entries.values())
    if kind != "BPE" or not isinstance(entries, dict) or not has_ids:
        raise DataError(f"{name} is not a BPE vocabulary: its model is {kind or 'missing'}", hint=HINT)
    try:
        added = {str(entry["content"]): int(entry["id"]) for entry in found.get("added_tokens") or []}
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DataError(
            f"{name}: added_tokens must be a list of objects with content and id", hint=HINT
        ) from None
    return BpeVocabulary(
        name=name,
        json=content,
        size=max([*entries.values(), *added.values()], default=-1) + 1,
        added=added,
    )


def _joined(name: str, vocabulary: bytes, merges: bytes) -> bytes:
    """Return the tokenizer.json that transformers would make of GPT-2's two files."""
    entries = _object(name, vocabulary)
    lines = [line for line in merges.decode("utf-8", "replace").split("\n") if line]
    if lines and lines[0].startswith("#version"):
        del lines[0]
    if END_OF_DOCUMENT not in entries:
        raise DataError(f"{name} is not GPT-2's vocabulary: it has no {END_OF_DOCUMENT}", hint=HINT)
    end = {"id": entries[END_OF_DOCUMENT], "content": END_OF_DOCUMENT, "special": True}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content = {
        "version": "1.0",
        "added_tokens": [{**end, **plain}],
        "pre_tokenizer": _BYTE_LEVEL,
        "decoder": _BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": entries, "merges": lines},
    }
    return json.dumps(content, ensure_ascii=False).encode()


def _object(name: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(f"{name} is not JSON", hint=HINT) from None
    if not isinstance(found, dict):
        raise DataError(f"{name} is not a JSON object", hint=HINT)
    return found


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST_BYTES)
    except UnusableFile as error:
        raise DataError(f"the vocabulary {error.message}", hint=HINT) from error
