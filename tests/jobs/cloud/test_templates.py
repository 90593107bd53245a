"""The templates that a deployment would create are made by infra, which needs what the CDK needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.cloud.templates import declared_templates
from slipway.jobs.words.errors import SlipwayError


def test_without_node_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlipwayError, match=r"needs Node\.js, and 'node' is not on PATH") as refusal:
        declared_templates("dl1")
    assert refusal.value.hint.startswith("install Node.js 22 or newer")
