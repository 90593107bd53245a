"""The yard's S3, for what reads text, rows and models from there; and a SIGTERM that a training may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def own_sigterm() -> Iterator[None]:
    """A training listens to it; the test session should not."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from jobs.yard import process

    home = tmp_path_factory.mktemp("yard") / "home"
    yield process.up(folder=home).state.endpoint
    process.down(folder=home)


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of it; this process and those that it starts read from there too."""
    from containers.data import source_s3
    from jobs.aws import client_at
    from jobs.yard.endpoint import ACCESS_KEY_ID, SECRET_ACCESS_KEY

    for name in ("AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(source_s3, "RETRIES", {"max_retries": 1})
    source_s3.opened.cache_clear()
    return client_at(endpoint, "s3", "us-east-1", ACCESS_KEY_ID, SECRET_ACCESS_KEY)
