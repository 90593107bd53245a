"""Publishes where a machine image is baked: one SSM parameter an image, read by `slipway bake`."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.jobs.words.images.amis import Bakery, bakery_parameter, encode_bakery


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryRecordProps:
    bakery: Bakery


class BakeryRecord(Construct):
    def __init__(self, scope: Construct, id: str, *, props: BakeryRecordProps) -> None:
        super().__init__(scope, id)
        self.resource = ssm.CfnParameter(
            self,
            "Resource",
            type="String",
            name=bakery_parameter(props.bakery.name),
            value=encode_bakery(props.bakery),
            description=f"Slipway machine image {props.bakery.name}: where it is baked",
        )
