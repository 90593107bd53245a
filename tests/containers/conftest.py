"""Fixtures: the yard's S3 for text, rows and models, limits on threads, and a SIGTERM for a training."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.yard.conftest import RunningYard


@pytest.fixture(autouse=True, scope="session")
def one_thread_of_torch() -> None:
    """Compute in one thread: next to other tests two wait for each other, and tiny models need only one."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="module")
def live_thread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose thread lives as long as its process."""
    compiler = shutil.which("cc")
    assert compiler is not None, "there is no C compiler: python scripts/set_up.py installs gcc"
    library = tmp_path_factory.mktemp("library") / "live_thread.so"
    source = Path(__file__).parent / "runtime" / "launch" / "live_thread.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    return library


@pytest.fixture
def own_sigterm() -> Iterator[None]:
    """A training handles the signal; the test session must not."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def s3(shared_yard: RunningYard, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of it; this process and those that it starts read from there too."""
    from slipway.containers.data.sources import source_s3
    from tests.yard.conftest import point_at

    for name in ("AWS_ENDPOINT_URL_S3", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    point_at(shared_yard, monkeypatch)
    monkeypatch.setattr(source_s3, "RETRIES", {"max_retries": 1})
    source_s3.opened.cache_clear()
    return shared_yard.client("s3")
