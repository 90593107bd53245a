"""The addresses at which custom resources answer: each is secret, and good for one answer.

On AWS it is a pre-signed address of S3; here it is one of the yard's own, and its secret is the signature.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.endpoint import CONTROL_PATH, ENDPOINT_VARIABLE

PATH = "/custom-resource-responses/"
_SECRET_BYTES = 32

_expected: dict[str, ExpectedResponse] = {}


class NoResponse(Exception):
    """Nobody answered in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedResponse:
    url: str
    arrived: queue.Queue[bytes] = field(default_factory=lambda: queue.Queue(maxsize=1))

    def wait(self, seconds: float) -> Mapping[str, Any]:
        """Return the answer; raise NoResponse after this time, and ValueError where it is no object."""
        try:
            body = self.arrived.get(timeout=seconds)
        except queue.Empty as error:
            raise NoResponse from error
        answer = json.loads(body)
        if not isinstance(answer, dict):
            raise ValueError(f"it is {type(answer).__name__}, and has to be an object")
        return answer


@contextmanager
def expected() -> Iterator[ExpectedResponse]:
    """Open an address, and close it at the end of the block."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    one = ExpectedResponse(url=f"{os.environ[ENDPOINT_VARIABLE]}{CONTROL_PATH}{PATH}{secret}")
    _expected[secret] = one
    try:
        yield one
    finally:
        _expected.pop(secret, None)


def receive(path: str, body: bytes) -> bool:
    """Hand on an answer; return False where none is awaited at this path."""
    one = _expected.pop(path.removeprefix(PATH), None)
    if one is not None:
        one.arrived.put(body)
    return one is not None
