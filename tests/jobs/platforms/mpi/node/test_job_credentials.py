"""A job gets the credentials of its own role, and nothing of the node's."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.platforms.mpi.node import job_credentials
from slipway.jobs.platforms.mpi.node.job_credentials import (
    OpenMetadata,
    RenewedCredentials,
    close_metadata,
    rules,
)
from slipway.jobs.platforms.mpi.node.setting import NodePaths

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TOKEN = "token"


def given(end: datetime, key: str = "AKIA") -> dict[str, str]:
    return {"AccessKeyId": key, "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}


@pytest.fixture
def address() -> Iterator[str]:
    role = RenewedCredentials(lambda: given(NOW + timedelta(hours=1)), lambda: NOW)
    server = ThreadingHTTPServer(("127.0.0.1", 0), job_credentials._handler(TOKEN, role))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def ask(url: str, token: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": token})  # noqa: S310 - our own
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - likewise
        return dict(json.loads(answer.read()))


def test_credentials_are_kept_until_shortly_before_they_end() -> None:
    made: list[dict[str, str]] = []
    now = [NOW]

    def assume() -> dict[str, str]:
        made.append(given(now[0] + timedelta(hours=1), f"key {len(made)}"))
        return made[-1]

    role = RenewedCredentials(assume, lambda: now[0])
    assert role.credentials() is role.credentials()
    now[0] += timedelta(minutes=51)
    assert role.credentials()["AccessKeyId"] == "key 1"


def test_who_has_the_token_gets_the_credentials(address: str) -> None:
    assert ask(f"{address}{job_credentials.PATH}", TOKEN)["AccessKeyId"] == "AKIA"


@pytest.mark.parametrize(("path", "token"), [(job_credentials.PATH, "another"), ("/", TOKEN)])
def test_nobody_else_gets_anything(address: str, path: str, token: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        ask(f"{address}{path}", token)
    refused.value.close()


def test_only_root_reaches_the_metadata_service() -> None:
    assert "meta skuid != 0 ip daddr 169.254.169.254 reject" in rules()
    assert "meta skuid != 0 ip6 daddr fd00:ec2::254 reject" in rules()


def test_a_node_that_cannot_close_it_takes_no_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OpenMetadata, match="jobs cannot be kept from the node's own role") as refused:
        close_metadata()
    assert "nftables" in refused.value.hint


def test_a_job_s_sdks_are_told_where_to_ask(tmp_path: Path) -> None:
    told = job_credentials.variables(NodePaths(root=tmp_path))
    assert told[job_credentials.URI_VARIABLE] == "http://127.0.0.1:9911/credentials"
    assert told[job_credentials.TOKEN_VARIABLE] == str(tmp_path / "run/slipway/job-credentials-token")
