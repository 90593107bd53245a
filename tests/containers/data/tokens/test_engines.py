"""The compiled core makes the same rows as its reference in Python, and neither fails on any text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.containers.data.tokens.engine import (
    LONGEST_SENTENCE_TOKENS,
    SPECIAL,
    TAGGED,
    RowBlock,
    TokenSettings,
    Vocabulary,
)
from slipway.containers.data.tokens.engine_native import NativeEngine
from tests.containers.data.tokens.reference.engine import PythonEngine

LETTERS = "abcdefghijklmnopqrstuvwxyz.,!?"
VOCABULARY = Vocabulary(entries=(*SPECIAL, *LETTERS, *("##" + letter for letter in LETTERS), "the", "##ing"))
WORDS = [
    "The",
    "the",
    "ring",
    "a.",
    "Mr.",
    "J.",
    "U.S.",
    "end.",
    'end!"',
    "(Why?)",
    "…",
    "3.5",
    "“Yes.”",
    "\n",
    "\n\n",
    "x" * 70,
]


def rows_of(
    engine: NativeEngine | PythonEngine, options: TokenSettings, text: bytes, style: int
) -> tuple[object, dict[str, list[object]]]:
    engine.clear()
    engine.add(text, style)
    count = engine.pair(99)
    block = RowBlock(count, options.row_tokens, options.predictions)
    engine.fill(0, count, block, 0)
    return (engine.numbers(), engine.counts()), {key: array.tolist() for key, array in block.arrays.items()}


def both(text: bytes, style: int = 0, phase: int = 1) -> dict[str, list[object]]:
    options = TokenSettings(phase=phase, vocabulary=VOCABULARY, seed=1, duplicates=2)
    native, python = (rows_of(make(options), options, text, style) for make in (NativeEngine, PythonEngine))
    assert native == python
    return native[1]


@settings(max_examples=150)
@given(
    words=st.lists(st.sampled_from(WORDS), max_size=300),
    style=st.sampled_from([0, 1, TAGGED]),
    phase=st.sampled_from([1, 2]),
)
def test_both_make_the_same_rows_of_sentences(words: list[str], style: int, phase: int) -> None:
    both(" ".join(words).encode(), style, phase)


@settings(max_examples=300)
@given(data=st.binary(max_size=400), style=st.sampled_from([0, 1, TAGGED]))
def test_both_make_the_same_of_random_bytes(data: bytes, style: int) -> None:
    both(data.decode("utf-8", "ignore").encode(), style)


@settings(max_examples=100)
@given(text=st.text(st.sampled_from("aZ.!?\"')]}([{“”‘’… \n\r\t,;:-"), max_size=200))
def test_both_end_sentences_at_the_same_places(text: str) -> None:
    both(text.encode())


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("It ends. It begins.", 2),
        ("Mr. Smith met J. Doe of the U.S. Army.", 1),
        ('He said "Go." Then he left!', 2),
        ("About 3.5 m. of it", 1),
        ("What? (Yes.) Good", 3),
        ("“End.” “Begin”", 2),
        ("See No. 5 of it", 1),
        ("lower. case", 1),
    ],
)
def test_a_line_falls_into_its_sentences(line: str, sentences: int) -> None:
    engine = NativeEngine(TokenSettings(phase=1, vocabulary=VOCABULARY, seed=1, duplicates=1))
    engine.add(line.encode(), 0)
    assert engine.counts().sentences == sentences


def test_tagged_articles_are_documents_and_their_blank_lines_are_not() -> None:
    engine = NativeEngine(TokenSettings(phase=1, vocabulary=VOCABULARY, seed=1, duplicates=1))
    engine.add(b'<doc id="1">\nOne.\n\nTwo.\n</doc>\n<doc id="2">\nThree.\n</doc>\n', TAGGED)
    assert engine.numbers()[2] == [2, 3]


def test_text_without_a_full_stop_still_makes_rows() -> None:
    rows = both(b"word " * 20_000)
    assert len(rows["input_ids"]) > 10
    engine = NativeEngine(TokenSettings(phase=1, vocabulary=VOCABULARY, seed=1, duplicates=1))
    engine.add(b"word " * 20_000, 0)
    assert max(np.diff(engine.numbers()[1])) <= LONGEST_SENTENCE_TOKENS


def test_one_sentence_alone_makes_no_row() -> None:
    assert both(b"Only one.")["input_ids"] == []


def test_a_lone_document_stands_in_for_the_other() -> None:
    rows = both(b"One here. Two here. Three here. Four here.")
    assert rows["input_ids"]
