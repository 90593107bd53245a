"""An S3 of one object on 127.0.0.1: bursts of errors, connections that break, stretches too short."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Fault = Callable[["Handler", bytes], None]


@dataclass(slots=True)
class FailingS3:
    """Hold the object, and what goes wrong with the first reads of each stretch that ends below `until`."""

    key: str
    content: bytes
    faults: Sequence[Fault] = ()
    until: int = 1 << 40
    forever: Fault | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)  # as they were asked for
    etag: str = '"one"'
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next_fault(self, start: int, stop: int) -> Fault | None:
        """Return what goes wrong now. A stretch is known by its end, as a read may go on in its midst."""
        with self.lock:
            self.ranges.append((start, stop))
            times = sum(stop == before for _, before in self.ranges)
            return (
                self.faults[times - 1] if times <= len(self.faults) and stop <= self.until else self.forever
            )


@contextmanager
def serving(s3: FailingS3) -> Iterator[FailingS3]:
    handler = type("Bound", (Handler,), {"s3": s3})
    server = _Server(("127.0.0.1", 0), handler)
    s3.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield s3
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that break are what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    s3: FailingS3
    place: dict[str, str]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.head(200, len(self.s3.content))

    def do_GET(self) -> None:
        if "list-type=2" in self.path:
            self.send(200, self.listing())
            return
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        body = self.s3.content[int(first) : int(last) + 1]
        self.place = {"Content-Range": f"bytes {first}-{last}/{len(self.s3.content)}"}
        if fault := self.s3.next_fault(int(first), int(last) + 1):
            fault(self, body)
        elif self.headers.get("If-Match", self.s3.etag) != self.s3.etag:
            self.send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self.send(206, body, self.place)

    def listing(self) -> bytes:
        return (
            "<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>1</KeyCount><Contents>"
            f"<Key>{self.s3.key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{self.s3.etag}</ETag><Size>{len(self.s3.content)}</Size>"
            "</Contents></ListBucketResult>"
        ).encode()

    def head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        told = {"ETag": self.s3.etag, "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"} | (headers or {})
        for name, value in told.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.head(status, len(body), headers)
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the tests read `ranges`."""


def refusing(status: int, code: str) -> Fault:
    """Answer as S3 does where it is asked too much or fails."""
    body = f"<Error><Code>{code}</Code><Message>Reduce your request rate.</Message></Error>".encode()
    return lambda handler, _: handler.send(status, body)


def resetting(after: float) -> Fault:
    """Send so much of what was asked for, then reset the connection: the peer reads ECONNRESET."""

    def fault(handler: Handler, body: bytes) -> None:
        if after:
            handler.head(206, len(body), handler.place)
            handler.wfile.write(body[: int(len(body) * after)])
            _until_received(handler.connection)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.connection.close()

    return fault


def _until_received(connection: socket.socket) -> None:
    """Wait until the peer's kernel has all: a reset throws away what is still to be sent."""
    deadline, unsent = time.monotonic() + 5, array.array("i", [1])
    while unsent[0] and time.monotonic() < deadline:
        fcntl.ioctl(connection, termios.TIOCOUTQ, unsent)
        time.sleep(0.001)


def shorter_by(missing: int) -> Fault:
    """Tell and send fewer bytes than were asked for, as if that were all."""

    def fault(handler: Handler, body: bytes) -> None:
        start, _, stop = handler.headers["Range"].removeprefix("bytes=").partition("-")
        place = f"bytes {start}-{int(stop) - missing}/{len(handler.s3.content)}"
        handler.send(206, body[:-missing], {"Content-Range": place})

    return fault


def of_another_version(handler: Handler, body: bytes) -> None:
    """Answer with bytes of another version, as a proxy that knows no If-Match does."""
    handler.send(206, body[::-1], handler.place | {"ETag": '"another"'})
