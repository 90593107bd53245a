"""What the runtime's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.runtime.nodes import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Whatever the test did, nothing of its job may be left running."""
    started = Cluster(tmp_path)
    try:
        yield started
        assert not [node for node in started.nodes if node.process.poll() is None], "a node did not end"
        assert started.left_running() == []
    finally:
        started.end()
