"""The CDK's own validator costs seconds a synthesis; here it is off, and infra.gates runs it once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _without_the_slow_validator() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDK_VALIDATION", "false")
        yield
