"""The stacks of one cluster on AWS Batch, in the order of their deployment, and what each tells the next."""

from __future__ import annotations

import aws_cdk as cdk

from slipway.infra.build.foundation import (
    build_network,
    build_observability,
    build_storage,
    cluster_tags,
    environment,
    place_of,
    tag,
)
from slipway.infra.declare.checkout import CONTAINERS
from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.images.repositories import ImageRepository
from slipway.infra.patterns.network.endpoints import BATCH_SERVICES
from slipway.infra.patterns.nodes.markets import not_spot, purchase
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count
from slipway.infra.patterns.observability.alarms import blocked_queue
from slipway.infra.stacks.batch import BatchProps, BatchStack, ImageProps, NodeProps
from slipway.infra.stacks.images import ImagesProps, ImagesStack
from slipway.infra.stacks.network import NetworkStack
from slipway.infra.stacks.observability import ObservabilityStack
from slipway.infra.stacks.storage import StorageStack
from slipway.jobs.catalogue.instances import instance_type
from slipway.jobs.core.images.container_images import image_tag
from slipway.jobs.core.names import derived_name, stack_name


def build_batch_cluster(app: cdk.App, cluster: BatchCluster) -> None:
    network = build_network(app, cluster, BATCH_SERVICES)
    storage = build_storage(app, cluster, network)
    stuck = blocked_queue(cluster.name, _queue_name(cluster))
    observability = build_observability(app, cluster, network, stuck)
    repository = storage.add_image_repository()
    images = _images(app, cluster, (storage, observability), repository)
    compute = _compute(app, cluster, (network, storage, observability), repository)
    # `cdk deploy dl1` brings the means to build its image along.
    compute.add_stack_dependency(images)
    tag(cluster, network, storage, observability, images, compute)


def _images(
    app: cdk.App,
    cluster: BatchCluster,
    below: tuple[StorageStack, ObservabilityStack],
    repository: ImageRepository,
) -> ImagesStack:
    storage, observability = below
    name = stack_name(cluster.name, "images")
    props = ImagesProps(
        stack_name=name,
        env=environment(cluster),
        project_name=_project_name(cluster),
        image=cluster.image,
        architecture=instance_type(cluster.instance_type).architecture,
        bucket=storage.bucket,
        repository=repository.repository,
        data_key=storage.key,
        log_group=observability.add_log_group("BuildLogs"),
    )
    return ImagesStack(app, name, props=props)


def _compute(
    app: cdk.App,
    cluster: BatchCluster,
    below: tuple[NetworkStack, StorageStack, ObservabilityStack],
    repository: ImageRepository,
) -> BatchStack:
    network, storage, observability = below
    name = stack_name(cluster.name)
    props = BatchProps(
        cluster=cluster.name,
        stack_name=name,
        env=environment(cluster),
        place=place_of(cluster, network),
        nodes=_nodes(cluster),
        image=_image(cluster, repository),
        bucket=storage.bucket,
        data_key=storage.key,
        files=storage.files,
        job_logs=observability.job_logs,
        queue_name=_queue_name(cluster),
        job_timeout_hours=cluster.job_timeout_hours,
        job_attempts=cluster.job_attempts,
        runnable_timeout_minutes=cluster.runnable_timeout_minutes,
        tags=cluster_tags(cluster),
    )
    return BatchStack(app, name, props=props)


def _nodes(cluster: BatchCluster) -> NodeProps:
    facts = instance_type(cluster.instance_type)
    return NodeProps(
        instance_type=facts,
        max_nodes=cluster.max_nodes,
        efa_interfaces=efa_interface_count(facts, cluster.efa_interfaces),
        purchase=purchase(not_spot(cluster.market), cluster.reservation_id),
        ami_parameter=cluster.ami_parameter,
        root_volume_gib=cluster.root_volume_gib,
    )


def _image(cluster: BatchCluster, repository: ImageRepository) -> ImageProps:
    return ImageProps(
        name=cluster.image,
        tag=image_tag(CONTAINERS, cluster.image),
        repository_uri=repository.uri,
        build_project=_project_name(cluster),
    )


def _queue_name(cluster: BatchCluster) -> str:
    return derived_name("batch", cluster.name)


def _project_name(cluster: BatchCluster) -> str:
    return derived_name("build-project", cluster.name, "images")
