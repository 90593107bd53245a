"""Fixtures that the runtime's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.runtime.nodes import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Check that no process of the test's job is left running."""
    started = Cluster(tmp_path)
    try:
        yield started
        assert not [node for node in started.nodes if node.process.poll() is None], "a node did not end"
        assert started.left_running() == []
    finally:
        started.end()
