"""Which image the training jobs of a SageMaker cluster run in: the one of its region and its devices."""

from __future__ import annotations

from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.types import SageMakerCluster
from slipway.jobs.words import sagemaker
from slipway.jobs.words.catalogue.instances import device_of, instance_type


def training_image(cluster: SageMakerCluster) -> str:
    return sagemaker.training_image(
        CONTAINERS,
        cluster.machine_image,
        region=cluster.region,
        device=device_of(instance_type(cluster.instance_type)),
    )
