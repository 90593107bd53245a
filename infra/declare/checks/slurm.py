"""What the settings of a Slurm cluster must be to each other; rules.py lists them."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.declare.types import Cluster, FileSystem, Market, SlurmCluster
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.ami_locks import ARCHITECTURE
from slipway.jobs.words.slurm import most_workers, smallest_controller


def controller_with_room(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, SlurmCluster)
    size = cluster.controller
    if size is not None and cluster.max_nodes > most_workers(size):
        yield Problem(
            where="max_nodes",
            message=f"is {cluster.max_nodes}, but a {size} controller has room for {most_workers(size)} "
            "workers, and AWS PCS changes no controller's size",
            hint=f"or destroy the cluster and deploy it as {smallest_controller(cluster.max_nodes)}",
        )


def home_on_efs(cluster: Cluster) -> Iterator[Problem]:
    """Check that homes and job folders are shared: sbatch writes on the node that runs the job."""
    if cluster.file_system is not FileSystem.EFS:
        yield Problem(
            where="file_system",
            message=f"is {cluster.file_system}, but the home and the folders of jobs are on EFS",
            hint="use FileSystem.EFS; scratch=True adds an FSx for Lustre",
        )


def no_spot_with_slurm(cluster: Cluster) -> Iterator[Problem]:
    if cluster.market is Market.SPOT:
        yield Problem(
            where="market",
            message="is spot, which ends a job of many nodes with each single one that AWS takes back",
            hint="use Market.ON_DEMAND, a reservation, or Market.CAPACITY_BLOCK",
        )


def login_node_of_one_architecture(cluster: Cluster) -> Iterator[Problem]:
    """Check that the login node runs the workers' machine image."""
    assert isinstance(cluster, SlurmCluster)
    login = instance_type(cluster.login_instance_type)
    if login.architecture != ARCHITECTURE:
        yield Problem(
            where="login_instance_type",
            message=f"is {login.name} ({login.architecture}), but Slipway's AMIs are {ARCHITECTURE}",
            hint=f"use a type of {ARCHITECTURE}, such as c6i.large",
        )
