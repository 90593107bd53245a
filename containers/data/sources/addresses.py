"""Says which machines a URL may lead to: public ones, and those that SLIPWAY_PRIVATE_HOSTS names.

A job runs next to services that trust all callers: the metadata service gives out the machine's keys.
The variable holds host names and addresses, comma-separated, for the process that reads (a mirror in your own
network, tests). It never opens link-local addresses, where the metadata service is.
"""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from slipway.containers.data.errors import DataError

VARIABLE = "SLIPWAY_PRIVATE_HOSTS"
HINT = (
    "give a public address, or copy the file into the cluster's bucket: slipway upload; for a mirror of your "
    f"own, name its host in {VARIABLE}"
)

Address = IPv4Address | IPv6Address

# IPv4 and IPv6; fd00:ec2::/32 is AWS's own (EC2 user guide, "Instance metadata").
_NEVER = tuple(ip_network(text) for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32"))
# Where an IPv6 address holds an IPv4 one, and how many bits stand behind it: NAT64, IPv4-compatible, 6to4.
_TUNNELS = ((ip_network("64:ff9b::/96"), 0), (ip_network("::/96"), 0), (ip_network("2002::/16"), 80))


def refuse_private_host(host: str) -> None:
    """Refuse a host that is spelled as an address of a private machine, or that names this one."""
    name = host.rstrip(".").lower()
    if (name == "localhost" or name.endswith(".localhost")) and name not in _named_hosts():
        raise _refused(host, "this machine")
    if address := spelled_address(name):
        refuse_private_address(host, address)


def refuse_private_address(host: str, address: Address) -> None:
    """Refuse the address that a host turned out to have."""
    for each in _meant(address):
        if any(each in network for network in _NEVER if network.version == each.version):
            raise DataError(
                f"{host[:200]} is {address}, a link-local address such as the metadata service's",
                hint="give another host; no setting allows this one",
            )
        if (not each.is_global or each.is_multicast) and host.rstrip(".").lower() not in _named_hosts():
            raise _refused(host, str(address))


def spelled_address(host: str) -> Address | None:
    """Return the address that a host is written as; systems read 127.1 and 2130706433 as one, too."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return None


def _meant(address: Address) -> tuple[Address, ...]:
    """Return the address itself and the IPv4 address that it may lead to."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    inner = [
        IPv4Address(int(address) >> bits & 0xFFFFFFFF) for network, bits in _TUNNELS if address in network
    ]
    return (address, *inner)


def _named_hosts() -> frozenset[str]:
    return frozenset(name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def _refused(host: str, what: str) -> DataError:
    return DataError(f"{host[:200]} is {what}, which is not public", hint=HINT)
