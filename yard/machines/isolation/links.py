"""Makes the link of a node or host slow or lossy, with programs that run in its network.

netem, which not every kernel has, makes delay; tbf limits the rate; nftables drops packets. Standard library
only: this runs in the processes that hold nodes and hosts.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping

DEVICE = "eth0"
_BURST_BYTES = 65_536  # tbf drops larger packets, and unsegmented TCP packets may be this large
_QUEUE_MS = 2000
_PART = 10_000  # nft draws integers, here hundredths of a percent

Link = Mapping[str, float]  # delay_ms, loss_percent, mbit; absent or 0: no such fault


def set_up(link: Link, before: Callable[[], None] | None = None) -> str:
    """Apply the faults to the link; return what failed, or "". `before` joins the link's network."""
    _run(["tc", "qdisc", "del", "dev", DEVICE, "root"], before)  # no error if there is none
    said = [_run(command, before) for command in commands(link)]
    said.append(_run(["nft", "-f", "-"], before, loss(link)) if link else "")
    return "; ".join(filter(None, said))


def commands(link: Link) -> Iterator[list[str]]:
    """Yield the commands of tc; with both faults, the delay is below the rate limit."""
    place = ["root", "handle", "1:"]
    if rate := link.get("mbit"):
        words = ["tbf", "rate", f"{rate:g}mbit", "burst", str(_BURST_BYTES), "latency", f"{_QUEUE_MS}ms"]
        yield ["tc", "qdisc", "add", "dev", DEVICE, *place, *words]
        place = ["parent", "1:1", "handle", "10:"]
    if delay := link.get("delay_ms"):
        words = ["netem", "limit", "100000", "delay", f"{delay:g}ms"]
        yield ["tc", "qdisc", "add", "dev", DEVICE, *place, *words]


def loss(link: Link) -> str:
    """Return nft's table that drops packets at random; without loss, it has no rule."""
    share = round(link.get("loss_percent", 0) / 100 * _PART)
    rule = f"    oifname {DEVICE} numgen random mod {_PART} < {share} drop\n" if share else ""
    chain = f"  chain sent {{\n    type filter hook output priority 10; policy accept;\n{rule}  }}\n"
    return f"table inet losses\ndelete table inet losses\ntable inet losses {{\n{chain}}}\n"


def _run(command: list[str], before: Callable[[], None] | None, text: str = "") -> str:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            command,
            input=text,
            text=True,
            capture_output=True,
            check=False,
            preexec_fn=before,
            env=environment,
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    is_removal = command[2:3] == ["del"]
    last = done.stderr.strip().rpartition("\n")[2]
    return "" if done.returncode == 0 or is_removal else f"{' '.join(command)}: {last}"
