"""The VPC's DNS server, at the address of the VPC plus two: it knows the hosts of the VPC, and nothing else.

It answers over UDP, as resolvers ask first. Names of AWS's own endpoints are not there: what runs on a host
has AWS_ENDPOINT_URL. Format: RFC 1035, section 4.1.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from slipway.yard.machines.hosts import host_store
from slipway.yard.machines.hosts.host_store import Host

_HEAD = struct.Struct(">6H")
_LARGEST = 512
_ADDRESS, _INTERNET = 1, 1
_ANSWER, _AUTHORITATIVE, _RECURSION = 0x8000, 0x0400, 0x0080
_ASKED_FOR_RECURSION = 0x0100
_NO_SUCH_NAME = 3
_TTL_S = 60
_SAME_NAME = 0xC000 | _HEAD.size  # a pointer to the question's


def serve(door: socket.socket, host: Host) -> None:
    """Serve the host until the door is closed; only that host's processes reach it."""
    name = f"resolver {host.instance.name}"
    threading.Thread(target=_serve, args=(door, host), name=name, daemon=True).start()


def _serve(door: socket.socket, host: Host) -> None:
    while True:
        try:
            asked, sender = door.recvfrom(_LARGEST)
        except OSError:
            return
        if not sender:  # it is being closed
            return
        with suppress(OSError, ValueError, IndexError, struct.error):
            door.sendto(answer(asked, host), sender)


def answer(asked: bytes, host: Host) -> bytes:
    """Answer the first question of a request; raises one of several errors for what is no request."""
    identifier, flags, questions, *_ = _HEAD.unpack_from(asked)
    if flags & _ANSWER or not questions:
        raise ValueError("this is no question")
    name, end = _name(asked, _HEAD.size)
    kind, family = struct.unpack_from(">2H", asked, end)
    question = asked[_HEAD.size : end + 4]
    address = _address(name, host)
    records = b""
    if address and (kind, family) == (_ADDRESS, _INTERNET):
        fields = struct.pack(">HHHIH", _SAME_NAME, kind, family, _TTL_S, 4)
        records = fields + socket.inet_aton(address)
    said = _ANSWER | _AUTHORITATIVE | _RECURSION | flags & _ASKED_FOR_RECURSION
    said |= 0 if address else _NO_SUCH_NAME
    return _HEAD.pack(identifier, said, 1, 1 if records else 0, 0, 0) + question + records


def _name(asked: bytes, at: int) -> tuple[str, int]:
    labels = []
    while length := asked[at]:
        if length > 63:
            raise ValueError("a question's name has no pointers")
        labels.append(asked[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels).lower(), at + 1


def _address(name: str, host: Host) -> str:
    with host_store.changed:
        known = [each.instance for each in host_store.hosts.values()]
    place = (host.instance.region, host.instance.vpc)
    found = (each for each in known if (each.region, each.vpc) == place and each.hostname == name)
    return next((each.address for each in found), "")
