"""An AMI that cannot drive its nodes does not pass; a user's own is judged by the one it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from slipway.infra.declare.types import Cluster, MpiCluster, NodeCluster, SlurmCluster
from slipway.jobs.clusters.preflight import facts
from slipway.jobs.clusters.preflight.facts import AMAZON, FoundAmi, locks_of
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from slipway.jobs.words.catalogue.hardware import family_of
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.images.containers import Lock
from slipway.jobs.words.images.support import Pinned
from tests.jobs.clusters.preflight.test_checks import BAKE, CLUSTER, MANIFEST, assert_fails, verdict
from tests.jobs.declared import declared

NODES: Mapping[str, NodeCluster] = {
    "batch": CLUSTER,
    "mpi": declared("c6i", MpiCluster),
    "slurm": declared("trn1", SlurmCluster),
}
OWN = replace(CLUSTER, ami_parameter="/our/ami", ami_made_from="gaudi-ecs")


@pytest.mark.parametrize(
    ("check", "facts", "found", "fix"),
    [
        ("machine image", {"parameter": None}, "there is no SSM parameter /slipway", BAKE),
        ("machine image", {"machine_image": None}, "ami-1, which /slipway", BAKE),
        (
            "machine image",
            {"machine_image": FoundAmi(id="ami-1", architecture="x86_64", state="pending")},
            "is pending",
            BAKE,
        ),
        (
            "machine image",
            {"machine_image": FoundAmi(id="ami-1", architecture="arm64", state="available")},
            "ami-1 is for arm64, and dl1.24xlarge is x86_64",
            "an AMI for x86_64",
        ),
        (
            "locked versions",
            {"manifest": {**MANIFEST, "lock_digest": "def"}},
            "it was baked from lock def, and containers/images/gaudi-ecs here is abc",
            BAKE,
        ),
        ("locked versions", {"manifest": None}, "does not say what was baked", BAKE),
        (
            "locked versions",
            {"manifest": {**MANIFEST, "ami_id": "ami-2"}},
            "it describes ami-2, and /slipway/amis/gaudi-ecs/id names ami-1",
            BAKE,
        ),
        (
            "locked versions",
            {"manifest": {"synapseai": "1.18.0"}},
            "the AMI has no ecs-agent, which nodes of dl1.24xlarge need in a cluster of kind batch",
            BAKE,
        ),
        (
            "locked versions",
            {"lock": Lock(image={"pytorch": "2.13.0"}, host={})},
            "the lock of gaudi has no synapseai, so that nothing drives dl1.24xlarge",
            "declare an image for gaudi in clusters.py",
        ),
        (
            "locked versions",
            {"manifest": {"synapseai": "1.19.1"}},
            "synapseai is 1.19.1, locked is 1.18.0",
            BAKE,
        ),
        (
            "locked versions",
            {"manifest": {}},
            "synapseai is missing, locked is 1.18.0",
            BAKE,
        ),
        (
            "locked versions",
            {"lock": Lock(image={"synapseai": "1.22.0"}, host={"synapseai": "1.22.0"})},
            "synapseai 1.22.0 no longer supports Habana Gaudi HL-205; the last that does is 1.21",
            "lower it in containers/images/gaudi/lock.toml",
        ),
    ],
)
def test_an_ami_that_fails_says_why_and_what_to_do(
    check: str, facts: dict[str, Any], found: str, fix: str
) -> None:
    assert_fails(check, facts, found, fix)


def test_what_was_baked_from_this_lock_is_ok() -> None:
    manifest = {**MANIFEST, "lock_digest": "abc", "ami_id": "ami-1"}
    assert verdict("locked versions", manifest=manifest).outcome is CheckOutcome.OK


def test_a_stand_in_of_the_yard_is_not_passed_off_as_a_baked_image() -> None:
    found = verdict("locked versions", manifest={**MANIFEST, "stand_in": True}).found
    assert "a stand-in of the yard" in found


def test_a_machine_image_of_your_own_is_pointed_at_by_hand() -> None:
    assert "aws ssm put-parameter" in verdict("machine image", OWN, parameter=None).fix


def test_a_machine_image_of_your_own_is_described_as_the_one_that_it_was_made_from() -> None:
    undescribed = verdict("locked versions", OWN, manifest=None)
    assert undescribed.outcome is CheckOutcome.FAILED
    assert "--name /our/manifest --value" in undescribed.fix
    assert "--name /slipway/amis/gaudi-ecs/manifest --query" in undescribed.fix
    copied = {**MANIFEST, "ami_id": "ami-0", "lock_digest": "abc"}
    assert verdict("locked versions", OWN, manifest=copied).outcome is CheckOutcome.OK
    older = verdict("locked versions", OWN, manifest={**copied, "lock_digest": "def"})
    assert "from lock def, and containers/images/gaudi-ecs here is abc" in older.found


@pytest.mark.parametrize("kind", ["batch", "mpi", "slurm"])
@pytest.mark.parametrize("name", ["p5.48xlarge", "g5.xlarge", "trn1.32xlarge", "dl1.24xlarge"])
def test_no_ami_passes_that_lacks_what_drives_the_type(kind: str, name: str) -> None:
    """This holds for any declaration, because a target may be older than the rule that refuses it."""
    image = {"batch": "gaudi-ecs", "mpi": "cpu-mpi", "slurm": "neuron-slurm"}[kind]
    cluster = replace(NODES[kind], instance_type=name, machine_image=image)
    processors = {"ecs-agent": "1", "open-mpi": "4", "slurm": "25", "pcs-agent": "1"}
    driver = family_of(instance_type(name))
    assert driver is not None
    for host in ({}, {driver.driver: "1"}):
        lock = Lock(image={}, host=host)
        judged = verdict("locked versions", cluster, lock=lock, manifest=processors)
        assert judged.outcome is CheckOutcome.FAILED, judged
        assert driver.driver in judged.found


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"owner": "999999999999"},
            "ami-1 is of account 999999999999, and AWS publishes ecs-nvidia as 591542846629",
        ),
        (
            {"root_device": "/dev/sda1"},
            "the root disk of ami-1 is /dev/sda1, and that of ecs-nvidia is /dev/xvda: nodes would get a",
        ),
    ],
)
def test_an_ami_of_aws_is_refused_that_is_another_s_or_has_another_root_disk(
    found: dict[str, Any], said: str
) -> None:
    gpus = replace(CLUSTER, instance_type="g6.xlarge", efa_interfaces=None, machine_image=None, image=None)
    published = FoundAmi(
        id="ami-1",
        architecture="x86_64",
        state="available",
        owner="591542846629",
        root_device="/dev/xvda",
    )
    for sound in (published, replace(published, owner=AMAZON)):
        assert verdict("machine image", gpus, machine_image=sound).outcome is CheckOutcome.OK
    refused = verdict("machine image", gpus, machine_image=replace(published, **found))
    assert refused.outcome is CheckOutcome.FAILED
    assert said in refused.found
    assert "correct ecs-nvidia in jobs/words/images/aws_images.py" in refused.fix


def test_a_root_disk_smaller_than_the_amis_snapshot_is_refused_with_the_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AWS's AMI for Slurm has 75 GiB (awslabs/awsome-distributed-ai add-cng-p5.yaml); 50 may be declared."""
    disk = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 75}}
    described = {"ImageId": "ami-1", "Architecture": "x86_64", "State": "available"}
    answer = {"Images": [{**described, "RootDeviceName": "/dev/sda1", "BlockDeviceMappings": [disk]}]}
    monkeypatch.setattr(facts, "reader", lambda *_: None)
    monkeypatch.setattr(facts, "ask", lambda *_, **__: answer)
    found = facts.ask_machine_image("ami-1", "us-east-1")
    small, enough = (replace(CLUSTER, root_volume_gib=size) for size in (74, 75))
    assert verdict("machine image", enough, machine_image=found).outcome is CheckOutcome.OK
    refused = verdict("machine image", small, machine_image=found)
    assert refused.outcome is CheckOutcome.FAILED
    assert refused.fix == "set root_volume_gib=75 or more in clusters.py, and deploy"


def test_an_ami_whose_processors_nobody_tells_is_not_passed() -> None:
    untold = FoundAmi(id="ami-1", architecture=None, state="available")
    assert verdict("machine image", machine_image=untold).outcome is CheckOutcome.UNKNOWN


PINNED = (
    Pinned(image="neuron-slurm", component="slurm", version="25.05.3", until=date(2026, 11, 30)),
    Pinned(image="neuron-slurm", component="python", version="3.11", until=date(2027, 10, 31)),
    Pinned(image="neuron-slurm", component="efa", version="1.47.0", until=None),
)


@pytest.mark.parametrize(
    ("today", "outcome", "found"),
    [
        (date(2026, 8, 31), CheckOutcome.OK, "nothing pinned ends within 90 days; 1 of 3 pinned versions"),
        (date(2026, 9, 1), CheckOutcome.WARNING, "slurm 25.05.3 of neuron-slurm ends on 2026-11-30; 1 of 3"),
        (date(2026, 12, 1), CheckOutcome.WARNING, "slurm 25.05.3 of neuron-slurm has ended on 2026-11-30"),
        (date(2027, 8, 2), CheckOutcome.WARNING, "; python 3.11 of neuron-slurm ends on 2027-10-31; 1 of 3"),
    ],
)
def test_support_that_ends_is_a_warning_ninety_days_before(
    today: date, outcome: CheckOutcome, found: str
) -> None:
    judged = verdict("end of support", NODES["slurm"], pinned=PINNED, today=today)
    assert judged.outcome is outcome
    assert found in judged.found
    assert bool(judged.fix) is (outcome is CheckOutcome.WARNING)


@pytest.mark.parametrize(
    ("name", "locks"),
    [
        ("dl1", ("gaudi-ecs", "gaudi")),
        ("c6i", ("cpu-mpi",)),
        ("trn1", ("neuron-slurm",)),
        ("sagemaker", ("sagemaker-pytorch",)),
    ],
)
def test_the_locks_of_a_cluster_are_those_of_its_ami_and_of_its_container(
    name: str, locks: tuple[str, ...]
) -> None:
    assert locks_of(declared(name, Cluster)) == locks
