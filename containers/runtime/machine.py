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

    def own_interface(self) -> str | None:
        """Return the network interface of the default route; None if there is none."""
        try:
            lines = (self.root / "proc/net/route").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            return None
        routes = [
            line.split() for line in lines
        ]  # proc(5): Iface Destination Gateway Flags RefCnt Use Metric Mask
        default = [
            (int(route[6]), route[0]) for route in routes if int(route[1], 16) == int(route[7], 16) == 0
        ]
        return min(default)[1] if default else None

    def host(self) -> str:
        return socket.gethostname()


def _resolved(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return "127.0.0.1"
