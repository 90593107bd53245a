"""An S3 of one object on 127.0.0.1: bursts of errors, broken connections, short stretches, one refusal."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.local_server import QuietHandler, serving

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
    endpoint: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_fault(self, start: int, stop: int) -> Fault | None:
        """Return what goes wrong now. A stretch is known by its end: a read may resume inside it."""
        with self.lock:
            self.ranges.append((start, stop))
            times = sum(stop == before for _, before in self.ranges)
            return (
                self.faults[times - 1] if times <= len(self.faults) and stop <= self.until else self.forever
            )


@contextmanager
def failing(s3: FailingS3) -> Iterator[FailingS3]:
    with serving(type("Bound", (Handler,), {"s3": s3})) as s3.endpoint:
        yield s3


class Handler(QuietHandler):
    s3: FailingS3
    place: dict[str, str]

    def do_HEAD(self) -> None:
        self.head(200, len(self.s3.content))

    def do_GET(self) -> None:
        if "list-type=2" in self.path:
            self.answer(200, self.listing())
            return
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        body = self.s3.content[int(first) : int(last) + 1]
        self.place = {"Content-Range": f"bytes {first}-{last}/{len(self.s3.content)}"}
        if fault := self.s3.next_fault(int(first), int(last) + 1):
            fault(self, body)
        elif self.headers.get("If-Match", self.s3.etag) != self.s3.etag:
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self.answer(206, body, self.place)

    def listing(self) -> bytes:
        return (
            "<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>1</KeyCount><Contents>"
            f"<Key>{self.s3.key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{self.s3.etag}</ETag><Size>{len(self.s3.content)}</Size>"
            "</Contents></ListBucketResult>"
        ).encode()

    def head(self, status: int, length: int, headers: Mapping[str, str] | None = None) -> None:
        told = {"ETag": self.s3.etag, "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        super().head(status, length, {**told, **(headers or {})})


def refusing(status: int, code: str) -> Fault:
    """Answer as S3 does when it is busy or fails."""
    body = f"<Error><Code>{code}</Code><Message>Reduce your request rate.</Message></Error>".encode()
    return lambda handler, _: handler.answer(status, body)


def resetting(after: float) -> Fault:
    """Send this much of the requested bytes, then reset the connection: the peer reads ECONNRESET."""

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
        handler.answer(206, body[:-missing], {"Content-Range": place})

    return fault


def of_another_version(handler: Handler, body: bytes) -> None:
    """Answer with bytes of another version, as a proxy that knows no If-Match does."""
    handler.answer(206, body[::-1], handler.place | {"ETag": '"another"'})


class _Denying(QuietHandler):
    status: int
    code: str
    seen: list[dict[str, str]]

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        body = f"<Error><Code>{self.code}</Code><Message>token=hidden</Message></Error>"
        self.answer(self.status, body.encode())

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()


@contextmanager
def denying(monkeypatch: pytest.MonkeyPatch, status: int, code: str) -> Iterator[list[dict[str, str]]]:
    """Refuse every request to S3 alike; yield the headers of each."""
    seen: list[dict[str, str]] = []
    with serving(type("Denying", (_Denying,), {"status": status, "code": code, "seen": seen})) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        yield seen
