"""One rank or several make JSON lines Megatron's two files; only what is lost is made again."""

from __future__ import annotations

import bz2
import json
import resource
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gigatoken", reason="the extra 'training' is not installed")
pytest.importorskip("tokenizers", reason="the extra 'training' is not installed")

import tokenizers

from slipway.containers.data.corpus.parts import parts_of
from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import TokenIndex
from slipway.containers.data.megatron.work import TokenWork, make_tokens, merge_tokens
from slipway.containers.data.preparation import MADE
from slipway.containers.data.sources.sources import local_source
from slipway.containers.data.text.documents import read_json
from slipway.containers.recipes.prepare_tokens.config import decode_arguments
from slipway.containers.training.settings import InvalidSettings
from tests.containers.data.megatron.reference import read_documents
from tests.containers.data.megatron.vocabularies import END, gpt2
from tests.containers.recipes.ranks import run_ranks

run = partial(run_ranks, "slipway.containers.recipes.prepare_tokens.train")
PARTS = 5
TEXTS = [
    f"the quick brown fox {number}\n\n  jumps over 東京 it's" * (1 + number % 7) for number in range(120)
]


def lay(data: Path, texts: list[str]) -> None:
    data.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
    (data / "text.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (data / "tokenizer.json").write_text(gpt2(), encoding="utf-8")


def expected(texts: list[str]) -> list[list[int]]:
    """Encode documents one by one with tokenizers, and end each that is not empty with the end token."""
    tokenizer = tokenizers.Tokenizer.from_str(gpt2())
    (end,) = tokenizer.encode(END).ids
    return [[*tokenizer.encode(text).ids, end] for text in texts if text]


def files(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (data / "tokens").glob("tokens.*")}


@pytest.fixture
def work(tmp_path: Path) -> TokenWork:
    """Prepare the same in this process, where a single part can be made or lost."""
    lay(tmp_path, [*TEXTS, ""])
    folder = tmp_path / "tokens"
    (folder / MADE).mkdir(parents=True)
    (folder / "tokenizer.json").write_text(gpt2(), encoding="utf-8")
    source = local_source(tmp_path / "text.jsonl")
    return TokenWork(
        source=source,
        folder=folder,
        parts=tuple(parts_of(source, PARTS)),
        field="text",
        vocabulary="0" * 64,
        vocabulary_size=320,
        end_of_document=0,
        engine="gigatoken",
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("alone")
    lay(data, [*TEXTS, ""])
    (ended,) = run(data, 1, "input=text.jsonl", "parts=2")
    assert ended.returncode == 0, ended.stderr
    assert "120 documents" in ended.stdout
    assert "1 documents are empty" in ended.stdout
    return data


def test_the_reference_reads_the_ids_that_tokenizers_gives(alone: Path) -> None:
    assert read_documents(alone / "tokens" / "tokens") == expected(TEXTS)


def test_an_array_of_jobs_with_several_ranks_makes_the_same_bytes(alone: Path, tmp_path: Path) -> None:
    lay(tmp_path, [*TEXTS, ""])
    settings = ("input=text.jsonl", "parts=3")
    first = run(tmp_path, 2, *settings, "share=0/2")
    assert [ended.returncode for ended in first] == [0, 0], first
    assert "2 of 3 parts are made; the array's last job merges them" in first[0].stdout
    (last,) = run(tmp_path, 1, *settings, "share=1/2")
    assert last.returncode == 0, last.stderr
    assert files(tmp_path) == files(alone)
    assert [path.name for path in (tmp_path / "tokens" / MADE).iterdir() if path.name != "merge.lock"] == [
        "plan.json"
    ]
    (again,) = run(tmp_path, 1, *settings)
    assert "made before" in again.stdout


def test_a_part_that_was_lost_is_made_again_and_no_other(work: TokenWork) -> None:
    for number in range(PARTS):
        make_tokens(work, number)
    lost = work.folder / MADE / "part-00003.bin"
    lost.write_bytes(lost.read_bytes()[:-1])
    assert [work.is_made(number) for number in range(PARTS)] == [True, True, True, False, True]
    assert merge_tokens(work) is None
    make_tokens(work, 3)
    assert merge_tokens(work) is not None
    assert read_documents(work.folder / "tokens") == expected(TEXTS)


def test_a_merge_that_was_killed_after_the_tokens_is_done_again(work: TokenWork) -> None:
    for number in range(PARTS):
        make_tokens(work, number)
    (work.folder / "tokens.bin").write_bytes(b"half")
    assert merge_tokens(work) is not None
    assert TokenIndex.open(work.folder / "tokens").documents == len(TEXTS)
    assert read_json(work.folder / "manifest.json")["documents"] == len(TEXTS)


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Let no file grow, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_ends_in_one_line_and_leaves_the_other_parts(
    work: TokenWork, request: pytest.FixtureRequest
) -> None:
    make_tokens(work, 0)
    request.getfixturevalue("small_disk")
    with pytest.raises(
        DataError, match=r"cannot write .*part-00001: File too large; run the same command again"
    ):
        make_tokens(work, 1)
    assert work.is_made(0)
    assert not list((work.folder / MADE).glob(".part*"))


def test_text_and_packed_lines_are_read_too(tmp_path: Path) -> None:
    lay(tmp_path, [])
    (tmp_path / "text.jsonl").unlink()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n\nthree\n", encoding="utf-8")
    (tmp_path / "in" / "b.jsonl.bz2").write_bytes(bz2.compress(b'{"body": "four  "}\n'))
    (ended,) = run(tmp_path, 1, "input=in", "field=body", "end_of_document=none", "output=out")
    assert ended.returncode == 0, ended.stderr
    found = TokenIndex.open(tmp_path / "out" / "tokens")
    assert [ids[:-1] for ids in expected(["one\ntwo", "three", "four  "])] == read_documents(found.prefix)
    assert found.tokens.dtype == np.uint16


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "whole"', "text.jsonl, line 3 after byte 0, holds a line that is not JSON"),
        (b'{"text": "\xff"}', "line 3 after byte 0, holds a line that is not UTF-8: byte 10 (0xff)"),
        (b'{"texts": "a"}', "holds a line without text in 'text'; it has 'texts'"),
        (b'{"text": "\\ud800"}', "holds half of a surrogate pair"),
    ],
)
def test_a_bad_line_is_named(work: TokenWork, line: bytes, message: str) -> None:
    path = work.folder.parent / "text.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": "b"}\n' + line + b"\n")
    source = local_source(path)
    bad = replace(work, source=source, parts=tuple(parts_of(source, 1)))
    with pytest.raises(DataError) as refused:
        make_tokens(bad, 0)
    assert message in str(refused.value)


def test_tokens_of_other_settings_are_left_alone(alone: Path) -> None:
    before = files(alone)
    (ended,) = run(alone, 1, "input=text.jsonl", "parts=2", "end_of_document=none")
    assert ended.returncode == 2
    assert (
        "holds tokens with end_of_document 0, but this run has end_of_document None; set another output"
        in ended.stderr
    )
    assert files(alone) == before


def test_settings_are_refused_before_a_machine_is_paid_for() -> None:
    with pytest.raises(InvalidSettings) as refused:
        decode_arguments(["output=text", "parts=0", "share=4/4", "end_of_document=", "workers=3"])
    assert len(refused.value.mistakes) == 5
