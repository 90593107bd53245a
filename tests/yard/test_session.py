"""A notebook's process reaches the yard without a shell."""

from __future__ import annotations

import os

import pytest

from slipway.yard.process import use_yard
from tests.yard.conftest import RunningYard


def test_a_process_is_pointed_at_the_yard_that_is_up(
    yard: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(yard.home))
    before = dict(os.environ)
    try:
        assert use_yard() == yard.endpoint == os.environ["AWS_ENDPOINT_URL"]
        assert not {"AWS_ENDPOINT_URL_S3", "AWS_PROFILE"} & set(os.environ)
    finally:
        os.environ.clear()
        os.environ.update(before)
