"""What the yard's services do with errors and with texts, wherever they are."""

from __future__ import annotations

import logging

import pytest

from slipway.yard.errors import going_on, with_texts


def test_who_looks_after_many_things_outlives_an_error_about_one(caplog: pytest.LogCaptureFixture) -> None:
    seen = []
    for name in ("a", "b", "c"):
        with going_on(logging.getLogger("yard.test"), "cannot look at %s", name):
            assert name != "b"
            seen.append(name)
    assert seen == ["a", "c"]
    assert [record.message for record in caplog.records] == ["cannot look at b"]
    assert caplog.records[0].exc_info, "the log has the traceback"


def test_texts_are_changed_at_any_depth_and_names_and_numbers_stay() -> None:
    given = {"a": ["x", 1, {"x": "x"}], "b": None}
    assert with_texts(given, lambda text: text * 2) == {"a": ["xx", 1, {"x": "xx"}], "b": None}
