"""What the runtime reads of the machine itself: files, address, name. Tests give it another root."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

# Reserved for documentation (RFC 5737). Connecting a datagram socket only asks the routing table.
_ELSEWHERE = ("192.0.2.1", 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    root: Path = Path("/")

    def own_address(self) -> str:
        """Return the address that peers reach: that of the outgoing route, else what the host's name
        resolves to."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(_ELSEWHERE)
                return str(probe.getsockname()[0])
            except OSError:
                return _resolved(self.host())

    def host(self) -> str:
        return socket.gethostname()


def _resolved(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return "127.0.0.1"
