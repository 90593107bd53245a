"""A cluster of equal machines that run jobs over MPI and ssh: its nodes, and how jobs reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import CfnParameter, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.patterns.access.cluster_secret import ClusterSecret, ClusterSecretProps
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.access.target_record import TargetRecord, TargetRecordProps
from slipway.infra.patterns.mpi.mpi_access import MpiAccess, MpiAccessProps
from slipway.infra.patterns.mpi.node_group import Hours, NodeGroup, NodeGroupProps
from slipway.infra.patterns.mpi.run_documents import RunDocuments, RunDocumentsProps, document_name
from slipway.infra.patterns.nodes.boot import SHARED, Work, boot_parameters
from slipway.infra.patterns.nodes.launch_template import Machine, NodeTemplate, NodeTemplateProps
from slipway.infra.patterns.nodes.markets import Purchase
from slipway.infra.patterns.nodes.places import PlaceProps, node_security_group
from slipway.infra.patterns.nodes.processors import leaves_threads_to_linux
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.catalogue.instances import InstanceType
from slipway.jobs.core.targets import MpiTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProps:
    instance_type: InstanceType
    nodes: int
    efa_interfaces: int
    purchase: Purchase
    machine_image: str
    ami_parameter: str
    root_volume_gib: int
    mpi: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiProps:
    cluster: str
    stack_name: str
    env: Environment
    place: PlaceProps
    machines: MachineProps
    node_group: str
    idle_minutes: int | None
    hours: Hours
    ssh_cidrs: tuple[str, ...]
    bucket: s3.IBucket
    data_key: kms.IKey
    files: SharedFiles | None
    job_logs: EncryptedLogGroup
    job_timeout_hours: int
    tags: Mapping[str, str]


class MpiStack(Stack):
    def __init__(self, scope: Construct, id: str, *, props: MpiProps) -> None:
        super().__init__(scope, id, stack_name=props.stack_name, env=props.env)
        secret = ClusterSecret(
            self, "Secret", props=ClusterSecretProps(cluster=props.cluster, region=props.place.region)
        )
        access = MpiAccess(
            self,
            "Access",
            props=MpiAccessProps(
                node_group=props.node_group,
                bucket=props.bucket,
                data_key=props.data_key,
                secret=secret,
                log_group_arn=props.job_logs.arn,
            ),
        )
        template = _template(self, props, access.node_role, secret)
        _node_group(self, props, access.node_role, template)
        RunDocuments(
            self,
            "Documents",
            props=RunDocumentsProps(
                cluster=props.cluster, job_timeout_seconds=props.job_timeout_hours * 3600
            ),
        )
        TargetRecord(self, "Target", props=TargetRecordProps(target=_target(self, props)))


def _template(stack: MpiStack, props: MpiProps, role: ServiceRole, secret: ClusterSecret) -> NodeTemplate:
    image_id = CfnParameter(
        stack,
        "NodeImage",
        type="AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
        default=props.machines.ami_parameter,
        description="Where the id of the nodes' machine image is kept",
    )
    profile = iam.CfnInstanceProfile(stack, "InstanceProfile", roles=[role.role.role_name])
    return NodeTemplate(
        stack,
        "NodeTemplate",
        props=NodeTemplateProps(
            efa_interfaces=props.machines.efa_interfaces,
            security_group_id=node_security_group(stack, props.place, props.files, props.ssh_cidrs),
            root_volume_gib=props.machines.root_volume_gib,
            purchase=props.machines.purchase,
            boot_parameters=_boot_parameters(props, secret),
            boot_script="boot_mpi_node.sh",
            tags=props.tags,
            machine=Machine(
                instance_type=props.machines.instance_type,
                image_id=image_id.value_as_string,
                instance_profile_arn=profile.attr_arn,
            ),
        ),
    )


def _boot_parameters(props: MpiProps, secret: ClusterSecret) -> Mapping[str, object]:
    """No secret is among them: anybody on a node may read its user data."""
    return {
        **boot_parameters(props.cluster, props.place.region, props.files, Work.PROCESS),
        "secret_arn": secret.arn,
        "bucket": props.bucket.bucket_name,
        "file_system_mount": SHARED if props.files else None,
        "nodes": props.machines.nodes,
        "mpi": props.machines.mpi,
        "log_group": props.job_logs.name,
        "smt": "off" if leaves_threads_to_linux(props.machines.instance_type) else "on",
    }


def _node_group(stack: MpiStack, props: MpiProps, role: ServiceRole, template: NodeTemplate) -> NodeGroup:
    return NodeGroup(
        stack,
        "NodeGroup",
        props=NodeGroupProps(
            name=props.node_group,
            cluster=props.cluster,
            nodes=props.machines.nodes,
            subnet_id=props.place.subnet_id,
            template=template,
            node_role=role,
            in_placement_group=props.machines.purchase.in_placement_group,
            idle_minutes=props.idle_minutes,
            hours=props.hours,
        ),
    )


def _target(stack: MpiStack, props: MpiProps) -> MpiTarget:
    return MpiTarget(
        name=props.cluster,
        account=stack.account,
        region=props.place.region,
        zone=props.place.zone,
        instance_type=props.machines.instance_type.name,
        is_spot=props.machines.purchase.is_spot,
        max_nodes=props.machines.nodes,
        node_group=props.node_group,
        run_document=document_name(props.cluster, "run"),
        stop_document=document_name(props.cluster, "stop"),
        log_group=props.job_logs.name,
        bucket=props.bucket.bucket_name,
        machine_image=props.machines.machine_image,
        ami_parameter=props.machines.ami_parameter,
        mpi=props.machines.mpi,
        job_timeout_seconds=props.job_timeout_hours * 3600,
        efa_interfaces=props.machines.efa_interfaces,
        file_system_id=props.files.file_system_id if props.files else None,
        file_system_mount=SHARED if props.files else None,
    )
