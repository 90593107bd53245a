"""The TCP connections of this machine and the bytes that each carried, asked of the kernel as `ss` does.

By sock_diag(7), for /proc/net/tcp tells no bytes. The structures: linux/inet_diag.h and linux/tcp.h.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

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
