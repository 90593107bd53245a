"""The metadata of an EC2 instance, as IMDSv2 serves it: nothing without a token, 404 for what is not."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INTERRUPTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"


class Metadata:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.documents: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.asked: list[tuple[int, str]] = []  # status, path


class _Door(BaseHTTPRequestHandler):
    metadata: Metadata

    def do_PUT(self) -> None:
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != "/latest/api/token" or not 1 <= int(seconds or 0) <= 21_600:
            self._answer(400, "")
            return
        token = secrets.token_urlsafe(16)
        self.metadata.tokens.add(token)
        self._answer(200, token)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") not in self.metadata.tokens:
            self._answer(401, "")
        elif self.path not in self.metadata.documents:
            self._answer(404, "")
        else:
            self._answer(200, self.metadata.documents[self.path])

    def _answer(self, status: int, text: str) -> None:
        self.metadata.asked.append((status, self.path))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        """Tests read `asked`."""


@contextmanager
def serving() -> Iterator[Metadata]:
    class Door(_Door):
        """Answer for this server alone."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        metadata = Door.metadata = Metadata(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield metadata
        finally:
            server.shutdown()
            thread.join()
