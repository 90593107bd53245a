"""Who is of an MPI cluster now, asked of EC2: its nodes and laptops see the same ones in the same order."""

from __future__ import annotations

from slipway.jobs.aws import reader
from slipway.jobs.core.mpi.mpi_nodes import Member, order_members
from slipway.jobs.core.names import CLUSTER_TAG


def find_members(cluster: str, region: str) -> list[Member]:
    """Find the nodes of a cluster, the main node first."""
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    pages = reader("ec2", region).get_paginator("describe_instances").paginate(Filters=filters)
    reservations = (reservation for page in pages for reservation in page["Reservations"])
    return order_members(instance for reservation in reservations for instance in reservation["Instances"])
