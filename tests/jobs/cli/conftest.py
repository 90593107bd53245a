"""What the tests of commands share: a person without files of their own, and the rows of an estimate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jobs.conftest import Slipway

OWN_FILES = ("SLIPWAY_CALIBRATION", "SLIPWAY_PUBLISHED", "SLIPWAY_PRICES", "SLIPWAY_REFRESHED_PRICES")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in OWN_FILES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def estimated(slipway: Slipway, *arguments: str) -> list[dict[str, object]]:
    code, out, err = slipway("estimate", *arguments, "--json")
    assert code == 0, err
    rows: list[dict[str, object]] = json.loads(out)
    return rows
