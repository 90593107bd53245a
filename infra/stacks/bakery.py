"""The bakery of one machine image: recipe, pipeline, and the record that `slipway image bake` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Egress
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import (
    EncryptedLogGroup,
    EncryptedLogGroupProps,
    EncryptionKey,
    EncryptionKeyProps,
    KeyUser,
)
from slipway.infra.patterns.images.bakery_roles import (
    BakeryNetwork,
    BakeryProps,
    BakeryRecord,
    BakeryRecordProps,
)
from slipway.infra.patterns.images.image_pipeline import (
    ImagePipeline,
    ImagePipelineProps,
    ImageRecipe,
    ImageRecipeProps,
)
from slipway.infra.patterns.images.payload import DeliveredPayload, PayloadFile, deliver_payload
from slipway.infra.patterns.network.vpc import FlowLogs, FlowLogsProps, Vpc, VpcProps
from slipway.infra.patterns.storage.buckets import LogBucket, LogBucketProps
from slipway.jobs.words.images.amis import Bakery, ami_parameter, ami_tags
from slipway.jobs.words.images.containers import manifest_parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class LockProps:
    digest: str
    versions: Mapping[str, str]
    values: Mapping[str, str]  # by the parameters of components


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryStackProps:
    image: MachineImage
    network: BakeryNetwork
    lock: LockProps
    payload: PayloadFile | None


class BakeryStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: BakeryStackProps) -> None:
        super().__init__(scope, id, declared=props.image, tags=props.image.billing_tags)
        logs = EncryptedLogGroup(
            self,
            "Logs",
            props=EncryptedLogGroupProps(
                name=f"/aws/imagebuilder/{id}",
                key=props.network.log_key,
                retention_days=props.image.log_retention_days,
                keep=False,
            ),
        )
        payload = deliver_payload(self, "Payload", props.payload)
        recipe = _recipe(self, props, payload)
        pipeline = _pipeline(self, props, recipe=recipe, logs=logs, payload=payload)
        bakery = _bakery(self, props, recipe=recipe, pipeline=pipeline, logs=logs)
        BakeryRecord(self, "Bakery", props=BakeryRecordProps(bakery=bakery))


def _recipe(stack: BakeryStack, props: BakeryStackProps, payload: DeliveredPayload) -> ImageRecipe:
    return ImageRecipe(
        stack,
        "Recipe",
        props=ImageRecipeProps(
            name=stack.stack_name,
            image=props.image,
            values={**props.lock.values, **payload.values},
            fingerprint=f"{sorted(props.lock.values.items())} {payload.digest}",
        ),
    )


def _pipeline(
    stack: BakeryStack,
    props: BakeryStackProps,
    *,
    recipe: ImageRecipe,
    logs: EncryptedLogGroup,
    payload: DeliveredPayload,
) -> ImagePipeline:
    return ImagePipeline(
        stack,
        "Pipeline",
        props=ImagePipelineProps(
            bakery=BakeryProps(
                resource_name=stack.stack_name,
                image=props.image,
                network=props.network,
                log_group_arn=logs.arn,
                payload_arn=payload.object_arn,
            ),
            recipe=recipe,
            log_group_name=logs.name,
            ami_tags={**props.image.billing_tags, **_ami_tags(props, recipe)},
        ),
    )


def _ami_tags(props: BakeryStackProps, recipe: ImageRecipe) -> Mapping[str, str]:
    return ami_tags(
        props.image.name,
        lock_digest=props.lock.digest,
        recipe_version=recipe.version,
        versions=props.lock.versions,
    )


def _bakery(
    stack: BakeryStack,
    props: BakeryStackProps,
    *,
    recipe: ImageRecipe,
    pipeline: ImagePipeline,
    logs: EncryptedLogGroup,
) -> Bakery:
    image = props.image
    return Bakery(
        name=image.name,
        account=stack.account,
        region=image.region,
        pipeline_arn=pipeline.resource.attr_arn,
        ami_parameter=ami_parameter(image.name),
        manifest_parameter=manifest_parameter(ami_parameter(image.name)),
        lock_digest=props.lock.digest,
        recipe_version=recipe.version,
        log_group=logs.name,
        parent=image.parent,
        snapshot=props.lock.values["AptSnapshot"],
    )


# Where machine images of a region are built: a private subnet that reaches others by HTTPS alone, and logs.
# Packages come from many vendors, so this network has a NAT gateway, which costs about 33 dollars a month as
# long as the stack is there: `cdk destroy` it when nothing is to be baked for a while. S3 has no gateway
# endpoint here: its policy admits this account's buckets only, and AWS's installers are in others.
_CIDR = "10.60.0.0/24"  # reached by nobody and peered with nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryNetworkStackProps:
    image: MachineImage  # the first of its region: all of a region have one account and one zone


class BakeryNetworkStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: BakeryNetworkStackProps) -> None:
        image = props.image
        super().__init__(scope, id, declared=image, tags={})
        log_key = EncryptionKey(
            self,
            "LogKey",
            props=EncryptionKeyProps(
                description="Logs of the machine images that Slipway bakes",
                region=image.region,
                users=(KeyUser.LOGS,),
                keep=False,
            ),
        ).key
        vpc = Vpc(
            self,
            "Vpc",
            props=VpcProps(name=id, cidr=_CIDR, zone=image.zone, egress=Egress.NAT),
        )
        FlowLogs(
            self,
            "FlowLogs",
            props=FlowLogsProps(
                vpc_id=vpc.vpc_id, key=log_key, retention_days=image.log_retention_days, keep=False
            ),
        )
        logs = LogBucket(self, "Logs", props=LogBucketProps(retention_days=image.log_retention_days))
        self.network: BakeryNetwork = BakeryNetwork(
            subnet_id=vpc.private_subnet_id,
            security_group_id=_machines(self, vpc.vpc_id).attr_group_id,
            log_bucket=logs.bucket,
            log_key=log_key,
        )


def _machines(stack: BakeryNetworkStack, vpc_id: str) -> ec2.CfnSecurityGroup:
    return ec2.CfnSecurityGroup(
        stack,
        "Machines",
        group_description="Machines that become images: HTTPS out, nothing in",
        vpc_id=vpc_id,
        security_group_egress=[
            ec2.CfnSecurityGroup.EgressProperty(
                ip_protocol="tcp", from_port=443, to_port=443, cidr_ip="0.0.0.0/0", description="HTTPS"
            )
        ],
    )
