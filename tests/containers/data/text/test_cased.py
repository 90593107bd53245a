"""Cased tokens are those of the tokenizers library, whatever the text."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers")

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.containers.data.text.words import chunks_of, words_of
from slipway.containers.data.tokens.engine import SENTENCE_PER_LINE, SPECIAL, TokenSettings, Vocabulary
from slipway.containers.data.tokens.engine_native import NativeEngine
from tests.containers.data.tokens.reference.words import WordPieces, library_tokenizer
from tests.containers.data.tokens.test_tokens import EXAMPLES, LETTERS, interesting

ENTRIES = ("Un", "##aff", "##able", "É", "##É", "Par", "##is", *LETTERS, *LETTERS.upper())
VOCABULARY = Vocabulary(
    entries=tuple(dict.fromkeys([*SPECIAL, *ENTRIES, *("##" + each for each in LETTERS + LETTERS.upper())]))
)


def their_words(text: str) -> list[str]:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    clean = BertNormalizer(lowercase=False).normalize_str(text)
    return [word for word, _ in BertPreTokenizer().pre_tokenize_str(clean)]


LIBRARY = library_tokenizer(VOCABULARY, lowercase=False)
OURS = WordPieces(VOCABULARY, cased=True)
COMPILED = NativeEngine(TokenSettings(phase=1, vocabulary=VOCABULARY, seed=0, duplicates=1, cased=True))


def their_ids(text: str) -> list[int]:
    ids: list[int] = LIBRARY.encode(text, add_special_tokens=False).ids
    return ids


def our_ids(text: str) -> list[int]:
    return [
        number for chunk in chunks_of(text.encode().replace(b"\n", b" ")) for number in OURS.ids_of(chunk)
    ]


def compiled_ids(text: str) -> list[int]:
    COMPILED.clear()
    COMPILED.add(text.encode().replace(b"\n", b" "), SENTENCE_PER_LINE)
    return COMPILED.numbers()[0]


@pytest.mark.parametrize("text", [*EXAMPLES, "Unaffable PARIS in Été"])
def test_words_and_tokens_are_the_librarys(text: str) -> None:
    assert list(words_of(text, cased=True)) == their_words(text)
    assert our_ids(text) == their_ids(text)
    assert compiled_ids(text) == our_ids(text)


def test_nearly_every_code_point_is_treated_as_the_library_does() -> None:
    """The others are a few that Unicode moved to other categories after the library's tables were made."""
    texts = [f"a{character}E" for character in interesting()]
    others = [text for text in texts if list(words_of(text, cased=True)) != their_words(text)]
    assert len(others) <= 4


@settings(max_examples=200)
@given(text=st.text(st.sampled_from([*LETTERS, *LETTERS.upper(), " ", "\t", "É", "\u0301"]), max_size=60))
def test_tokens_of_odd_characters_are_the_librarys(text: str) -> None:
    assert our_ids(text) == their_ids(text)


def test_the_compiled_core_treats_every_code_point_as_python_does() -> None:
    texts = [f"a{character}E" for character in interesting()]
    assert [text for text in texts if compiled_ids(text) != our_ids(text)] == []
