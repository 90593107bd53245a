"""The protocol between launchers: JSON lines over TCP, after both sides have proved to be of one attempt."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections import deque
from collections.abc import Mapping

from slipway.containers.runtime.collective import Json

Message = Mapping[str, Json]

MOST_LINE_BYTES = 256 << 10
_MOST_UNSENT_BYTES = 4 << 20
_READ_BYTES = 64 << 10


def key(run: str, attempt: int, secret: str) -> bytes:
    """Derive the key that keeps a stale attempt and other jobs out.

    Whoever reads the job's id can compute it, unless the backend gives a secret.
    """
    return hashlib.sha256(f"slipway launch\0{run}\0{attempt}\0{secret}".encode()).digest()


def proof(own_key: bytes, nonce: str, speaker: str) -> str:
    return hmac.new(own_key, f"{nonce}\0{speaker}".encode(), hashlib.sha256).hexdigest()


def is_proof(own_key: bytes, nonce: str, speaker: str, given: object) -> bool:
    return (
        isinstance(given, str)
        and given.isascii()
        and hmac.compare_digest(given, proof(own_key, nonce, speaker))
    )


class PeerLink:
    """Wrap one connection that never blocks: unsent and half-received messages wait."""

    def __init__(self, connection: socket.socket, address: str) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.address = address
        self.nonce = secrets.token_hex(16)
        self.node: int | None = None  # None until it has proved itself
        self.host = address
        self.born = self.heard = time.monotonic()
        self.lost: str | None = None  # why
        self._received = bytearray()
        self._unsent = bytearray()
        self._inbox: deque[Message] = deque()

    def send(self, message: Message) -> None:
        self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()
        if len(self._unsent) > _MOST_UNSENT_BYTES:
            self.lost = self.lost or "it reads nothing any more"

    def flush(self) -> None:
        try:
            while self._unsent and self.lost is None:
                del self._unsent[: self.connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError as error:
            self.lost = self.lost or f"the connection broke ({error.strerror})"

    def receive(self) -> list[Message]:
        """Return all whole messages; after the last, `lost` says whether the peer is gone."""
        self._fill()
        found = list(self._inbox)
        self._inbox.clear()
        return found

    def receive_one(self) -> Message | None:
        """Return the next message only: what follows belongs to the next owner of the link."""
        self._fill()
        return self._inbox.popleft() if self._inbox else None

    def close(self) -> None:
        self.connection.close()

    def _fill(self) -> None:
        while self.lost is None and self._read():
            pass
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        if max(map(len, [*lines, rest])) > MOST_LINE_BYTES:
            self.lost = self.lost or "it sent an endless line"
            return
        self._inbox.extend(message for line in lines if (message := self._decoded(line)) is not None)

    def _read(self) -> bool:
        try:
            part = self.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            self.lost = f"the connection broke ({error.strerror})"
            return False
        if not part:
            self.lost = "its launcher is gone (it closed the connection)"
            return False
        self.heard = time.monotonic()
        self._received += part
        return len(self._received) <= MOST_LINE_BYTES

    def _decoded(self, line: bytearray) -> Message | None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self.lost = self.lost or "it does not speak our language"
            return None
        return message
