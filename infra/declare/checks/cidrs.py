"""Address ranges as a declaration writes them: one spelling each."""

from __future__ import annotations

import re
from ipaddress import IPv4Network

from slipway.infra.declare.checks.secret_values import shown
from slipway.jobs.words.errors import Problem


def ipv4_network(text: str) -> IPv4Network | None:
    """Return the network; None unless it is written as address/prefix without bits of a host."""
    try:
        found = IPv4Network(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def no_ipv4_network(where: str, text: str, otherwise: str = "") -> Problem:
    """Say what is wrong with a text that is no network, and suggest the one that was probably meant."""
    message = f"is {shown(text)}, not an IPv4 network such as 10.0.0.0/16"
    return Problem(where=where, message=f"{message}{_why(text)}", hint=_suggestion(text) or otherwise)


def _why(text: str) -> str:
    if ":" in text:
        return "; the VPC has no IPv6"
    address, slash, prefix = text.strip().partition("/")
    if any(int(part) > 255 for part in re.findall(r"\d{1,9}", address)):
        return "; each number of an address is 0 to 255"
    if not slash:
        return "; its prefix is missing"
    if re.fullmatch(r"\d{1,9}", prefix) and int(prefix) > 32:
        return "; a prefix is 0 to 32"
    try:
        IPv4Network(text)
    except ValueError as error:
        return "; it has host bits set" if "host bits" in str(error) else ""
    return ""


def _suggestion(text: str) -> str:
    try:
        return f"write {IPv4Network(text.strip(), strict=False)}"
    except ValueError:
        return ""
