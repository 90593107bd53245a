"""Wrap the compiled core in a class that turns documents into rows of token ids.

The structures repeat native/core.h field by field. Tests compare its rows with a Python version, bit for bit.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

from slipway.containers.data.text.words import cased_table, unicode_table
from slipway.containers.data.tokens.compiled import library
from slipway.containers.data.tokens.engine import (
    ABBREVIATIONS,
    CLS,
    KEPT_SHARE,
    LONGEST_ROW_TOKENS,
    LONGEST_SENTENCE_TOKENS,
    MASK,
    PAD,
    REPLACED_SHARE,
    SEP,
    SHORT_SHARE,
    UNKNOWN,
    Counts,
    RowBlock,
    TokenSettings,
    Vocabulary,
    threshold,
)

NUMBERS = (0, 1, 2)  # select an array of the core: tokens, ends of sentences, ends of documents


class CLanguage(Structure):
    _fields_ = (
        ("entries", c_void_p),
        ("items", c_void_p),
        ("vocabulary", c_char_p),
        ("starts", c_void_p),
        ("vocabulary_size", c_uint32),
        ("unknown", c_uint32),
        ("abbreviations", c_void_p),
        ("abbreviation_count", c_uint32),
        ("longest_sentence", c_uint32),
    )


class CSettings(Structure):
    _fields_ = (
        ("stream", c_uint64),
        ("is_short", c_uint64),
        ("is_masked", c_uint64),
        ("is_masked_or_kept", c_uint64),
        ("row", c_uint32),
        ("predictions", c_uint32),
        ("duplicates", c_uint32),
        ("vocabulary_size", c_uint32),
        ("pad", c_uint32),
        ("cls", c_uint32),
        ("sep", c_uint32),
        ("mask", c_uint32),
        ("masked_of_length", c_void_p),
    )


class CRows(Structure):
    _fields_ = tuple(
        (name, c_void_p) for name in ("ids", "mask", "segments", "positions", "masked", "labels")
    )


class NativeEngine:
    """Hold the C core, and keep every array alive that the core points to."""

    def __init__(self, settings: TokenSettings) -> None:
        assert settings.row_tokens <= LONGEST_ROW_TOKENS
        self._library = _typed(library())
        self._settings = settings
        self._masked = np.array(settings.masked_of_length(), dtype=np.uint16)
        self._c_settings = _c_settings(settings, self._masked)
        self._language, self._kept_alive = _language(settings.vocabulary, cased=settings.cased)
        self._core = self._library.core_open(byref(self._language))
        if not self._core:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_core", None):
            self._library.core_close(self._core)

    def add(self, text: bytes, style: int) -> None:
        """Add whole documents, in strict UTF-8."""
        if self._library.core_add(self._core, text, len(text), style):
            raise MemoryError

    def counts(self) -> Counts:
        tokens, sentences, documents = (self._array(which) for which in NUMBERS)
        unknown = int(np.count_nonzero(tokens == self._language.unknown))
        return Counts(documents=len(documents), sentences=len(sentences), tokens=len(tokens), unknown=unknown)

    def numbers(self) -> tuple[list[int], list[int], list[int]]:
        """Return token ids, where sentences end among them, and where documents end among the sentences."""
        tokens, sentences, documents = (self._array(which).tolist() for which in NUMBERS)
        return tokens, sentences, documents

    def pair(self, stream: int) -> int:
        """Make pairs of all that was added and return how many; order and masks depend on `stream`."""
        self._c_settings.stream = stream
        count = int(self._library.core_pair(self._core, byref(self._c_settings)))
        if count < 0:
            raise MemoryError
        return count

    def fill(self, start: int, count: int, block: RowBlock, at: int) -> None:
        assert (block.row_tokens, block.predictions) == (
            self._settings.row_tokens,
            self._settings.predictions,
        )
        assert at + count <= block.rows
        rows = CRows(*(array.ctypes.data for array in block.arrays.values()))
        self._library.core_fill(self._core, byref(self._c_settings), start, count, byref(rows), at)

    def clear(self) -> None:
        self._library.core_clear(self._core)

    def _array(self, which: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """Return a view of the core's memory, which is valid until the next call of the core."""
        count = c_size_t()
        address = self._library.core_numbers(self._core, which, byref(count))
        if not count.value:
            return np.zeros(0, np.uint32)
        return np.ctypeslib.as_array(ctypes.cast(address, POINTER(c_uint32)), (count.value,))


def _typed(loaded: ctypes.CDLL) -> ctypes.CDLL:
    pointer, size = c_void_p, c_size_t
    signatures = {
        "core_open": (pointer, [POINTER(CLanguage)]),
        "core_close": (None, [pointer]),
        "core_add": (c_int, [pointer, c_char_p, size, c_int]),
        "core_clear": (None, [pointer]),
        "core_numbers": (pointer, [pointer, c_int, POINTER(size)]),
        "core_pair": (c_int64, [pointer, POINTER(CSettings)]),
        "core_fill": (None, [pointer, POINTER(CSettings), size, size, POINTER(CRows), size]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _c_settings(settings: TokenSettings, masked: np.ndarray[tuple[int], np.dtype[np.uint16]]) -> CSettings:
    numbers = settings.vocabulary.numbers
    return CSettings(
        is_short=threshold(SHORT_SHARE),
        is_masked=threshold(REPLACED_SHARE),
        is_masked_or_kept=threshold(REPLACED_SHARE + KEPT_SHARE),
        row=settings.row_tokens,
        predictions=settings.predictions,
        duplicates=settings.duplicates,
        vocabulary_size=len(numbers),
        pad=numbers[PAD],
        cls=numbers[CLS],
        sep=numbers[SEP],
        mask=numbers[MASK],
        masked_of_length=masked.ctypes.data,
    )


def _language(vocabulary: Vocabulary, *, cased: bool) -> tuple[CLanguage, tuple[object, ...]]:
    table = cased_table() if cased else unicode_table()
    encoded = [entry.encode() for entry in vocabulary.entries]
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.uint32)
    joined = b"".join(encoded)
    abbreviations = np.array(ABBREVIATIONS, dtype="S8").view(np.uint64)
    language = CLanguage(
        entries=table.entries.ctypes.data,
        items=table.items.ctypes.data,
        vocabulary=joined,
        starts=starts.ctypes.data,
        vocabulary_size=len(encoded),
        unknown=vocabulary.numbers[UNKNOWN],
        abbreviations=abbreviations.ctypes.data,
        abbreviation_count=len(abbreviations),
        longest_sentence=LONGEST_SENTENCE_TOKENS,
    )
    return language, (table, starts, joined, abbreviations)
