"""A test that needs a package says so without importing it, and is skipped if it is not installed."""

from __future__ import annotations

import sys

import pytest

from tests.packages import require


def test_a_package_that_is_there_is_not_imported_for_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sagemaker", raising=False)
    require("sagemaker")
    assert "sagemaker" not in sys.modules


def test_a_missing_package_skips_with_a_reason_that_fails_the_run() -> None:
    """tests/conftest.py fails a run that lacks a package, because it would test nearly nothing."""
    with pytest.raises(pytest.skip.Exception, match="could not import 'no_such_package'"):
        require("no_such_package")
