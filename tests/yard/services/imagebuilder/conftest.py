"""Fixtures: a yard whose machine images begin with a few programs, and a bakery for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE, TIERS, Tier, best_tier
from slipway.yard.services.imagebuilder.machine.base import BASE_VARIABLE
from tests.waiting import until
from tests.yard.accounts import raise_quotas
from tests.yard.conftest import REGION, RunningYard
from tests.yard.services.imagebuilder.tiny import write_root

PROFILE = "builder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baked:
    """An image when its bake has ended, and what the bake said."""

    image: Mapping[str, Any]
    lines: Sequence[str]
    home: Path

    @property
    def status(self) -> str:
        return str(self.image["state"]["status"])

    @property
    def reason(self) -> str:
        return str(self.image["state"].get("reason", ""))

    @property
    def ami(self) -> Mapping[str, Any]:
        """The only one."""
        (ami,) = self.image["outputResources"]["amis"]
        return dict(ami)

    @property
    def folder(self) -> Path:
        return self.home / "machine-images" / str(self.ami["image"])


@dataclass(slots=True, kw_only=True)
class Bakery:
    yard: RunningYard
    made: int = field(default=0)

    @property
    def builder(self) -> Any:
        return self.yard.client("imagebuilder")

    def component(self, document: str, name: str = "part") -> str:
        self.made += 1
        made = self.builder.create_component(
            name=name, semanticVersion=f"1.0.{self.made}", platform="Linux", data=document
        )
        return str(made["componentBuildVersionArn"])

    def pipeline(self, *documents: str, parameters: Mapping[str, str] | None = None, **more: Any) -> str:
        """Make a recipe of these components, each with the same parameters."""
        given = [{"name": name, "value": [value]} for name, value in (parameters or {}).items()]
        parts = [
            {
                "componentArn": self.component(document, f"part {number}"),
                **({"parameters": given} if given else {}),
            }
            for number, document in enumerate(documents)
        ]
        self.made += 1
        recipe = self.builder.create_image_recipe(
            name="cpu-mpi", semanticVersion=f"1.0.{self.made}", parentImage="ami-12c6146b", components=parts
        )
        where = self.builder.create_infrastructure_configuration(
            name=f"small {self.made}", instanceProfileName=PROFILE
        )
        spread = self.builder.create_distribution_configuration(
            name=f"home {self.made}", distributions=more.pop("distributions", [{"region": REGION}])
        )
        made = self.builder.create_image_pipeline(
            name=f"pipeline {self.made}",
            imageRecipeArn=recipe["imageRecipeArn"],
            infrastructureConfigurationArn=where["infrastructureConfigurationArn"],
            distributionConfigurationArn=spread["distributionConfigurationArn"],
            **more,
        )
        return str(made["imagePipelineArn"])

    def start(self, pipeline: str, **more: Any) -> str:
        started = self.builder.start_image_pipeline_execution(imagePipelineArn=pipeline, **more)
        return str(started["imageBuildVersionArn"])

    def bake(self, *documents: str, **more: Any) -> Baked:
        return self.ended(self.start(self.pipeline(*documents, **more)))

    def state(self, image: str) -> str:
        return str(self.builder.get_image(imageBuildVersionArn=image)["image"]["state"]["status"])

    def ended(self, image: str) -> Baked:
        until(lambda: self.state(image) in ("AVAILABLE", "FAILED", "CANCELLED"))
        found = self.builder.get_image(imageBuildVersionArn=image)["image"]
        return Baked(image=found, lines=self.lines(image), home=self.yard.home)

    def lines(self, image: str) -> list[str]:
        found = self.builder.get_image(imageBuildVersionArn=image)["image"]
        where = {
            "logGroupName": found["loggingConfiguration"]["logGroupName"],
            "logStreamName": found["version"],
        }
        logs = self.yard.client("logs")
        try:
            events = logs.get_log_events(**where, startFromHead=True)["events"]
        except logs.exceptions.ResourceNotFoundException:
            return []
        return [event["message"] for event in events]


@pytest.fixture(scope="session")
def bakery_tier(request: pytest.FixtureRequest) -> Tier:
    """Return the best tier; a test may ask for one by name."""
    name = str(getattr(request, "param", best_tier().name))
    tier = next(tier for tier in TIERS if tier.name == name)
    if not tier.isolated or not tier.works():
        pytest.skip(f"this machine cannot make the namespaces of tier '{name}', and nothing is baked without")
    return tier


@pytest.fixture(scope="session")
def bakery_yard(bakery_tier: Tier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningYard]:
    folder = tmp_path_factory.mktemp("bakery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TIER_VARIABLE, bakery_tier.name)
        patch.setenv(BASE_VARIABLE, str(write_root(folder / "tiny.tar", folder / "root")))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        started = process.up(folder=folder / "home")
    yield RunningYard(endpoint=started.state.endpoint, home=folder / "home")
    process.down(folder=folder / "home")


@pytest.fixture
def bakery(bakery_yard: RunningYard) -> Bakery:
    control(bakery_yard, "POST", "/reset")
    raise_quotas(bakery_yard)
    bakery_yard.client("iam").create_instance_profile(InstanceProfileName=PROFILE)
    return Bakery(yard=bakery_yard)
