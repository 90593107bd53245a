"""Rules between settings of one kind of cluster; rules.py lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import collapse_addresses

from slipway.infra.declare.checks.networks import ipv4_network, no_ipv4_network
from slipway.infra.declare.checks.nodes import defaults_of
from slipway.infra.declare.checks.values import shown
from slipway.infra.declare.node_images import login_type_of, training_image
from slipway.infra.declare.types import (
    Cluster,
    FileSystem,
    Market,
    MpiCluster,
    SageMakerCluster,
    SlurmCluster,
)
from slipway.jobs.words.catalogue.hardware import LOGIN_TYPES
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.aws_images import NoPublishedImage
from slipway.jobs.words.slurm import most_workers, smallest_controller

# The largest private range; a larger one would be another way to write "everybody".
_WIDEST_PREFIX = 8
# Minute, hour, day of the month, month, day of the week.
_CRON_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def ssh_from_named_networks(cluster: MpiCluster) -> Iterator[Problem]:
    """Check the networks together: 0.0.0.0/1 and 128.0.0.0/1 are the internet."""
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
    """Check that a job on Spot saves elsewhere: AWS takes the machine at two minutes' notice."""
    if cluster.market is Market.SPOT and cluster.file_system is FileSystem.NONE:
        yield Problem(
            where="market",
            message="is spot, but without a file system checkpoints are lost with their node",
            hint="use file_system=FileSystem.EFS, or market=Market.ON_DEMAND",
        )


def no_capacity_block(cluster: Cluster) -> Iterator[Problem]:
    """Refuse types that EC2 sells in no capacity block (EC2 user guide, "Capacity Blocks for ML")."""
    if cluster.market is Market.CAPACITY_BLOCK and not cluster.instance_type.startswith(("p", "trn")):
        yield Problem(
            where="market",
            message="is capacity-block, but AWS sells these only for P and Trn types",
            hint="use market=Market.ON_DEMAND, reservation_id=None",
        )


def times_of_the_clock(cluster: MpiCluster) -> Iterator[Problem]:
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


# Rules between settings of a Slurm cluster; rules.py lists them.


def controller_with_room(cluster: SlurmCluster) -> Iterator[Problem]:
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
            hint="use file_system=FileSystem.EFS; the setting scratch adds an FSx for Lustre",
        )


def login_node_of_one_architecture(cluster: SlurmCluster) -> Iterator[Problem]:
    """Check that the login node can run the workers' machine image."""
    login, worker = instance_type(login_type_of(cluster)), instance_type(cluster.instance_type)
    if login.architecture != worker.architecture:
        yield Problem(
            where="login_instance_type",
            message=f"is {login.name} ({login.architecture}), and the AMI of its workers is for "
            f"{worker.architecture}",
            hint=f'use login_instance_type="{LOGIN_TYPES[worker.architecture]}"',
        )


# Rules between settings of SageMaker training; rules.py lists them.
_MARKETS = (Market.ON_DEMAND, Market.SPOT)
_FILE_SYSTEMS = (FileSystem.NONE, FileSystem.FSX_LUSTRE)


def bought_by_sagemaker(cluster: Cluster) -> Iterator[Problem]:
    """Refuse reservations of EC2: SageMaker's instances are not the account's own."""
    if cluster.market not in _MARKETS:
        yield Problem(
            where="market",
            message=f"is {cluster.market}, but SageMaker uses no reservation of EC2",
            hint="use Market.ON_DEMAND or Market.SPOT",
        )


def wait_for_spot_alone(cluster: SageMakerCluster) -> Iterator[Problem]:
    usual = defaults_of(SageMakerCluster)["spot_wait_hours"]
    if cluster.market is not Market.SPOT and cluster.spot_wait_hours != usual:
        yield Problem(
            where="spot_wait_hours",
            message=f"has no effect: the market is {cluster.market}",
            hint="leave it out, or set market=Market.SPOT",
        )


def no_warm_pool_of_spot(cluster: SageMakerCluster) -> Iterator[Problem]:
    """Refuse warm Spot instances, as SageMaker does for each job (developer guide, "Managed warm pools")."""
    if cluster.warm_pool_minutes and cluster.market is Market.SPOT:
        yield Problem(
            where="warm_pool_minutes",
            message=f"is {cluster.warm_pool_minutes}, but SageMaker keeps no Spot instances warm",
            hint="leave it out, or use Market.ON_DEMAND",
        )


def volume_on_the_disks_of_the_host(cluster: SageMakerCluster) -> Iterator[Problem]:
    """Check the size with local storage, which replaces the volume (API reference, ResourceConfig)."""
    local = instance_type(cluster.instance_type).local_storage_gb
    if local and cluster.volume_gb > local:
        yield Problem(
            where="volume_gb",
            message=f"is {cluster.volume_gb}, but {cluster.instance_type} has {local} GB of local storage "
            "and gets no other volume",
            hint=f"use at most {local}, or read data from FSx for Lustre",
        )


def files_that_training_mounts(cluster: Cluster) -> Iterator[Problem]:
    if cluster.file_system not in _FILE_SYSTEMS:
        yield Problem(
            where="file_system",
            message=f"is {cluster.file_system}, but jobs of SageMaker share FSx for Lustre here, or nothing",
            hint="use FileSystem.FSX_LUSTRE, or FileSystem.NONE: checkpoints go to S3 all the same",
        )


def training_image_of_the_region(cluster: SageMakerCluster) -> Iterator[Problem]:
    """Check that AWS has an image for the region and the devices of the type."""
    try:
        training_image(cluster)
    except NoPublishedImage as error:
        yield Problem(where="machine_image", message=f"cannot be used: {error.message}", hint=error.hint)


def efa_left_to_sagemaker(cluster: Cluster) -> Iterator[Problem]:
    if cluster.efa_interfaces is not None:
        yield Problem(
            where="efa_interfaces",
            message=f"is {cluster.efa_interfaces}, but SageMaker opens every EFA interface of a type itself",
            hint="leave it out",
        )
