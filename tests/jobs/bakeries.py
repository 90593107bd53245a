"""A pipeline of Image Builder as infra deploys one, in a yard whose machines begin with a few programs."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.jobs.words.images.amis import Bakery, ami_parameter, ami_tags, bakery_parameter, encode_bakery
from tests.yard.conftest import REGION
from tests.yard.services.imagebuilder.components.test_steps import bash, document
from tests.yard.services.imagebuilder.conftest import Bakery as YardBakery

IMAGE = "cpu-mpi"
VERSIONS = {"pytorch": "2.13.0"}
SNAPSHOT = "20261120T000000Z"
HARDWARE = bash("exit 1", name="LoadOnHardware")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    yard: YardBakery

    def deploy(
        self,
        *commands: str,
        lock_digest: str = "a" * 16,
        recipe_version: str = "1.0.1",
        parent: str = "ami-12345678",
    ) -> Bakery:
        """A pipeline whose only component runs these commands, and its record."""
        tags = ami_tags(IMAGE, lock_digest=lock_digest, recipe_version=recipe_version, versions=VERSIONS)
        distribution = {
            "region": REGION,
            "amiDistributionConfiguration": {
                "name": "slipway-cpu-mpi-{{ imagebuilder:buildDate }}",
                "amiTags": dict(tags),
            },
            "ssmParameterConfigurations": [{"parameterName": ami_parameter(IMAGE)}],
        }
        pipeline = self.yard.pipeline(document(bash(*commands), HARDWARE), distributions=[distribution])
        bakery = Bakery(
            name=IMAGE,
            account="123456789012",
            region=REGION,
            pipeline_arn=pipeline,
            ami_parameter=ami_parameter(IMAGE),
            manifest_parameter="/slipway/amis/cpu-mpi/manifest",
            lock_digest=lock_digest,
            recipe_version=recipe_version,
            log_group="/aws/imagebuilder/cpu-mpi",
            parent=parent,
            snapshot=SNAPSHOT,
        )
        self.yard.yard.client("ssm").put_parameter(
            Name=bakery_parameter(IMAGE), Value=encode_bakery(bakery), Type="String", Overwrite=True
        )
        return bakery

    def parameter(self, name: str) -> str:
        return str(self.yard.yard.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
