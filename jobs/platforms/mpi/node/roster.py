"""Who is of the cluster now, written down where mpirun, ssh and name lookups read it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.platforms.whole_files import write_through, write_whole
from slipway.jobs.words.mpi.mpi_nodes import Member

_BEGIN, _END = "# slipway: nodes of the cluster, kept current", "# slipway: end"
_BLOCK = re.compile(rf"{re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n", re.DOTALL)


def write_roster(where: NodePaths, members: Sequence[Member]) -> bool:
    """Write the files that name the nodes; return True if the cluster has changed."""
    write_through(where.hosts, hosts_text(_read(where), members))
    write_whole(where.host_addresses, "".join(_ssh_block(member) for member in members))
    return write_whole(where.hostfile, "".join(f"{each.name}\n" for each in members))


def hosts_text(text: str, members: Sequence[Member]) -> str:
    """Replace our block of /etc/hosts and keep the rest. gloo looks up IPv4 addresses in IPv6 notation."""
    lines = [line for member in members for line in _lines(member)]
    block = "".join(f"{line}\n" for line in (_BEGIN, *lines, _END))
    if _BLOCK.search(text):
        return _BLOCK.sub(lambda _: block, text, count=1)
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{block}"


def _lines(member: Member) -> list[str]:
    return [f"{member.address} {member.name}", f"::ffff:{member.address} {member.name}"]


def _ssh_block(member: Member) -> str:
    """Map a name to its address; whoever has the address still has to prove that name."""
    return f"Host {member.name}\n  HostName {member.address}\n  HostKeyAlias {member.name}\n"


def _read(where: NodePaths) -> str:
    return where.hosts.read_text(encoding="utf-8") if where.hosts.exists() else ""
