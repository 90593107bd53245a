"""Who is of an MPI cluster now, asked of EC2: its nodes and laptops see the same ones in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slipway.jobs.cloud.aws import reader
from slipway.jobs.words.mpi.mpi_nodes import Member, order_members
from slipway.jobs.words.names import CLUSTER_TAG


def find_members(cluster: str, region: str) -> list[Member]:
    """Find the nodes of a cluster, the main node first."""
    return order_members(_instances(cluster, region, ["running"]))


def count_left(cluster: str, region: str) -> int:
    """Count the machines that run, and those that still shut down: these write until they are off."""
    return sum(1 for _ in _instances(cluster, region, ["pending", "running", "stopping", "shutting-down"]))


def _instances(cluster: str, region: str, states: list[str]) -> Iterator[Any]:
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": states},
    ]
    pages = reader("ec2", region).get_paginator("describe_instances").paginate(Filters=filters)
    reservations = (reservation for page in pages for reservation in page["Reservations"])
    return (instance for reservation in reservations for instance in reservation["Instances"])
