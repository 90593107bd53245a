"""Serves an EC2 instance's metadata as IMDSv2 does: nothing without a token, and 404 for missing paths."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from tests.local_server import QuietHandler, serving

INTERRUPTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
KEY_ID = "OFTHEROLE"
_TOKEN = "/latest/api/token"
_ROLES = "/latest/meta-data/iam/security-credentials/"


class Metadata:
    def __init__(self) -> None:
        self.endpoint = ""
        self.documents: dict[str, str | Callable[[], str]] = {}
        self.failures: list[int] = []  # statuses, answered first
        self.tokens: set[str] = set()
        self.asked: list[tuple[int, str]] = []  # status, path

    def give_keys(self, expires: str = "2099-01-01T00:00:00Z") -> None:
        """Answer with a role's keys: different ones for each request, KEY_ID first."""
        numbers = count(1)

        def keys() -> str:
            number = next(numbers)
            found = {
                "Code": "Success",
                "Type": "AWS-HMAC",
                "AccessKeyId": KEY_ID + (f"{number:04}" if number > 1 else ""),
                "SecretAccessKey": "secret",
                "Token": "token",
                "Expiration": expires,
                "LastUpdated": "2026-01-01T00:00:00Z",
            }
            return json.dumps(found)

        self.documents |= {_ROLES: "role", f"{_ROLES}role": keys}


class _Door(QuietHandler):
    metadata: Metadata

    def do_PUT(self) -> None:
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != _TOKEN or not 1 <= int(seconds or 0) <= 21_600:
            self._tell(400, "")
            return
        token = secrets.token_urlsafe(16)
        self.metadata.tokens.add(token)
        self._tell(200, token)

    def do_GET(self) -> None:
        document = self.metadata.documents.get(self.path)
        if self.metadata.failures:
            self._tell(self.metadata.failures.pop(0), "")
        elif self.headers.get("X-aws-ec2-metadata-token") not in self.metadata.tokens:
            self._tell(401, "")
        elif document is None:
            self._tell(404, "")
        else:
            self._tell(200, document if isinstance(document, str) else document())

    def _tell(self, status: int, text: str) -> None:
        self.metadata.asked.append((status, self.path))
        self.answer(status, text.encode())


@contextmanager
def instance_metadata() -> Iterator[Metadata]:
    metadata = Metadata()
    with serving(type("Door", (_Door,), {"metadata": metadata})) as metadata.endpoint:
        yield metadata
