"""The yard's API inside a node's network: connections that come in there are carried on to the yard."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

CHUNK_BYTES = 1 << 16


def serve(listener: socket.socket, port: int) -> None:
    """`listener` belongs to the node's network, where only that node reaches it. Ends when it is closed."""
    threading.Thread(target=_accept, args=(listener, port), daemon=True).start()


def close(listener: socket.socket) -> None:
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            inside, _ = listener.accept()
        except OSError:
            return
        try:
            outside = socket.create_connection(("127.0.0.1", port))
        except OSError:
            inside.close()
            continue
        for pair in ((inside, outside), (outside, inside)):
            threading.Thread(target=_carry, args=pair, daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            end.shutdown(how)
