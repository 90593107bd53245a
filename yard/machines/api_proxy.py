"""Forwards connections from inside a node's network to the yard's API."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

CHUNK_BYTES = 1 << 16


_subnets: dict[int, str] = {}  # local port of a forwarded connection -> subnet of the node


def serve(listener: socket.socket, port: int, subnet: str = "") -> None:
    """Forward connections until `listener` is closed; it is in the network of the node, the only client."""
    threading.Thread(target=_accept, args=(listener, port, subnet), daemon=True).start()


def subnet_of(port: int) -> str:
    """Return the subnet of the node that a connection came from; "" for a program of this machine."""
    return _subnets.get(port, "")


def close(listener: socket.socket) -> None:
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _accept(listener: socket.socket, port: int, subnet: str) -> None:
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
        local_port = outside.getsockname()[1]
        _subnets[local_port] = subnet
        threading.Thread(target=_carry, args=(inside, outside), daemon=True).start()
        threading.Thread(target=_carry_back, args=(outside, inside, local_port), daemon=True).start()


def _carry_back(source: socket.socket, target: socket.socket, port: int) -> None:
    _carry(source, target)
    _subnets.pop(port, None)


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            end.shutdown(how)
