"""The tokens are those of the tokenizers library, whatever the text."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("tokenizers")

from hypothesis import given, settings
from hypothesis import strategies as st

import slipway.containers.data
from slipway.containers.data.errors import DataError
from slipway.containers.data.tokens.engine import (
    SENTENCE_PER_LINE,
    SPECIAL,
    TokenSettings,
    Vocabulary,
)
from slipway.containers.data.tokens.engine_native import NativeEngine
from tests.containers.data.tokens.reference.engine import PythonEngine
from tests.containers.data.tokens.reference.words import library_tokenizer

LETTERS = (
    "abcdefghijklmnopqrstuvwxyzßøłıαβγσжя中文한한。，！—“”‘’…·‑_0123456789.,:;!?'\"()[]#@-$^+<>=|~`&*%/\\{}"
)
PIECES = (
    "the",
    "##ing",
    "un",
    "##aff",
    "##able",
    "new",
    "##s",
    "##e",
    "naive",
    "resume",
    "##σ",
    "中文",
    "[",
    "mask",
)
# Marks that the normaliser sorts; two of one class keep their order.
MARKS = "\u302e\u1b44\u1baa\U0001d16d\U0001d165\U00011446"
SINGLE = LETTERS + MARKS
VOCABULARY = Vocabulary(
    entries=tuple(dict.fromkeys([*SPECIAL, *PIECES, *SINGLE, *("##" + each for each in SINGLE)]))
)
EXAMPLES = (
    "Héllo, naïve RÉSUMÉ! The un­affable\u200b news.",
    "東京は大きい。中文測試 and 한국어 테스트",
    "ﬁne ﬂow Ǆ ǅ İstanbul ΑΣ ΟΔΟΣ ẞ ß",
    "a\u0000b\ufffdc\u0085d\u2028e\u00a0f\u3000g\x0bh\x1ci\tj\rk",
    "[MASK] [CLS] ##ing don't $5.00 «x» ‹y› …",
    "e\u0301\u0323 \u302e\u1b44 x\U0001d16d\u034f\U00011446 \u0958\u0344",
    MARKS + " a" + MARKS[::-1] + " e\u0301" + MARKS * 2,
    "x" * 100 + " " + "x" * 101 + " " + "é" * 100 + " " + "\u302e" * 130,
    "  \t ",
    "",
)


LIBRARY = library_tokenizer(VOCABULARY, lowercase=True)
SETTINGS = TokenSettings(phase=1, vocabulary=VOCABULARY, seed=1, duplicates=1)


@pytest.fixture(scope="module", params=[NativeEngine, PythonEngine])
def engine(request: pytest.FixtureRequest) -> NativeEngine | PythonEngine:
    made: NativeEngine | PythonEngine = request.param(SETTINGS)
    return made


def their_ids(text: str) -> list[int]:
    ids: list[int] = LIBRARY.encode(text, add_special_tokens=False).ids
    return ids


def our_ids(engine: NativeEngine | PythonEngine, text: str) -> list[int]:
    engine.clear()
    engine.add(text.encode(), SENTENCE_PER_LINE)
    return engine.numbers()[0]


def interesting() -> list[str]:
    """List the ends of all ranges that the table treats alike, and their neighbours."""
    with (Path(slipway.containers.data.__file__).parent / "text" / "unicode.csv").open() as file:
        codes = {
            int(row[end], 16) + step
            for row in csv.DictReader(file)
            for end in ("first", "last")
            for step in (-1, 0, 1)
        }
    return [chr(code) for code in sorted(codes) if 0 <= code < 0x110000 and not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize("text", EXAMPLES)
def test_tokens_are_the_librarys(engine: NativeEngine | PythonEngine, text: str) -> None:
    assert our_ids(engine, text) == their_ids(text)


def test_every_code_point_is_treated_as_the_library_does() -> None:
    engine = NativeEngine(SETTINGS)
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for begin in range(0, len(codes), 1 << 13):
        text = " ".join(f"a{chr(code)}e" for code in codes[begin : begin + (1 << 13)])
        assert our_ids(engine, text) == their_ids(text), f"from U+{codes[begin]:04X} on"


CHARACTERS = st.one_of(
    st.sampled_from([*LETTERS.upper(), *LETTERS, *" \n\t"]),
    st.sampled_from(MARKS),
    st.sampled_from(interesting()),
)


@settings(max_examples=400)
@given(text=st.text(CHARACTERS, max_size=60))
def test_tokens_of_odd_characters_are_the_librarys(engine: NativeEngine | PythonEngine, text: str) -> None:
    assert our_ids(engine, text) == their_ids(text)


@settings(max_examples=400)
@given(text=st.text(max_size=80))
def test_tokens_of_any_text_are_the_librarys(engine: NativeEngine | PythonEngine, text: str) -> None:
    assert our_ids(engine, text) == their_ids(text)


def test_chunks_are_the_same_when_they_come_again(engine: NativeEngine | PythonEngine) -> None:
    """The second time they come from memory."""
    text = " ".join(EXAMPLES)
    assert our_ids(engine, f"{text} {text}") == their_ids(f"{text} {text}")


def test_text_cannot_speak_for_the_preparation(engine: NativeEngine | PythonEngine) -> None:
    special = {VOCABULARY.numbers[entry] for entry in SPECIAL if entry != "[UNK]"}
    assert not special & set(our_ids(engine, "[CLS] a [SEP] [MASK][PAD]"))


def test_a_vocabulary_whose_first_word_would_never_be_learned_is_refused() -> None:
    entries = ("the", *SPECIAL, "##s")
    with pytest.raises(DataError, match=r"vocabulary:2 is \[PAD\], and pre-training needs it in line 1"):
        TokenSettings(phase=1, vocabulary=Vocabulary(entries=entries), seed=1, duplicates=1)
