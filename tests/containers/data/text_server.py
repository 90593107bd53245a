"""A web server for one text: real answers on 127.0.0.1, with each fault that a test asks for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Served:
    """Hold what the server has, and what was asked of it. Tests change it while it runs."""

    text: bytes
    etag: str | None = '"one"'
    knows_ranges: bool = True
    knows_conditions: bool = True
    statuses: list[int] = field(default_factory=list)  # answered first, one each
    redirects: dict[str, str] = field(default_factory=dict)  # path to Location
    cut_short: int = 0  # so many answers break off
    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ranges(self) -> list[str]:
        return [headers["range"] for _, headers in self.requests]


@contextmanager
def serving(served: Served) -> Iterator[Served]:
    handler = type("Handler", (Handler,), {"served": served})
    server = Server(("127.0.0.1", 0), handler)
    served.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what several tests are about."""


class Handler(BaseHTTPRequestHandler):
    served: Served
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        served = self.served
        served.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        place = self.path.partition("?")[0]
        if served.statuses:
            self.answer(served.statuses.pop(0), b"")
        elif place in served.redirects:
            self.answer(302, b"", {"Location": served.redirects[place]})
        elif served.knows_conditions and self.headers.get("If-Match", served.etag) != served.etag:
            self.answer(412, b"")
        elif served.knows_ranges:
            self.stretch()
        else:
            self.answer(200, served.text)

    def stretch(self) -> None:
        text = self.served.text
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last) + 1, len(text))
        if start >= len(text):
            self.answer(416, b"")
        else:
            place = f"bytes {start}-{stop - 1}/{len(text)}"
            self.answer(206, text[start:stop], {"Content-Range": place})

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.served.etag:
            self.send_header("ETag", self.served.etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.served.cut_short and len(body) > 1:
            self.served.cut_short -= 1
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the tests read `requests`."""
