"""Files shared by all nodes of a cluster. A new sort is one construct and one row of FILE_SYSTEMS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aws_cdk import CfnResource, CfnTag, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_efs as efs
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.declare.types import Cluster, FileSystem
from slipway.infra.patterns.encryption import removal_policy
from slipway.infra.patterns.network.security_groups import NOTHING, PortRange, allow
from slipway.infra.patterns.network.vpc import NodeVpc
from slipway.infra.patterns.statements import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemProps:
    name: str
    cluster: Cluster
    vpc: NodeVpc
    key: kms.IKey
    mount_point: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFiles:
    """Tells nodes how to mount the shared files. A cluster without any has NO_FILES."""

    kind: FileSystem
    file_system_id: str | None
    mount_point: str | None
    mount_name: str = ""  # Lustre's
    security_group_id: str
    ports: tuple[PortRange, ...]
    calls_back: bool = False  # Lustre's servers open connections to their clients

    def may_mount(self, scope: Construct) -> tuple[Statement, ...]:
        """Allow mounting them, where that needs a permission; write it in the stack of `scope`."""
        if self.kind is not FileSystem.EFS:
            return ()
        own = Stack.of(scope).format_arn(
            service="elasticfilesystem", resource="file-system", resource_name=self.file_system_id
        )
        return (Statement(sid="MountFiles", actions=_MOUNT, resources=[own], conditions=_ENCRYPTED),)


NO_FILES = SharedFiles(
    kind=FileSystem.NONE, file_system_id=None, mount_point=None, security_group_id="", ports=()
)


class MountRules(Construct):
    """Lets nodes reach the file system, and lets it reach them if its protocol needs that."""

    def __init__(self, scope: Construct, id: str, *, nodes: str, files: SharedFiles) -> None:
        super().__init__(scope, id)
        for ports in files.ports:
            allow(self, "Mount", client=nodes, server=files.security_group_id, ports=ports)
            if files.calls_back:
                allow(self, "CallBack", client=files.security_group_id, server=nodes, ports=ports)


class ElasticFiles(Construct):
    """Makes an EFS with one mount target, in the zone of the nodes: traffic between zones is billed."""

    def __init__(self, scope: Construct, id: str, *, props: FileSystemProps) -> None:
        super().__init__(scope, id)
        group = _security_group(self, props.vpc.vpc_id)
        self.resource = efs.CfnFileSystem(
            self,
            "Resource",
            encrypted=True,
            kms_key_id=props.key.key_arn,
            performance_mode="generalPurpose",
            throughput_mode="elastic",
            # Backups outlive the files by 35 days and cost money: data that is deleted with its cluster has
            # none.
            backup_policy=efs.CfnFileSystem.BackupPolicyProperty(
                status="ENABLED" if props.cluster.keep_data else "DISABLED"
            ),
            file_system_policy=_only_encrypted_mounts(),
            file_system_tags=[efs.CfnFileSystem.ElasticFileSystemTagProperty(key="Name", value=props.name)],
            lifecycle_policies=[
                efs.CfnFileSystem.LifecyclePolicyProperty(transition_to_ia="AFTER_30_DAYS"),
                efs.CfnFileSystem.LifecyclePolicyProperty(
                    transition_to_primary_storage_class="AFTER_1_ACCESS"
                ),
            ],
        )
        self.resource.apply_removal_policy(removal_policy(props.cluster.keep_data))
        self.mount_target = efs.CfnMountTarget(
            self,
            "MountTarget",
            file_system_id=self.resource.ref,
            subnet_id=props.vpc.private_subnet_id,
            security_groups=[group.attr_group_id],
        )
        self.files: SharedFiles = SharedFiles(
            kind=FileSystem.EFS,
            file_system_id=self.resource.ref,
            mount_point=props.mount_point,
            security_group_id=group.attr_group_id,
            ports=(PortRange(first=2049, last=2049),),
        )


class LustreFiles(Construct):
    """Makes an FSx for Lustre of PERSISTENT_2, which keeps data and encrypts it with our key."""

    def __init__(self, scope: Construct, id: str, *, props: FileSystemProps) -> None:
        super().__init__(scope, id)
        group = _security_group(self, props.vpc.vpc_id)
        self.resource = fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type="SSD",
            storage_capacity=props.cluster.fsx_capacity_gib,
            kms_key_id=props.key.key_arn,
            subnet_ids=[props.vpc.private_subnet_id],
            security_group_ids=[group.attr_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=props.cluster.fsx_mbps_per_tib,
                data_compression_type="LZ4",
                automatic_backup_retention_days=7 if props.cluster.keep_data else 0,
                copy_tags_to_backups=True,
            ),
            tags=[CfnTag(key="Name", value=props.name)],
        )
        self.resource.apply_removal_policy(removal_policy(props.cluster.keep_data))
        self.files: SharedFiles = SharedFiles(
            kind=FileSystem.FSX_LUSTRE,
            file_system_id=self.resource.ref,
            mount_point=props.mount_point,
            mount_name=self.resource.attr_lustre_mount_name,
            security_group_id=group.attr_group_id,
            ports=_LUSTRE_PORTS,
            calls_back=True,
        )
        # FSx looks at the group's rules as it makes the file system, and refuses one whose rules come
        # a second later (aws/aws-parallelcluster#6181). Its interface stays with it, and EC2 deletes no group
        # of one: what is kept keeps its group and the rules among its servers (the same, #4402).
        rules = _allow_among_servers(self, group)
        self.resource.node.add_dependency(*rules)
        for held in (group, *rules):
            held.apply_removal_policy(removal_policy(props.cluster.keep_data))


# FSx for Lustre user guide, "File system access control with Amazon VPC".
_LUSTRE_PORTS = (PortRange(first=988, last=988), PortRange(first=1018, last=1023))

FILE_SYSTEMS: Mapping[FileSystem, Callable[[Construct, str, FileSystemProps], SharedFiles]] = {
    FileSystem.NONE: lambda scope, name, props: NO_FILES,
    FileSystem.EFS: lambda scope, name, props: ElasticFiles(scope, name, props=props).files,
    FileSystem.FSX_LUSTRE: lambda scope, name, props: LustreFiles(scope, name, props=props).files,
}


def _security_group(scope: Construct, vpc_id: str) -> ec2.CfnSecurityGroup:
    """Make a group that admits nobody yet: the cluster's stack adds its nodes."""
    return ec2.CfnSecurityGroup(
        scope,
        "SecurityGroup",
        group_description="Shared files: the nodes of the cluster",
        vpc_id=vpc_id,
        security_group_egress=[NOTHING],
    )


def _allow_among_servers(scope: Construct, group: ec2.CfnSecurityGroup) -> list[CfnResource]:
    """Let the servers of one Lustre file system reach each other through the group; return the rules."""
    rules: list[CfnResource] = []
    for ports in _LUSTRE_PORTS:
        into = ec2.CfnSecurityGroupIngress(
            scope,
            f"FromServers{ports.first}",
            group_id=group.attr_group_id,
            ip_protocol="tcp",
            from_port=ports.first,
            to_port=ports.last,
            source_security_group_id=group.attr_group_id,
            description="Lustre among its servers",
        )
        out = ec2.CfnSecurityGroupEgress(
            scope,
            f"ToServers{ports.first}",
            group_id=group.attr_group_id,
            ip_protocol="tcp",
            from_port=ports.first,
            to_port=ports.last,
            destination_security_group_id=group.attr_group_id,
            description="Lustre among its servers",
        )
        rules += [into, out]
    return rules


_MOUNT = (
    "elasticfilesystem:ClientMount",
    "elasticfilesystem:ClientRootAccess",
    "elasticfilesystem:ClientWrite",
)
_ENCRYPTED = {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true", "aws:SecureTransport": "true"}}


def _only_encrypted_mounts() -> iam.PolicyDocument:
    """Allow only mounts through the mount target (in the nodes' subnet), with TLS, by a role that may mount.

    The account is the principal, since EFS enforces no key of the principal's (its user guide, "Using IAM to
    control access to file systems").
    """
    mount = iam.PolicyStatement(
        sid="MountThroughTheMountTarget",
        principals=[iam.AccountRootPrincipal()],
        actions=list(_MOUNT),
        conditions=_ENCRYPTED,
    )
    return iam.PolicyDocument(statements=[mount])
