"""Publishes what was deployed, for those who submit jobs: one SSM parameter a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.jobs.words.targets import Target, encode_target, parameter_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecordProps:
    target: Target


class TargetRecord(Construct):
    def __init__(self, scope: Construct, id: str, *, props: TargetRecordProps) -> None:
        super().__init__(scope, id)
        self.resource = ssm.CfnParameter(
            self,
            "Resource",
            type="String",
            name=parameter_name(props.target.name),
            value=encode_target(props.target),
            description=f"Slipway cluster {props.target.name}: what jobs need to know to be submitted",
        )
