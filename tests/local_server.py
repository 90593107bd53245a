"""An HTTP server on 127.0.0.1 for as long as a test needs it, whose handlers print nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that break are what several tests are about."""


class QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.head(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def head(self, status: int, length: int, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests read what was asked."""


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests know what they fetch."""


def files_of(folder: Path) -> Callable[..., BaseHTTPRequestHandler]:
    """Return the handler that gives the files of a folder."""
    return partial(_Files, directory=str(folder))


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address at which a handler answers."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
