"""A cluster on AWS Batch: nodes, the queue before them, and the multi-node job that runs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import CfnParameter, Environment, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.patterns.access.node_access import NodeAccess, NodeAccessProps
from slipway.infra.patterns.access.target_record import TargetRecord, TargetRecordProps
from slipway.infra.patterns.batch.compute_environment import JobQueue, JobQueueProps, NodePool, NodePoolProps
from slipway.infra.patterns.batch.job_definition import HostFolder, MultiNodeJob, MultiNodeJobProps
from slipway.infra.patterns.nodes.accelerators import container_needs
from slipway.infra.patterns.nodes.boot import SCRATCH, SHARED, boot_parameters
from slipway.infra.patterns.nodes.launch_template import NodeTemplate, NodeTemplateProps
from slipway.infra.patterns.nodes.markets import Purchase
from slipway.infra.patterns.nodes.places import PlaceProps, node_security_group
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.catalogue.instances import InstanceType
from slipway.jobs.core.targets import BatchTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProps:
    name: str
    tag: str
    repository_uri: str
    build_project: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProps:
    instance_type: InstanceType
    max_nodes: int
    efa_interfaces: int
    purchase: Purchase
    ami_parameter: str
    root_volume_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProps:
    cluster: str
    stack_name: str
    env: Environment
    place: PlaceProps
    nodes: NodeProps
    image: ImageProps
    bucket: s3.IBucket
    data_key: kms.IKey
    files: SharedFiles | None
    job_logs: EncryptedLogGroup
    queue_name: str
    job_timeout_hours: int
    job_attempts: int
    runnable_timeout_minutes: int
    tags: Mapping[str, str]


class BatchStack(Stack):
    def __init__(self, scope: Construct, id: str, *, props: BatchProps) -> None:
        super().__init__(scope, id, stack_name=props.stack_name, env=props.env)
        security_group_id = node_security_group(self, props.place, props.files)
        access = NodeAccess(
            self,
            "Access",
            props=NodeAccessProps(
                bucket=props.bucket, data_key=props.data_key, log_group_arn=props.job_logs.arn
            ),
        )
        pool = _node_pool(self, props, access, security_group_id)
        queue = JobQueue(
            self,
            "Queue",
            props=JobQueueProps(
                name=props.queue_name,
                pool=pool,
                runnable_timeout_seconds=props.runnable_timeout_minutes * 60,
            ),
        )
        job = _job(self, props, access)
        target = _target(self, props, queue=queue, job=job)
        TargetRecord(self, "Target", props=TargetRecordProps(target=target))


def _node_pool(stack: BatchStack, props: BatchProps, access: NodeAccess, security_group_id: str) -> NodePool:
    image_id = CfnParameter(
        stack,
        "NodeImage",
        type="AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
        default=props.nodes.ami_parameter,
        description="Where the id of the nodes' machine image is kept",
    )
    template = NodeTemplate(
        stack,
        "NodeTemplate",
        props=NodeTemplateProps(
            efa_interfaces=props.nodes.efa_interfaces,
            security_group_id=security_group_id,
            root_volume_gib=props.nodes.root_volume_gib,
            purchase=props.nodes.purchase,
            boot_parameters=boot_parameters(props.cluster, props.place.region, props.files),
            tags=props.tags,
        ),
    )
    return NodePool(
        stack,
        "Pool",
        props=NodePoolProps(
            instance_type=props.nodes.instance_type.name,
            vcpus=props.nodes.instance_type.vcpus,
            max_nodes=props.nodes.max_nodes,
            subnet_id=props.place.subnet_id,
            image_id=image_id.value_as_string,
            template=template,
            node_role=access.instance_role,
            in_placement_group=props.nodes.purchase.in_placement_group,
            job_timeout_minutes=props.job_timeout_hours * 60,
            tags={"Name": props.stack_name, **props.tags},
        ),
    )


def _job(stack: BatchStack, props: BatchProps, access: NodeAccess) -> MultiNodeJob:
    shared = (SHARED,) if props.files is not None else ()
    return MultiNodeJob(
        stack,
        "Job",
        props=MultiNodeJobProps(
            image=f"{props.image.repository_uri}:{props.image.tag}",
            instance_type=props.nodes.instance_type,
            needs=container_needs(props.nodes.instance_type, props.nodes.efa_interfaces),
            nodes=props.nodes.max_nodes,
            job_role_arn=access.job_role.arn,
            execution_role_arn=access.execution_role.arn,
            log_group_name=props.job_logs.name,
            region=props.place.region,
            folders=tuple(HostFolder(name=path.rpartition("/")[2], path=path) for path in (SCRATCH, *shared)),
            timeout_seconds=props.job_timeout_hours * 3600,
            attempts=props.job_attempts,
        ),
    )


def _target(stack: BatchStack, props: BatchProps, *, queue: JobQueue, job: MultiNodeJob) -> BatchTarget:
    return BatchTarget(
        name=props.cluster,
        account=stack.account,
        region=props.place.region,
        zone=props.place.zone,
        instance_type=props.nodes.instance_type.name,
        max_nodes=props.nodes.max_nodes,
        queue_arn=queue.resource.attr_job_queue_arn,
        job_definition_arn=job.resource.ref,
        log_group=props.job_logs.name,
        bucket=props.bucket.bucket_name,
        image=props.image.name,
        image_tag=props.image.tag,
        repository_uri=props.image.repository_uri,
        build_project=props.image.build_project,
        job_timeout_seconds=props.job_timeout_hours * 3600,
        job_attempts=props.job_attempts,
        efa_interfaces=props.nodes.efa_interfaces,
        file_system_id=props.files.file_system_id if props.files else None,
        file_system_mount=SHARED if props.files else None,
    )
