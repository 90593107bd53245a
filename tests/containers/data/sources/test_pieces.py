"""Shards and units hold the whole text once, begin where documents do, and cut none without need."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources import pieces, sources
from slipway.containers.data.sources.pieces import Piece, last_cut, plan_shards, units_of
from slipway.containers.data.sources.sources import Ahead, FetchSource, SourceFile, local_source

PARTS = ["a", "é", "文", "😀", " ", "\n", "\n\n", "\r\n\r\n", "word. "]
Files = dict[str, bytes]


def source_of(files: Files) -> FetchSource:
    listed = tuple(SourceFile(name, len(text)) for name, text in sorted(files.items()))
    return FetchSource(listed, lambda file, start, stop: files[file.name][start:stop])


def texts() -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(PARTS), min_size=1, max_size=60).map(
        lambda parts: "".join(parts).encode()
    )


@pytest.fixture
def _short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SEARCH_BYTES", (8, 16))


@settings(max_examples=300)
@given(texts=st.lists(texts(), min_size=1, max_size=4), shards=st.integers(1, 9), unit=st.integers(8, 64))
def test_shards_and_units_hold_the_text_once(texts: list[bytes], shards: int, unit: int) -> None:
    files = {f"{number:02}": text for number, text in enumerate(texts)}
    source = source_of(files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SEARCH_BYTES", (8, 16))
        planned = plan_shards(source, shards)
    assert len(planned) == shards
    seen = [text for shard in planned for found in units_of(source, shard, unit) for text in found]
    assert b"".join(text.data for text in seen) == b"".join(texts)
    for text in seen:
        text.data.decode("utf-8")  # no character is cut
        assert files[text.name][text.start :].startswith(text.data)
    for shard in planned:
        assert all(sum(len(t.data) for t in found) <= unit for found in units_of(source, shard, unit))


@settings(max_examples=200)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=40), shards=st.integers(1, 12))
def test_shards_begin_where_documents_do(sizes: list[int], shards: int) -> None:
    documents = [b"x" * size + b"\n\n" for size in sizes]
    text = b"".join(documents)
    begins = {sum(sizes[:number]) + 2 * number for number in range(len(sizes) + 1)}
    for number, shard in enumerate(plan_shards(source_of({"t": text}), shards)):
        for piece in shard:
            assert piece.start in begins
            nominal = len(text) * number // shards
            assert piece.start == min(begin for begin in begins if begin >= nominal)


def test_tagged_articles_are_cut_at_their_tags_only() -> None:
    article = b'<doc id="1">\nTitle\n\nText.\n\n</doc>\n'
    source = source_of({"wiki_00": article * 10})
    planned = plan_shards(source, 4)
    assert {piece.start % len(article) for shard in planned for piece in shard} == {0}
    assert last_cut(article * 3 + article[:20], 2) == 3 * len(article)


@pytest.mark.usefixtures("_short_search")
def test_an_endless_line_is_shared_out_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "line").write_bytes("wörter ohne ende ".encode() * 1000)
    planned = plan_shards(local_source(tmp_path / "line"), 4)
    lengths = [sum(piece.stop - piece.start for piece in shard) for shard in planned]
    assert max(lengths) - min(lengths) < 20


def test_more_shards_than_documents_leave_some_empty() -> None:
    planned = plan_shards(source_of({"t": b"one\n\ntwo\n\n"}), 5)
    assert sorted(len(shard) for shard in planned) == [0, 0, 0, 1, 1]


# Reading ahead gives what plain reading gives, asks for little twice, and holds little.
NEAR, FAR = 1, 4


@given(
    files=st.dictionaries(st.sampled_from("abc"), texts(), min_size=1),
    shards=st.integers(1, 4),
    unit_bytes=st.integers(8, 40),
    block_bytes=st.integers(1, 50),
)
def test_units_are_the_same_from_far_away(
    files: Files, shards: int, unit_bytes: int, block_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "BLOCK_BYTES", block_bytes)
        near, far = (replace(source_of(files), reads_at_once=number) for number in (NEAR, FAR))
        assert plan_shards(far, shards) == plan_shards(near, shards)
        for pieces in plan_shards(near, shards):
            assert told(far, pieces, unit_bytes) == told(near, pieces, unit_bytes)


def told(source: FetchSource, pieces: list[Piece], unit_bytes: int) -> object:
    try:
        return list(units_of(source, pieces, unit_bytes))
    except DataError as error:
        return str(error)


def test_what_waits_is_bounded_and_nothing_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 10)
    monkeypatch.setattr(sources, "AHEAD_BYTES", 40)
    lock, asked = threading.Lock(), []

    def fetch(file: SourceFile, start: int, stop: int) -> bytes:
        with lock:
            asked.append((start, stop))
        return text[start:stop]

    text = bytes(range(200))
    source = FetchSource((SourceFile("a", 200),), fetch, "", FAR)
    taken = 0
    with Ahead(source, [("a", 0, 200)]) as reader:
        for at in range(0, 195, 15):
            assert reader.read("a", at, 20 if at < 180 else 200 - at) == text[at : at + 20]
            taken = at + 20
            with lock:
                assert sum(stop - start for start, stop in asked) <= taken + 10 + 40
    assert sorted(asked) == [(at, at + 10) for at in range(0, 200, 10)]


def test_a_read_that_fails_far_ahead_is_told_where_it_is_needed() -> None:
    def fetch(file: SourceFile, start: int, stop: int) -> bytes:
        if file.name == "b":
            raise DataError("b is gone")
        return b"x" * (stop - start)

    source = FetchSource((SourceFile("a", 9), SourceFile("b", 9)), fetch, "", FAR)
    with Ahead(source, [("a", 0, 9), ("b", 0, 9)]) as reader:
        assert reader.read("a", 0, 9) == b"x" * 9
        with pytest.raises(DataError, match="b is gone"):
            reader.read("b", 0, 9)
