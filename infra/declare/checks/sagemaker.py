"""What the settings of SageMaker training must be to each other; rules.py lists them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from slipway.infra.declare.training_image import training_image
from slipway.infra.declare.types import Cluster, FileSystem, Market, SageMakerCluster
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.sagemaker import NoTrainingImage

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


def wait_for_spot_alone(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, SageMakerCluster)
    if cluster.market is not Market.SPOT and cluster.spot_wait_hours != _default("spot_wait_hours"):
        yield Problem(
            where="spot_wait_hours",
            message=f"has no effect: the market is {cluster.market}",
            hint="leave it out, or set market=Market.SPOT",
        )


def no_warm_pool_of_spot(cluster: Cluster) -> Iterator[Problem]:
    """Refuse what SageMaker refuses with the job (developer guide, "Managed warm pools")."""
    assert isinstance(cluster, SageMakerCluster)
    if cluster.warm_pool_minutes and cluster.market is Market.SPOT:
        yield Problem(
            where="warm_pool_minutes",
            message=f"is {cluster.warm_pool_minutes}, but SageMaker keeps no Spot instances warm",
            hint="leave it out, or use Market.ON_DEMAND",
        )


def volume_on_the_disks_of_the_host(cluster: Cluster) -> Iterator[Problem]:
    """Check against local storage, which takes the place of the volume (API reference, ResourceConfig)."""
    assert isinstance(cluster, SageMakerCluster)
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


def training_image_of_the_region(cluster: Cluster) -> Iterator[Problem]:
    """Check that AWS has an image for the region and the devices of the type."""
    assert isinstance(cluster, SageMakerCluster)
    try:
        training_image(cluster)
    except NoTrainingImage as error:
        yield Problem(where="machine_image", message=f"cannot be used: {error.message}", hint=error.hint)


def efa_left_to_sagemaker(cluster: Cluster) -> Iterator[Problem]:
    if cluster.efa_interfaces is not None:
        yield Problem(
            where="efa_interfaces",
            message=f"is {cluster.efa_interfaces}, but SageMaker opens every EFA interface of a type itself",
            hint="leave it out",
        )


def _default(name: str) -> object:
    return next(field.default for field in fields(SageMakerCluster) if field.name == name)
