"""An S3 on 127.0.0.1 that answers every request with one refusal, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Denying(BaseHTTPRequestHandler):
    status, code = 403, "AccessDenied"
    seen: list[dict[str, str]]

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        body = f"<Error><Code>{self.code}</Code><Message>token=hidden</Message></Error>".encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def denying(monkeypatch: pytest.MonkeyPatch, status: int, code: str) -> Iterator[list[dict[str, str]]]:
    seen: list[dict[str, str]] = []
    handler = type("Handler", (Denying,), {"status": status, "code": code, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        yield seen
        server.shutdown()
        thread.join()
