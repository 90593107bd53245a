"""Fixtures of the tests of commands: a user without files of their own, and the rows of an estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import Slipway

OWN_FILES = ("SLIPWAY_CALIBRATION", "SLIPWAY_PUBLISHED", "SLIPWAY_PRICES", "SLIPWAY_REFRESHED_PRICES")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in OWN_FILES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def estimated(slipway: Slipway, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = slipway.json("estimate", *arguments, "--json")
    return rows


def rows_of(table: str) -> list[list[str]]:
    """Read a table of texts: each line is a row, with bars between its columns."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
