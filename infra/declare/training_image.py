"""Which image the training jobs of a SageMaker cluster run in: the one of its region and its devices."""

from __future__ import annotations

from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.types import SageMakerCluster
from slipway.jobs.words.catalogue.accelerators import device_of
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.sagemaker import training_images


def training_image(cluster: SageMakerCluster) -> str:
    return training_images.training_image(
        CONTAINERS,
        cluster.machine_image,
        region=cluster.region,
        device=device_of(instance_type(cluster.instance_type)),
    )
