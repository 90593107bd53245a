"""Connects standard input and output to a port in this process's network. Standard library only."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

_CHUNK = 1 << 16


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it silently
    port = int(sys.argv[1])
    try:
        peer = socket.create_connection(("localhost", port))  # as the agent of Systems Manager does
    except OSError as error:
        print(f"port {port} of the node: {error.strerror or error}", file=sys.stderr)
        return 1
    threading.Thread(target=_send, args=(peer,), daemon=True).start()
    while chunk := peer.recv(_CHUNK):
        left = memoryview(chunk)
        while left:
            left = left[os.write(1, left) :]
    return 0


def _send(peer: socket.socket) -> None:
    while chunk := os.read(0, _CHUNK):
        peer.sendall(chunk)
    peer.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main())
