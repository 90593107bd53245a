"""A slow or lossy link of one node or host, as programs that set it up in the network of that machine.

Delay is netem's, which not every kernel has; the rate is tbf's, loss nftables'. Standard library only: the
processes that hold nodes and hosts carry it out.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping

DEVICE = "eth0"
_BURST_BYTES = 65_536  # tbf lets no larger packet pass, and segments may be as large before they are cut
_QUEUE_MS = 2000
_PART = 10_000  # nft draws whole numbers: hundredths of a percent

Link = Mapping[str, float]  # delay_ms, loss_percent, mbit; what is not there, or 0, is as it was


def set_up(link: Link, before: Callable[[], None] | None = None) -> str:
    """Make the link so, and return what could not be done; `before` joins the network it is in."""
    _run(["tc", "qdisc", "del", "dev", DEVICE, "root"], before)  # none there is no failure
    said = [_run(command, before) for command in commands(link)]
    said.append(_run(["nft", "-f", "-"], before, loss(link)) if link else "")
    return "; ".join(filter(None, said))


def commands(link: Link) -> Iterator[list[str]]:
    """Yield the orders for tc: delay below the rate, where there are both."""
    place = ["root", "handle", "1:"]
    if rate := link.get("mbit"):
        words = ["tbf", "rate", f"{rate:g}mbit", "burst", str(_BURST_BYTES), "latency", f"{_QUEUE_MS}ms"]
        yield ["tc", "qdisc", "add", "dev", DEVICE, *place, *words]
        place = ["parent", "1:1", "handle", "10:"]
    if delay := link.get("delay_ms"):
        words = ["netem", "limit", "100000", "delay", f"{delay:g}ms"]
        yield ["tc", "qdisc", "add", "dev", DEVICE, *place, *words]


def loss(link: Link) -> str:
    """Write the table for nft that loses packets at random; an empty one loses none."""
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
