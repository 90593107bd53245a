"""Reading ahead gives what plain reading gives, asks for little twice, and holds little."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources import sources
from slipway.containers.data.sources.pieces import Piece, plan_shards, units_of
from slipway.containers.data.sources.sources import Ahead, FetchSource, SourceFile
from tests.containers.data.sources.test_pieces import Files, source_of, texts

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
