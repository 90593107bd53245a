"""`slipway image bake` bakes each lock once and follows it; `slipway image list` lists AMIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.clusters.images import baked as amis
from slipway.jobs.clusters.images import baking
from slipway.jobs.clusters.images.baking import bake_request, images_of
from slipway.jobs.words.images.amis import Bakery, ami_parameter, ami_tags, bakery_parameter, encode_bakery
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.jobs.conftest import Slipway, forget_clients
from tests.yard.conftest import REGION, point_at
from tests.yard.services.imagebuilder.components.test_steps import bash, document
from tests.yard.services.imagebuilder.conftest import Bakery as YardBakery
from tests.yard.services.imagebuilder.conftest import bakery, bakery_tier, bakery_yard

# A pipeline of Image Builder as infra deploys one, in a yard whose machines begin with a few programs.
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
        """Make a pipeline whose only component runs these commands, and its record."""
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


__all__ = ["bakery", "bakery_tier", "bakery_yard"]


@pytest.fixture
def deployed(bakery: YardBakery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    """Point the environment at a yard in which nothing is deployed yet."""
    point_at(bakery.yard, monkeypatch)
    monkeypatch.setattr(baking, "POLL_SECONDS", 0.05)
    forget_clients()
    yield Deployed(yard=bakery)
    forget_clients()


def test_a_bake_is_followed_to_its_end_though_aws_fails_meanwhile_and_its_manifest_kept(
    deployed: Deployed, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = deployed.deploy("echo laying bricks")
    monkeypatch.setattr(aws, "_ASK_AGAIN_SECONDS", 0.05)
    fault = Fault(service="imagebuilder", operation="GetImage", kind=FaultKind.SERVER_ERROR, times=4)
    script(deployed.yard.yard, fault)
    code, out, err = slipway("image", "bake", IMAGE, "--wait", "--json")
    assert code == 0, err
    baked = json.loads(out)
    assert deployed.parameter(found.ami_parameter) == baked["ami_id"]
    manifest = json.loads(deployed.parameter(found.manifest_parameter))
    assert manifest.items() >= {"ami_id": baked["ami_id"], "lock_digest": "a" * 16, **VERSIONS}.items()
    assert "laying bricks" in err
    assert "ApplyBuildComponents" in err
    assert any("LoadOnHardware" in each for each in baked["left_out"])


def test_without_wait_the_bake_goes_on_and_is_found_again(deployed: Deployed, slipway: Slipway) -> None:
    found = deployed.deploy("true")
    code, out, err = slipway("image", "bake", IMAGE, "--json")
    build = json.loads(out)["build"]
    assert (code, json.loads(out)["ami_id"]) == (0, None)
    assert f"slipway image bake {IMAGE} --wait" in err
    again = slipway.json("image", "bake", IMAGE, "--wait", "--json")
    assert len(images_of(found)) == 1
    assert again["build"] in (build, None)  # None: the bake had ended in between


def test_a_bake_that_runs_is_followed_and_none_started_beside_it(
    deployed: Deployed, slipway: Slipway
) -> None:
    found = deployed.deploy("echo waiting", "while true; do sleep 0.1; done")
    build = slipway.json("image", "bake", IMAGE, "--json")["build"]
    code, out, err = slipway("image", "bake", IMAGE, "--json")
    assert (code, json.loads(out)["build"]) == (0, build)
    assert "is already being baked" in err
    assert len(images_of(found)) == 1
    deployed.yard.builder.cancel_image_creation(imageBuildVersionArn=build)
    assert deployed.yard.ended(build).status == "CANCELLED"


def test_ctrl_c_leaves_the_bake_running_and_says_how_to_follow_it(
    deployed: Deployed, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = deployed.deploy("echo waiting", "while true; do sleep 0.1; done")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(baking, "follow", interrupted)
    err = slipway.told("image", "bake", IMAGE, "--wait", code=130)
    assert f"continues in the cloud; to follow it again: slipway image bake {IMAGE} --wait" in err
    (image,) = images_of(found)
    assert image["state"]["status"] not in baking.FINAL
    deployed.yard.builder.cancel_image_creation(imageBuildVersionArn=image["arn"])
    assert deployed.yard.ended(str(image["arn"])).status == "CANCELLED"


def test_what_the_pipeline_baked_is_not_baked_again_unless_asked(
    deployed: Deployed, slipway: Slipway
) -> None:
    found = deployed.deploy("true")
    first = slipway.json("image", "bake", IMAGE, "--wait", "--json")["ami_id"]
    code, second, err = slipway("image", "bake", IMAGE, "--wait", "--json")
    assert (code, json.loads(second)["ami_id"]) == (0, first)
    assert "is up to date with the pipeline of cpu-mpi" in err
    assert len(images_of(found)) == 1
    assert slipway.json("image", "bake", IMAGE, "--wait", "--again", "--json")["ami_id"] != first


def test_a_bake_is_undone_with_the_command_that_it_prints(deployed: Deployed, slipway: Slipway) -> None:
    found = deployed.deploy("true")
    before = slipway.json("image", "bake", IMAGE, "--wait", "--json")["ami_id"]
    second = slipway.json("image", "bake", IMAGE, "--wait", "--again", "--json")
    assert second["roll_back"] == f"slipway image bake {IMAGE} --use {before}"
    slipway.printed(*second["roll_back"].split()[1:])
    assert deployed.parameter(found.ami_parameter) == before
    assert json.loads(deployed.parameter(found.manifest_parameter))["ami_id"] == before
    assert amis.previous_ami(found, before) == second["ami_id"]


def test_an_ami_of_somebody_else_is_not_used(deployed: Deployed, slipway: Slipway) -> None:
    found = deployed.deploy("true")
    stranger = deployed.yard.yard.client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    for ami_id in (stranger, "ami-00000000"):
        err = slipway.told("image", "bake", IMAGE, "--use", ami_id, code=1)
        assert f"{ami_id} in {REGION} does not exist or was not baked by Slipway" in err
    assert amis.current_ami(found) not in (stranger, "ami-00000000")


def test_a_bake_that_fails_names_its_step_and_leaves_the_parameter(
    deployed: Deployed, slipway: Slipway
) -> None:
    good = deployed.deploy("true")
    slipway("image", "bake", IMAGE, "--wait")
    before = deployed.parameter(good.ami_parameter)
    deployed.deploy("echo no such driver", "exit 4", lock_digest="b" * 16)
    err = slipway.refused("image", "bake", IMAGE, "--wait")
    assert "ended as FAILED in build.Run" in err
    assert "exit code 4: no such driver" in err
    assert deployed.parameter(good.ami_parameter) == before


def test_a_dry_run_starts_nothing_and_shows_a_token_that_two_who_start_at_once_share(
    deployed: Deployed, slipway: Slipway
) -> None:
    found = deployed.deploy("true")
    start = slipway.json("image", "bake", IMAGE, "--dry-run")["start"]
    assert start["imagePipelineArn"] == found.pipeline_arn
    assert images_of(found) == []
    assert bake_request(found, "").start["clientToken"] == start["clientToken"]
    assert bake_request(found, "arn:1").start["clientToken"] != start["clientToken"]


def test_an_image_that_nobody_deployed_is_told_with_those_that_are(
    deployed: Deployed, slipway: Slipway
) -> None:
    asked = ("image", "bake", "cpu-mpj")
    first = "deploy it first: cdk deploy slipway-bakery-cpu-mpj (cdk list names all)"
    assert first in slipway.told(*asked, code=1)
    deployed.deploy("true")
    assert "deployed are cpu-mpi" in slipway.told(*asked, code=1)


def rows(slipway: Slipway) -> dict[str, dict[str, object]]:
    """By AMI."""
    return {row["ami_id"]: row for row in slipway.json("image", "list", IMAGE, "--json")}


def test_amis_tell_what_is_in_use_by_whom_what_was_replaced_what_is_stale_and_what_is_missing(
    deployed: Deployed, slipway: Slipway
) -> None:
    found = deployed.deploy("true")
    old = slipway.json("image", "bake", IMAGE, "--wait", "--json")["ami_id"]
    new = slipway.json("image", "bake", IMAGE, "--wait", "--again", "--json")["ami_id"]
    ec2 = deployed.yard.yard.client("ec2")
    for name, image in (("by-id", old), ("by-parameter", f"resolve:ssm:{found.ami_parameter}")):
        ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"ImageId": image})
    told = rows(slipway)
    assert (told[old]["state"], told[new]["state"]) == ("replaced", "in use")
    assert told[old]["used_by"] == ["launch template by-id"]
    assert told[new]["used_by"] == ["launch template by-parameter"]
    assert (told[new]["lock_digest"], told[new]["versions"]) == ("a" * 16, VERSIONS)
    deployed.deploy("true", lock_digest="b" * 16)
    stale = rows(slipway)[new]
    why = f"the pipeline has the lock {'b' * 16}: slipway image bake {IMAGE} --wait"
    assert (stale["state"], stale["why"]) == ("stale", why)
    deployed.deploy("true", recipe_version="1.0.2")
    stale = rows(slipway)[new]
    assert stale["state"] == "stale"
    assert "other code of Slipway: slipway image bake" in str(stale["why"])
    deployed.yard.yard.client("ssm").put_parameter(
        Name=found.ami_parameter, Value="ami-00000000", Type="String", Overwrite=True
    )
    assert rows(slipway)["ami-00000000"]["state"] == "missing"


def test_other_code_with_the_same_lock_is_baked_without_being_asked_twice(
    deployed: Deployed, slipway: Slipway
) -> None:
    deployed.deploy("true")
    first = slipway.json("image", "bake", IMAGE, "--wait", "--json")["ami_id"]
    deployed.deploy("true", recipe_version="1.0.2")
    assert slipway.json("image", "bake", IMAGE, "--wait", "--json")["ami_id"] != first


PARENT = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"


def canonical_releases(deployed: Deployed, serial: str) -> str:
    """Publish a release as Canonical does: an AMI with its serial in the name, and a parameter."""
    name = f"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-{serial}"
    ami_id = deployed.yard.yard.client("ec2").register_image(Name=name)["ImageId"]
    parameter = PARENT.replace("/aws/service", "/mine")  # nobody can write AWS's own parameter
    deployed.yard.yard.client("ssm").put_parameter(
        Name=parameter, Value=ami_id, Type="String", Overwrite=True
    )
    return f"ssm:{parameter}"


def test_a_parent_that_is_newer_than_the_packages_is_refused_before_a_machine_starts(
    deployed: Deployed, slipway: Slipway
) -> None:
    found = deployed.deploy("true", parent=canonical_releases(deployed, "20261122"))
    err = slipway.refused("image", "bake", IMAGE, "--wait")
    assert images_of(found) == []
    assert "is Canonical's release 20261122, newer than the packages of 20261120T000000Z" in err
    assert f"hint: slipway image pin {IMAGE}; cdk deploy slipway-bakery-{IMAGE}" in err
    deployed.deploy("true", parent=canonical_releases(deployed, "20261118"))
    slipway.told("image", "bake", IMAGE, "--wait")
