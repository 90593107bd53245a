"""A benchmark prints each row when it is measured, so an interrupted one has printed all finished rows."""

from __future__ import annotations

import subprocess

import pytest

from scripts import benchmarks, benchmarks_data
from scripts.benchmark_rows import Row


def test_a_row_is_printed_before_the_next_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> Row:
        raise KeyboardInterrupt

    row = Row(what="the first", measured="1 MB/s", beside="2 MB/s")
    monkeypatch.setattr(benchmarks_data, "write_inputs", lambda _: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(benchmarks_data, "beside_tokenizers", lambda _: [row])
    monkeypatch.setattr(benchmarks_data, "second_core", interrupted)
    with pytest.raises(KeyboardInterrupt):
        benchmarks.main(["data"])
    assert capsys.readouterr().out.startswith("the first ")
