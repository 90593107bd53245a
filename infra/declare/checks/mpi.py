"""What the settings of a cluster of MPI machines must be to each other; rules.py lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import collapse_addresses

from slipway.infra.declare.checks.cidrs import ipv4_network, no_ipv4_network
from slipway.infra.declare.checks.secret_values import shown
from slipway.infra.declare.types import Cluster, FileSystem, Market, MpiCluster
from slipway.jobs.words.errors import Problem

# The largest private range; whoever asks for more than that has written a way around "everybody".
_WIDEST_PREFIX = 8
# Minute, hour, day of the month, month, day of the week.
_CRON_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def ssh_from_named_networks(cluster: Cluster) -> Iterator[Problem]:
    """Check the networks together: 0.0.0.0/1 and 128.0.0.0/1 are the internet."""
    assert isinstance(cluster, MpiCluster)
    networks = [network for text in cluster.ssh_cidrs if (network := ipv4_network(text)) is not None]
    for text in cluster.ssh_cidrs:
        if ipv4_network(text) is None:
            yield no_ipv4_network("ssh_cidrs", text, otherwise=_SESSION_MANAGER)
    addresses = sum(network.num_addresses for network in collapse_addresses(networks))
    if addresses > 2 ** (32 - _WIDEST_PREFIX):
        yield Problem(
            where="ssh_cidrs",
            message=f"opens port 22 to {addresses} addresses; the most allowed is a /{_WIDEST_PREFIX}",
            hint=_SESSION_MANAGER,
        )


_SESSION_MANAGER = "name the network that you come from, or none: `aws ssm start-session` needs no open port"


def spot_with_files_that_outlive_it(cluster: Cluster) -> Iterator[Problem]:
    """Check that a job on Spot saves elsewhere: AWS takes the machine with two minutes' notice."""
    if cluster.market is Market.SPOT and cluster.file_system is FileSystem.NONE:
        yield Problem(
            where="market",
            message="is spot, but without a file system checkpoints are lost with their node",
            hint="use FileSystem.EFS, or Market.ON_DEMAND",
        )


def no_capacity_block(cluster: Cluster) -> Iterator[Problem]:
    """Refuse what EC2 does not sell (EC2 user guide, "Capacity Blocks for ML": P and Trn types)."""
    if cluster.market is Market.CAPACITY_BLOCK and not cluster.instance_type.startswith(("p", "trn")):
        yield Problem(
            where="market",
            message="is capacity-block, but AWS sells these only for P and Trn types",
            hint="use Market.TARGETED_RESERVATION with a reservation_id, or Market.ON_DEMAND",
        )


def times_of_the_clock(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, MpiCluster)
    for where, text in (("start_at", cluster.start_at), ("stop_at", cluster.stop_at)):
        for field, (low, high) in zip((text or "").split(), _CRON_LIMITS, strict=False):
            wrong = [number for number in re.findall(r"\d+", field) if not low <= int(number) <= high]
            if wrong:
                message = f"is {shown(text)}, where {wrong[0]} is not from {low} to {high}"
                yield Problem(
                    where=where,
                    message=message,
                    hint="write minute hour day month weekday, such as 0 8 * * MON-FRI",
                )
    if cluster.start_at is None and cluster.stop_at is None and cluster.time_zone != "Etc/UTC":
        yield Problem(
            where="time_zone",
            message="has no effect: neither start_at nor stop_at is set",
            hint="leave it out",
        )
