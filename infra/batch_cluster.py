"""The stacks of one cluster on AWS Batch, in the order of their deployment, and what each tells the next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import aws_cdk as cdk

from infra.config import BatchCluster
from infra.patterns.markets import purchase
from infra.patterns.network_interfaces import efa_interface_count
from infra.stacks.batch import BatchProps, BatchStack, ImageProps, NodeProps, PlaceProps
from infra.stacks.images import ImagesProps, ImagesStack
from infra.stacks.network import NetworkProps, NetworkStack
from infra.stacks.observability import ObservabilityProps, ObservabilityStack
from infra.stacks.storage import StorageProps, StorageStack
from jobs.core.images import image_tag
from jobs.core.instances import instance_type
from jobs.core.names import CLUSTER_TAG, derived_name, stack_name

CONTAINERS = Path(__file__).parents[1] / "containers"


def build_batch_cluster(app: cdk.App, cluster: BatchCluster) -> None:
    network = _network(app, cluster)
    storage = _storage(app, cluster, network)
    observability = _observability(app, cluster, network)
    images = _images(app, cluster, storage, observability)
    compute = _compute(app, cluster, (network, storage, observability))
    # `cdk deploy dl1` brings the means to build its image along.
    compute.add_stack_dependency(images)
    for stack in (network, storage, observability, images, compute):
        for key, value in cluster_tags(cluster).items():
            cdk.Tags.of(stack).add(key, value)


def cluster_tags(cluster: BatchCluster) -> Mapping[str, str]:
    return MappingProxyType({**cluster.tags, CLUSTER_TAG: cluster.name})


def _network(app: cdk.App, cluster: BatchCluster) -> NetworkStack:
    name = stack_name(cluster.name, "network")
    props = NetworkProps(
        cluster=cluster.name,
        stack_name=name,
        env=_environment(cluster),
        region=cluster.region,
        zone=cluster.zone,
        cidr=cluster.vpc_cidr,
        egress=cluster.egress,
        log_retention_days=cluster.log_retention_days,
        keep_data=cluster.keep_data,
    )
    return NetworkStack(app, name, props=props)


def _storage(app: cdk.App, cluster: BatchCluster, network: NetworkStack) -> StorageStack:
    name = stack_name(cluster.name, "storage")
    props = StorageProps(
        cluster=cluster.name,
        stack_name=name,
        env=_environment(cluster),
        region=cluster.region,
        vpc_id=network.vpc.vpc_id,
        subnet_id=network.vpc.private_subnet_id,
        file_system=cluster.file_system,
        fsx_capacity_gib=cluster.fsx_capacity_gib,
        fsx_mbps_per_tib=cluster.fsx_mbps_per_tib,
        log_retention_days=cluster.log_retention_days,
        keep_data=cluster.keep_data,
    )
    return StorageStack(app, name, props=props)


def _observability(app: cdk.App, cluster: BatchCluster, network: NetworkStack) -> ObservabilityStack:
    name = stack_name(cluster.name, "observability")
    props = ObservabilityProps(
        cluster=cluster.name,
        stack_name=name,
        env=_environment(cluster),
        log_key=network.log_key,
        log_retention_days=cluster.log_retention_days,
        keep_data=cluster.keep_data,
        job_queue_name=_queue_name(cluster),
        dashboard_name=derived_name("dashboard", cluster.name),
        budget_usd_per_month=cluster.budget_usd_per_month,
        alert_email=cluster.alert_email,
    )
    return ObservabilityStack(app, name, props=props)


def _images(
    app: cdk.App, cluster: BatchCluster, storage: StorageStack, observability: ObservabilityStack
) -> ImagesStack:
    name = stack_name(cluster.name, "images")
    props = ImagesProps(
        stack_name=name,
        env=_environment(cluster),
        project_name=_project_name(cluster),
        image=cluster.image,
        architecture=instance_type(cluster.instance_type).architecture,
        bucket=storage.bucket,
        repository=storage.image.repository,
        data_key=storage.key,
        log_group=observability.build_logs,
    )
    return ImagesStack(app, name, props=props)


def _compute(
    app: cdk.App, cluster: BatchCluster, below: tuple[NetworkStack, StorageStack, ObservabilityStack]
) -> BatchStack:
    network, storage, observability = below
    name = stack_name(cluster.name)
    props = BatchProps(
        cluster=cluster.name,
        stack_name=name,
        env=_environment(cluster),
        place=_place(cluster, network),
        nodes=_nodes(cluster),
        image=_image(cluster, storage),
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


def _place(cluster: BatchCluster, network: NetworkStack) -> PlaceProps:
    return PlaceProps(
        region=cluster.region,
        zone=cluster.zone,
        vpc_id=network.vpc.vpc_id,
        subnet_id=network.vpc.private_subnet_id,
        egress=cluster.egress,
        endpoint_security_group_id=network.endpoint_security_group_id,
    )


def _nodes(cluster: BatchCluster) -> NodeProps:
    facts = instance_type(cluster.instance_type)
    return NodeProps(
        instance_type=facts,
        max_nodes=cluster.max_nodes,
        efa_interfaces=efa_interface_count(facts, cluster.efa_interfaces),
        purchase=purchase(cluster.market, cluster.reservation_id),
        ami_parameter=cluster.ami_parameter,
        root_volume_gib=cluster.root_volume_gib,
    )


def _image(cluster: BatchCluster, storage: StorageStack) -> ImageProps:
    return ImageProps(
        name=cluster.image,
        tag=image_tag(CONTAINERS, cluster.image),
        repository_uri=storage.image.uri,
        build_project=_project_name(cluster),
    )


def _environment(cluster: BatchCluster) -> cdk.Environment:
    """The account stays open where none is declared: any that the credentials belong to."""
    return cdk.Environment(account=cluster.account, region=cluster.region)


def _queue_name(cluster: BatchCluster) -> str:
    return derived_name("batch", cluster.name)


def _project_name(cluster: BatchCluster) -> str:
    return derived_name("build-project", cluster.name, "images")
