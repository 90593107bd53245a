"""The roles of a bakery: for the machine that becomes the image, Image Builder, and deleting old images.

Image Builder writes the id where clusters look only with an execution role (Image Builder user guide,
"Prerequisites for SSM output parameters"), and then uses that role for everything. Its statements are those
of AWSServiceRoleForImageBuilder, version 25, without what these pipelines do not do, and with resources
named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.patterns.access.roles import session_manager
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.statements import ACCOUNT_ID, PARTITION, Statement, allow
from slipway.jobs.words.images.amis import ami_parameter

MADE_BY_IMAGE_BUILDER = "EC2 Image Builder"  # value of the tag CreatedBy on everything that it makes


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryNetwork:
    """Holds what the network of a region's bakeries makes for each of them."""

    subnet_id: str  # the only subnet in which machines are started
    security_group_id: str
    log_bucket: s3.IBucket
    log_key: kms.IKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryParts:
    """Names everything with which one machine image is baked; its roles may use nothing else."""

    resource_name: str  # of its components, recipe, pipeline and log group
    image: MachineImage
    network: BakeryNetwork
    logs: EncryptedLogGroup
    payload_arn: str | None  # None: no component of the image needs it


def instance_statements(bakery: BakeryParts, component_arns: Sequence[str]) -> tuple[Statement, ...]:
    """Follow EC2InstanceProfileForImageBuilder, for the components of one image and no containers."""
    read = allow("ReadComponents", "imagebuilder:GetComponent", on=component_arns)
    tools = allow("ReadToolsOfImageBuilder", "s3:GetObject", on=f"arn:{PARTITION}:s3:::ec2imagebuilder*")
    payload = allow("ReadPayload", "s3:GetObject", on=bakery.payload_arn or "")
    logs = bakery.network.log_bucket.arn_for_objects(f"{bakery.image.name}/*")
    keep = allow("KeepLogs", "s3:PutObject", on=logs)
    found = (session_manager(), _logs(bakery), read, tools, keep)
    return (*found, payload) if bakery.payload_arn else found


def execution_statements(
    scope: Construct, bakery: BakeryParts, instance_role_arn: str
) -> tuple[Statement, ...]:
    return (
        *_start_machines(bakery, instance_role_arn),
        *_watch_machines(bakery),
        *_run_on_machines(scope, bakery),
        *_make_images(bakery),
        *_use_parameters(scope, bakery),
        _logs(bakery),
        allow(
            "AwaitSteps",
            "events:DeleteRule",
            "events:DescribeRule",
            "events:PutRule",
            "events:PutTargets",
            "events:RemoveTargets",
            on=_arn(scope, "events", "rule", "ImageBuilder-*"),
        ),
    )


def lifecycle_statements(scope: Construct, bakery: BakeryParts) -> tuple[Statement, ...]:
    """Return the part of EC2ImageBuilderLifecycleExecutionPolicy that deleting needs."""
    images = f"{_ec2(bakery)}:image/*"
    return (
        allow(
            "DeleteImages",
            "imagebuilder:DeleteImage",
            on=_arn(scope, "imagebuilder", "image", f"{bakery.resource_name}/*"),
        ),
        _made_by_image_builder(
            "DeregisterAmis", ["ec2:DeregisterImage", "ec2:DescribeImageAttribute"], [images]
        ),
        _made_by_image_builder(
            "DeleteSnapshots",
            ["ec2:DeleteSnapshot"],
            [f"{_ec2(bakery)}:snapshot/*"],
        ),
        allow("FindThem", "ec2:DescribeImages", "tag:GetResources", on="*"),
    )


def _start_machines(bakery: BakeryParts, instance_role_arn: str) -> tuple[Statement, ...]:
    """Allow any AMI, because the parent may be anybody's, but one subnet, and only tagged machines."""
    ec2, own = _ec2(bakery), f"{_ec2(bakery)}{ACCOUNT_ID}"
    place = (
        "network-interface/*",
        f"security-group/{bakery.network.security_group_id}",
        f"subnet/{bakery.network.subnet_id}",
    )
    return (
        allow(
            "StartFrom",
            "ec2:RunInstances",
            on=[f"{ec2}:image/*", f"{ec2}:snapshot/*", *(f"{own}:{each}" for each in place)],
        ),
        allow(
            "StartTagged",
            "ec2:RunInstances",
            on=[f"{own}:instance/*", f"{own}:volume/*"],
            where={"StringEquals": {"aws:RequestTag/CreatedBy": MADE_BY_IMAGE_BUILDER}},
        ),
        allow(
            "GiveThemTheirRole",
            "iam:PassRole",
            on=instance_role_arn,
            where={"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        ),
    )


def _watch_machines(bakery: BakeryParts) -> tuple[Statement, ...]:
    own = f"{_ec2(bakery)}{ACCOUNT_ID}"
    change = ("DescribeInstanceAttribute", "StartInstances", "StopInstances", "TerminateInstances")
    see = (
        "DescribeImages",
        "DescribeInstanceStatus",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeInstances",
        "DescribeSnapshots",
        "DescribeSubnets",
        "DescribeTags",
    )
    return (
        _made_by_image_builder("StopMachines", [f"ec2:{each}" for each in change], [f"{own}:instance/*"]),
        allow("SeeMachines", *(f"ec2:{each}" for each in see), on="*"),
    )


def _run_on_machines(scope: Construct, bakery: BakeryParts) -> tuple[Statement, ...]:
    document = f"arn:{PARTITION}:ssm:{bakery.image.region}::document/AWS-RunShellScript"
    return (
        allow("RunShell", "ssm:SendCommand", on=document),
        allow(
            "RunOnOwn",
            "ssm:SendCommand",
            on=_arn(scope, "ec2", "instance", "*"),
            where={"StringEquals": {"ssm:resourceTag/CreatedBy": MADE_BY_IMAGE_BUILDER}},
        ),
        allow(
            "SeeRuns",
            "ssm:DescribeInstanceInformation",
            "ssm:GetCommandInvocation",
            "ssm:ListCommandInvocations",
            "ssm:ListCommands",
            on="*",
        ),
    )


def _make_images(bakery: BakeryParts) -> tuple[Statement, ...]:
    """Allow images only of its own machines: another's would hold what that has on its disk.

    They are encrypted with AWS's key for EBS, whose policy admits everyone who may use EBS here.
    """
    ec2 = _ec2(bakery)
    images, snapshots = f"{ec2}:image/*", f"{ec2}:snapshot/*"
    return (
        allow("MakeImages", "ec2:CopyImage", "ec2:CreateImage", "ec2:RegisterImage", on=[images, snapshots]),
        _made_by_image_builder("TakeFromOwnMachines", ["ec2:CreateImage"], [f"{ec2}{ACCOUNT_ID}:instance/*"]),
        _made_by_image_builder(
            "ChangeOwnImages", ["ec2:DeregisterImage", "ec2:ModifyImageAttribute"], [images]
        ),
        allow("TagImages", "ec2:CreateTags", on=images),
        allow(
            "TagWhatItMakes",
            "ec2:CreateTags",
            on=[snapshots, *(f"{ec2}{ACCOUNT_ID}:{each}/*" for each in ("instance", "volume"))],
            where={"StringEquals": {"aws:RequestTag/CreatedBy": MADE_BY_IMAGE_BUILDER}},
        ),
        allow(
            "TagAsItMakes",
            "ec2:CreateTags",
            on=[f"{ec2}{ACCOUNT_ID}:{each}/*" for each in ("instance", "network-interface", "volume")],
            where={"StringEquals": {"ec2:CreateAction": ["CreateImage", "RunInstances"]}},
        ),
    )


def _use_parameters(scope: Construct, bakery: BakeryParts) -> tuple[Statement, ...]:
    publish = allow(
        "PublishId",
        "ssm:GetParameter",
        "ssm:PutParameter",
        on=_arn(scope, "ssm", "parameter", ami_parameter(bakery.image.name).removeprefix("/")),
    )
    parameter = bakery.image.parent.removeprefix("ssm:/")
    if parameter == bakery.image.parent:
        return (publish,)
    account = "" if parameter.startswith("aws/service/") else ACCOUNT_ID  # AWS's own are nobody's
    arn = f"arn:{PARTITION}:ssm:{bakery.image.region}:{account}:parameter/{parameter}"
    return publish, allow("FindParent", "ssm:GetParameter", on=arn)


def _logs(bakery: BakeryParts) -> Statement:
    return allow(
        "WriteLogs",
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        on=[bakery.logs.arn, f"{bakery.logs.arn}:log-stream:*"],
    )


def _made_by_image_builder(sid: str, actions: list[str], resources: list[str]) -> Statement:
    return allow(
        sid,
        *actions,
        on=resources,
        where={"StringEquals": {"ec2:ResourceTag/CreatedBy": MADE_BY_IMAGE_BUILDER}},
    )


def _ec2(bakery: BakeryParts) -> str:
    """Return the beginning of EC2's ARNs with the account, which ARNs of images and snapshots lack."""
    return f"arn:{PARTITION}:ec2:{bakery.image.region}:"


def _arn(scope: Construct, service: str, resource: str, name: str) -> str:
    return Stack.of(scope).format_arn(
        service=service,
        resource=resource,
        resource_name=name,
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )
