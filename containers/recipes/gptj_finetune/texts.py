"""Texts as rows of tokens: a sentence and the word for its mood, or documents cut every so many tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.corpus.parts import parts_of
from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import TASKS, Split
from slipway.containers.data.glue.texts import Texts, read_texts
from slipway.containers.data.megatron.engines import BpeEngine, best_engine, open_engine
from slipway.containers.data.megatron.texts import texts_of
from slipway.containers.data.megatron.vocabulary import END_OF_DOCUMENT, BpeVocabulary
from slipway.containers.data.sources.inputs import open_source
from slipway.containers.data.sources.locations import public
from slipway.containers.recipes.gptj_finetune.batch import Rows
from slipway.containers.recipes.gptj_finetune.rows import TokenRows

SST2 = TASKS["sst2"]
PROMPT = " Sentiment:"  # stands behind the sentence
LABEL_WORDS = (" negative", " positive")  # by SST-2's labels
_AT_ONCE = 1024  # texts


class Tokeniser:
    """Turn texts into ids by the vocabulary of a model."""

    def __init__(self, vocabulary: BpeVocabulary) -> None:
        self.vocabulary = vocabulary
        name, _ = best_engine(vocabulary)
        self._engine: BpeEngine = open_engine(name, vocabulary.json)

    def each(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        found = (
            ids
            for at in range(0, len(texts), _AT_ONCE)
            for ids in self._engine.encode(texts[at : at + _AT_ONCE])
        )
        return [np.asarray(ids, dtype=np.int32) for ids in found]


def read_sentences(place: str, split: Split, account: str | None) -> Texts:
    return read_texts(place, SST2, split, bucket_owner=account)


def labelled_rows(texts: Texts, tokeniser: Tokeniser, length: int, *, loss_on: str) -> TokenRows:
    """Return a row for each sentence, with the word for its own label."""
    answers = tokeniser.each(LABEL_WORDS)
    pairs = zip(_prompts(texts, tokeniser, length), map(int, texts.labels), strict=True)
    rows = [(prompt, answers[label]) for prompt, label in pairs]
    return _joined(rows, from_start=loss_on == "row")


def candidate_rows(texts: Texts, tokeniser: Tokeniser, length: int) -> TokenRows:
    """Return two rows for each sentence, one after the other: with the word for either label."""
    answers = tokeniser.each(LABEL_WORDS)
    rows = [(prompt, answer) for prompt in _prompts(texts, tokeniser, length) for answer in answers]
    return _joined(rows, from_start=False)


def _prompts(texts: Texts, tokeniser: Tokeniser, length: int) -> Iterator[NDArray[np.int32]]:
    """Yield sentences, cut so that all of a row fits, with what asks for their label."""
    (prompt,) = tokeniser.each([PROMPT])
    room = length + 1 - len(prompt) - max(map(len, tokeniser.each(LABEL_WORDS)))
    if room < 1:
        raise DataError(
            f"length={length} leaves no room for a sentence before {PROMPT!r} and a label",
            hint=f"set length to {length - room + 2} or more",
        )
    for ids in tokeniser.each([text.strip() for text in texts.first]):
        yield np.concatenate((ids[:room], prompt))


def _joined(rows: Sequence[tuple[NDArray[np.int32], NDArray[np.int32]]], *, from_start: bool) -> TokenRows:
    ends = np.cumsum([len(prompt) + len(answer) for prompt, answer in rows], dtype=np.int64)
    prompts = np.array([len(prompt) for prompt, _ in rows], dtype=np.int64)
    return TokenRows(
        ids=np.concatenate([part for row in rows for part in row]),
        begins=np.concatenate((np.zeros(1, np.int64), ends[:-1])),
        ends=ends,
        firsts=np.ones_like(prompts) if from_start else prompts,
    )


def text_rows(place: str, tokeniser: Tokeniser, length: int, *, field: str, account: str | None) -> TokenRows:
    """Return rows of a folder of texts or JSON lines: documents end to end, cut at every `length` tokens."""
    end = np.array([tokeniser.vocabulary.id_of(END_OF_DOCUMENT)], dtype=np.int32)
    source = open_source(place, bucket_owner=account)
    parts: list[NDArray[np.int32]] = []
    for part in parts_of(source):
        for piece in part:
            for ids in tokeniser.each(list(texts_of(source, piece, field))):
                parts += (ids, end)
    ids = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    count = (len(ids) - 1) // length
    if count < 1:
        raise DataError(
            f"{public(place)} has {len(ids)} tokens, and a row has {length + 1}",
            hint="give more text, or set a smaller length",
        )
    begins: Rows = np.arange(count, dtype=np.int64) * length
    return TokenRows(ids=ids, begins=begins, ends=begins + length + 1, firsts=np.ones_like(begins))


def digest_of(rows: TokenRows) -> str:
    """Return what tells these rows from others."""
    running = hashlib.sha256()
    for array in (rows.ids, rows.begins, rows.ends, rows.firsts):
        running.update(np.ascontiguousarray(array).tobytes())
    return running.hexdigest()
