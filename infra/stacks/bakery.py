"""The bakery of one machine image: recipe, pipeline, and the record that `slipway image bake` reads.

Also the network in which all bakeries of a region build.
"""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Egress
from slipway.infra.patterns.access.records import publish_bakery
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup, EncryptionKey, KeyUser
from slipway.infra.patterns.images.bakery_roles import BakeryNetwork, BakeryParts
from slipway.infra.patterns.images.image_pipeline import ImageLock, ImagePipeline, ImageRecipe
from slipway.infra.patterns.images.payload import Payload, deliver_payload
from slipway.infra.patterns.network.vpc import FlowLogs, Vpc
from slipway.infra.patterns.storage.buckets import LogBucket
from slipway.jobs.words.images.amis import Bakery, ami_parameter, ami_tags
from slipway.jobs.words.images.containers import manifest_parameter


class BakeryStack(DeclaredStack):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        image: MachineImage,
        network: BakeryNetwork,
        lock: ImageLock,
        payload: Payload | None,
    ) -> None:
        super().__init__(scope, id, declared=image, tags=image.billing_tags)
        logs = EncryptedLogGroup(
            self,
            "Logs",
            name=f"/aws/imagebuilder/{id}",
            key=network.log_key,
            retention_days=image.log_retention_days,
            keep=False,
        )
        delivered = deliver_payload(self, "Payload", payload)
        recipe = ImageRecipe(
            self,
            "Recipe",
            image=image,
            values={**lock.values, **delivered.values},
            fingerprint=f"{sorted(lock.values.items())} {delivered.digest}",
        )
        tags = ami_tags(
            image.name, lock_digest=lock.digest, recipe_version=recipe.version, versions=lock.versions
        )
        parts = BakeryParts(
            resource_name=id, image=image, network=network, logs=logs, payload_arn=delivered.object_arn
        )
        pipeline = ImagePipeline(
            self, "Pipeline", bakery=parts, recipe=recipe, ami_tags={**image.billing_tags, **tags}
        )
        record = Bakery(
            name=image.name,
            account=self.account,
            region=image.region,
            pipeline_arn=pipeline.resource.attr_arn,
            ami_parameter=ami_parameter(image.name),
            manifest_parameter=manifest_parameter(ami_parameter(image.name)),
            lock_digest=lock.digest,
            recipe_version=recipe.version,
            log_group=logs.name,
            parent=image.parent,
            snapshot=lock.values["AptSnapshot"],
        )
        publish_bakery(self, record)


# The network in which a region's machine images are built: a private subnet with only HTTPS to the outside,
# and logs. Packages come from many vendors, so it has a NAT gateway, which costs about 33 dollars a month
# while the stack exists: `cdk destroy` it if nothing will be baked for a while. S3 has no gateway endpoint
# here: its policy admits only this account's buckets, and AWS's installers are in others.
_CIDR = "10.60.0.0/24"  # reached by nobody and peered with nothing


class BakeryNetworkStack(DeclaredStack):
    """Takes the first image of its region: all of a region have one account and one zone."""

    def __init__(self, scope: Construct, id: str, *, image: MachineImage) -> None:
        super().__init__(scope, id, declared=image, tags={})
        log_key = EncryptionKey(
            self,
            "LogKey",
            description="Logs of the machine images that Slipway bakes",
            region=image.region,
            users=(KeyUser.LOGS,),
            keep=False,
        ).key
        vpc = Vpc(self, "Vpc", cidr=_CIDR, zone=image.zone, egress=Egress.NAT)
        days = image.log_retention_days
        FlowLogs(self, "FlowLogs", vpc_id=vpc.vpc_id, key=log_key, retention_days=days, keep=False)
        logs = LogBucket(self, "Logs", retention_days=days)
        machines = ec2.CfnSecurityGroup(
            self,
            "Machines",
            group_description="Machines that become images: HTTPS out, nothing in",
            vpc_id=vpc.vpc_id,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="tcp", from_port=443, to_port=443, cidr_ip="0.0.0.0/0", description="HTTPS"
                )
            ],
        )
        self.network: BakeryNetwork = BakeryNetwork(
            subnet_id=vpc.private_subnet_id,
            security_group_id=machines.attr_group_id,
            log_bucket=logs.bucket,
            log_key=log_key,
        )
