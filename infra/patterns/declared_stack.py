"""The base of every stack: it stands where its declaration says, and everything in it is tagged."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Environment, IStackSynthesizer, Stack, Tags
from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Cluster


class DeclaredStack(Stack):
    """Leaves the account open where none is declared: it is the one that the credentials belong to."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        declared: Cluster | MachineImage,
        tags: Mapping[str, str],
        synthesizer: IStackSynthesizer | None = None,
    ) -> None:
        environment = Environment(account=declared.account, region=declared.region)
        super().__init__(scope, id, env=environment, synthesizer=synthesizer)
        for key, value in tags.items():
            Tags.of(self).add(key, value)
