"""Both libraries give the same ids for any text; a vocabulary that neither knows is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("gigatoken", reason="the extra 'training' is not installed")
pytest.importorskip("tokenizers", reason="the extra 'training' is not installed")

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.engines import (
    ENGINES,
    GigatokenEngine,
    TokenizersEngine,
    best_engine,
    parse_bpe_vocabulary,
    read_bpe_vocabulary,
)
from tests.containers.data.megatron.vocabularies import END, gpt2, neox

# Text that splits or folds in unusual ways: contractions, runs of blanks, what NFC joins, other scripts,
# joined emoji, control characters, and the token that ends a document.
PIECES = (
    "the quick",
    "  ",
    "\t",
    "\n\n",
    " " * 30,
    "it's",
    "WE'LL",
    "1984",
    "½",
    "e\u0301",
    "\u1100\u1161",
    "東京",
    "\u0627\u0644",
    "👩\u200d💻",
    "\x00",
    "\u3000",
    "\u00a0",
    "ſ",
    "...",
    END,
    "<|end",
    "x" * 300,
)


@pytest.mark.parametrize("vocabulary", [gpt2, neox])
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12).map("".join))
@settings(deadline=None, max_examples=50)
def test_both_libraries_give_the_same_ids(vocabulary: object, text: str) -> None:
    assert callable(vocabulary)
    content = vocabulary().encode()
    fast, slow = (_opened(name, content).encode([text])[0] for name in ENGINES)
    assert fast.tolist() == slow.tolist()


_OPEN: dict[tuple[str, bytes], object] = {}


def _opened(name: str, content: bytes) -> GigatokenEngine | TokenizersEngine:
    engine = _OPEN.setdefault((name, content), ENGINES[name](content))
    assert isinstance(engine, GigatokenEngine | TokenizersEngine)
    return engine


def test_what_is_remembered_is_dropped_and_changes_nothing() -> None:
    texts = ["the quick brown fox", "東京"] * 3
    forgetful, other = GigatokenEngine(gpt2().encode(), most_bytes=0), GigatokenEngine(gpt2().encode())
    ballast = np.ones(4 << 20, np.uint8)  # so that the process has grown since the engine opened
    before = forgetful._tokenizer
    assert [ids.tolist() for ids in forgetful.encode(texts)] == [ids.tolist() for ids in other.encode(texts)]
    assert forgetful._tokenizer is not before
    assert ballast.all()


def test_images_need_gigatoken_alone() -> None:
    """Encode without the packages that it asks for and that container images leave out."""
    program = (
        "import sys; sys.modules.update(awkward=None, typer=None); "
        "from slipway.containers.data.megatron.engines import GigatokenEngine; "
        "print(len(GigatokenEngine(sys.stdin.buffer.read()).encode(['the quick'])[0]))"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, input=gpt2(), capture_output=True, text=True, check=False)
    assert ended.stdout.strip().isdigit(), ended.stderr


def test_a_library_that_is_missing_costs_time_and_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gigatoken", None)
    vocabulary = parse_bpe_vocabulary("here", gpt2(321).encode())
    assert best_engine(vocabulary) == ("tokenizers", "there is no Python package gigatoken")


def test_a_vocabulary_that_no_library_knows_is_refused() -> None:
    broken = json.loads(gpt2())
    broken["pre_tokenizer"] = {"type": "Unheard"}
    vocabulary = parse_bpe_vocabulary("mine/tokenizer.json", json.dumps(broken).encode())
    with pytest.raises(
        DataError, match=r"no engine reads mine/tokenizer.json: gigatoken cannot read it: .*; tokenizers"
    ):
        best_engine(vocabulary)


def test_gpt2s_two_files_are_the_vocabulary_that_one_file_is(tmp_path: Path) -> None:
    model = json.loads(gpt2())["model"]
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"]), ""]
    (tmp_path / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    pair, one = read_bpe_vocabulary(tmp_path), parse_bpe_vocabulary("one", gpt2().encode())
    assert (pair.size, pair.id_of(END)) == (one.size, one.id_of(END)) == (320, 0)
    text = f"the quick brown fox{END}  it's 東京"
    for name in ENGINES:
        assert (
            _opened(name, pair.json).encode([text])[0].tolist()
            == _opened(name, one.json).encode([text])[0].tolist()
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[PAD]\n[UNK]\n", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"{}", "its model is missing"),
        (b'{"model": {"type": "WordPiece", "vocab": {}}}', "its model is WordPiece"),
        (b'{"model": {"type": "BPE", "vocab": {"a": "b"}}}', "is not a BPE vocabulary"),
    ],
)
def test_what_is_no_bpe_vocabulary_is_refused_by_name(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"mine/vocab.txt .*{message}"):
        parse_bpe_vocabulary("mine/vocab.txt", content)


def test_a_folder_without_a_vocabulary_and_a_token_that_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    with pytest.raises(DataError, match=r"holds no BPE vocabulary among 2 files; give a tokenizer\.json"):
        read_bpe_vocabulary(tmp_path)
    with pytest.raises(
        DataError, match=r"has no token '</s>' .* to a token of the vocabulary: <\|endoftext\|>"
    ):
        parse_bpe_vocabulary("here", gpt2().encode()).id_of("</s>")
