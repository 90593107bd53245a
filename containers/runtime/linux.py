"""The calls of the Linux kernel that the launcher needs beyond Python's `os`; elsewhere they do without."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import re
import signal
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SOCKET = re.compile(r"socket:\[([0-9]+)\]", re.ASCII)  # in /proc/PID/fd


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, however it dies. Survives exec, not fork."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def flush_c_streams() -> None:
    """Write what C and C++ libraries have printed and still hold back: os._exit does not."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def adopt_orphans() -> None:
    """Become the parent of what ranks leave behind, as process 1 would, so that it can be found and
    reaped."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def count_processors() -> int:
    """Return how many processors this process may use; elsewhere than on Linux, how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def children(root: Path) -> list[int]:
    """List every process whose parent we are."""
    return [pid for pid, parent in _parents(root).items() if parent == os.getpid()]


def descendants(known: Mapping[int, int], root: Path) -> dict[int, int]:
    """Return what is known of some processes for all that descend from them as well."""
    parents, found = _parents(root), dict(known)
    while born := {pid: found[up] for pid, up in parents.items() if up in found and pid not in found}:
        found |= born
    return found


def libraries(pid: int, root: Path) -> set[str]:
    """Return the paths of the files that a process has mapped; none of one that has ended."""
    with suppress(OSError):
        lines = (root / "proc" / str(pid) / "maps").read_text(errors="replace").splitlines()
        return {line[line.index("/") :] for line in lines if "/" in line}
    return set()


def sockets(pid: int, root: Path) -> list[int]:
    """Return the inodes of a process's open sockets; none of one that has ended, or is somebody else's."""
    found = []
    with suppress(OSError):
        for path in (root / "proc" / str(pid) / "fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                if socket := _SOCKET.fullmatch(str(path.readlink())):
                    found.append(int(socket[1]))
    return found


def kill_marked(mark: str) -> None:
    """Kill every process that has `mark` in its environment, and repeat until no new one appears."""
    killed: set[str] = set()
    while found := _marked(mark) - killed:
        for name in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)
        killed |= found


def state(pid: int, root: Path) -> str:
    """Return the state of a process: R, S, D, T … as in proc(5)."""
    with suppress(OSError, IndexError):
        return (root / "proc" / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return "?"


def memory_kills(root: Path) -> int:
    """Count the processes of this container that the kernel killed for memory; cgroup v2, else v1."""
    for name in ("memory.events", "memory/memory.oom_control"):
        with suppress(OSError, ValueError, KeyError):
            text = (root / "sys/fs/cgroup" / name).read_text()
            return int(dict(line.split(maxsplit=1) for line in text.splitlines())["oom_kill"])
    return 0


def _parents(root: Path) -> dict[int, int]:
    """Return the parent of each process."""
    found = {}
    for path in (root / "proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            found[int(path.parent.name)] = int(fields[1])
    return found


def _marked(mark: str) -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if int(path.parent.name) != os.getpid() and mark.encode() in path.read_bytes():
                found.add(path.parent.name)
    return found


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# Facts of the machine: files, address, name. Tests give it another root.
# Reserved for documentation (RFC 5737). Connecting a datagram socket only asks the routing table.
_ELSEWHERE = ("192.0.2.1", 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    root: Path = Path("/")

    def own_address(self) -> str:
        """Return the address that peers reach: that of the outgoing route, else what the host's name
        resolves to."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect(_ELSEWHERE)
            return str(probe.getsockname()[0])
        with suppress(OSError):
            return socket.gethostbyname(self.host())
        return "127.0.0.1"

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


# The TCP connections of this machine and the bytes that each carried, asked of the kernel as `ss` does.
# By sock_diag(7), for /proc/net/tcp tells no bytes. The structures: linux/inet_diag.h and linux/tcp.h.
_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301  # NETLINK_SOCK_DIAG and, of messages, NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # length, type, flags, number, sender
_REQUEST = struct.Struct("=BBBxI48x")  # family, protocol, what is wanted besides, states
_ANSWER = struct.Struct("=4x2s2s16s16s28xI")  # ports, addresses, inode
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_INFO = 2  # INET_DIAG_INFO: a struct tcp_info
_BYTES, _BYTES_AT = struct.Struct("=QQ"), 120  # tcpi_bytes_acked, tcpi_bytes_received
_ALL_BUT_LISTENING = 0xFFF & ~(1 << 10)
_IPV4_BYTES = 4
_ANSWER_SECONDS = 2.0
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Hold one end of a connection that is open, or was closed within a minute."""

    local: tuple[str, int]
    remote: tuple[str, int]
    inode: int  # of its socket; 0 where that is closed
    carried_bytes: int  # both ways together; 0 where it is closed


def read_connections() -> list[Connection] | None:
    """Return every connection; None where the kernel does not tell."""
    try:
        return [found for family in (socket.AF_INET, socket.AF_INET6) for found in _ask(family)]
    except (AttributeError, OSError, struct.error):  # AttributeError: this is no Linux
        return None


def _ask(family: int) -> Iterator[Connection]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_SECONDS)
        asked = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ALL_BUT_LISTENING)
        kernel.send(_HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, _DUMP, 0, 0) + asked)
        while True:
            for kind, message in _messages(kernel.recv(_MOST_BYTES)):
                if kind == _ERROR:
                    raise OSError("the kernel does not list its connections")
                if kind == _DONE:
                    return
                yield _connection(family, message)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[_aligned(length) :]


def _connection(family: int, message: bytes) -> Connection:
    here, there, local, remote, inode = _ANSWER.unpack_from(message)
    return Connection(
        local=(_address(family, local), int.from_bytes(here, "big")),
        remote=(_address(family, remote), int.from_bytes(there, "big")),
        inode=inode,
        carried_bytes=_carried(message[_ANSWER.size :]),
    )


def _carried(attributes: bytes) -> int:
    while attributes:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == _INFO:
            return sum(_BYTES.unpack_from(attributes, _ATTRIBUTE.size + _BYTES_AT))
        attributes = attributes[_aligned(length) :]
    return 0


def _address(family: int, found: bytes) -> str:
    """Return an address in the one form that both families share."""
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(found[:_IPV4_BYTES]))
    address = ipaddress.IPv6Address(found)
    return str(address.ipv4_mapped or address)


def _aligned(length: int) -> int:
    """Return where what follows begins: at a multiple of four."""
    return max(length + 3 & ~3, _ATTRIBUTE.size)
