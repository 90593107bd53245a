"""Hears that EC2 takes a Spot instance back: asks the instance's metadata every few seconds, in a thread.

A new kind of notice is one path and one function of what is found there. Metadata is asked as IMDSv2 wants
it: a token first (EC2 User Guide, "Use IMDSv2"), no proxy, no patience: the answer is on this machine.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from http.client import HTTPException

from slipway.containers.runtime.contract.settings import SPOT, Settings
from slipway.containers.runtime.launch.stopping import Stop

# EC2 User Guide, "Spot Instance interruption notices": look every 5 seconds; it comes two minutes ahead.
_EVERY_SECONDS = 5.0
_ANSWER_SECONDS = 1.0
_TOKEN_SECONDS = 21_600
_INTERRUPTION = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
_FAILURES_SAID = 3  # in a row, before it is said: one lost answer is nothing
_UNAUTHORIZED, _NOT_FOUND = 401, 404
_MOST_BYTES = 4096


@contextmanager
def listening(
    settings: Settings, node: int, say: Callable[[str], None]
) -> Iterator[Callable[[], Stop | None]]:
    """Yield a function that returns the Spot notice, if there is one. An instance that is not Spot is not
    asked."""
    if settings.market != SPOT:
        yield lambda: None
        return
    notices = SpotNotices(settings.metadata_endpoint, node, say)
    try:
        yield notices.heard
    finally:
        notices.close()


class SpotNotices:
    def __init__(self, endpoint: str, node: int, say: Callable[[str], None]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._node = node
        self._say = say
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token = ""
        self._failures = 0
        self._has_said_rebalance = False
        self._heard: Stop | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spot notices", daemon=True)
        self._thread.start()

    def heard(self) -> Stop | None:
        return self._heard

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while self._heard is None and not self._closed.is_set():
            try:
                self._look()
                self._failures = 0
            except (OSError, HTTPException, ValueError) as error:
                self._count(error)
            self._closed.wait(_EVERY_SECONDS)

    def _look(self) -> None:
        if (found := self._get(_INTERRUPTION)) is not None:
            self._heard = _interruption(found, self._node)
        elif not self._has_said_rebalance and self._get(_REBALANCE) is not None:
            self._has_said_rebalance = True
            self._say("EC2 warns that this Spot instance may be interrupted soon")

    def _get(self, path: str) -> str | None:
        """Return the notice, or None if there is none. A token may run out, or be another's after a stop
        and start."""
        for has_retried in (False, True):
            self._token = self._token or self._ask("PUT", "/latest/api/token", _TOKEN_HEADER)
            try:
                return self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == _NOT_FOUND:
                    return None
                if error.code != _UNAUTHORIZED or has_retried:
                    raise
                self._token = ""
        raise AssertionError("the second answer is returned or raised")

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> str:
        # Settings took the endpoint for http:// or https://, so that this opens no file.
        request = urllib.request.Request(self._endpoint + path, method=method, headers=headers)  # noqa: S310
        with self._opener.open(request, timeout=_ANSWER_SECONDS) as answer:
            content: bytes = answer.read(_MOST_BYTES)
        return content.decode()

    def _count(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == _FAILURES_SAID:
            self._say(
                f"warning: instance metadata at {self._endpoint} does not answer ({error}), so a Spot "
                "interruption would not be heard; allow containers two hops (HttpPutResponseHopLimit)"
            )


_TOKEN_HEADER = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)}


def _interruption(text: str, node: int) -> Stop:
    """Read `{"action": "terminate", "time": "2017-09-18T08:22:00Z"}`; ignore a time that cannot be read."""
    try:
        record = json.loads(text)
        action, at = str(record["action"]), str(record["time"])
        ends = datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, KeyError, TypeError):
        return Stop(why="EC2 reclaims this Spot instance", node=node, resumes=True)
    why = f"EC2 reclaims this Spot instance ({action} at {at})"
    return Stop(why=why, node=node, seconds=ends - time.time(), resumes=True)
