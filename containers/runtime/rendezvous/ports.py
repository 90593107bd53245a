"""A port to listen on: the one both sides derive from the run, else one of the next few."""

from __future__ import annotations

import errno
import socket

from slipway.containers.runtime.errors import Interruption

TRIED = 16
_BACKLOG = 1024  # a node each


def candidates(first: int) -> range:
    return range(first, min(first + TRIED, 65_536))


def listen(first: int) -> socket.socket:
    """Listen on the first free port. Peers try the same ports until one answers with a proof of this run."""
    for port in candidates(first):
        if (listener := _bound(port)) is not None:
            listener.listen(_BACKLOG)
            return listener
    raise Interruption(
        f"the ports {first} to {candidates(first)[-1]} are all in use on this node",
        hint="another job's processes may be left on it; set SLIPWAY_PORT to choose others",
    )


def free_port(first: int) -> int:
    """Find a free port for the training's own rendezvous, which binds it in a moment."""
    with listen(first) as listener:
        return int(listener.getsockname()[1])


def _bound(port: int) -> socket.socket | None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Connections of the last attempt may linger in TIME_WAIT; this does not share a port that is listened on.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("", port))
    except OSError as error:
        listener.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return None
    return listener
