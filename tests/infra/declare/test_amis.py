"""Nodes boot an AMI that Slipway bakes, or one that was made from it and names it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.checks.clusters import problems_of
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.images.ami_locks import ARCHITECTURE
from tests.infra.declare.hints import CLUSTERS, OWN, followed


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize(
    "parameter", [OWN, "/slipway/amis/nobodys/id", "/aws/service/ecs/optimized-ami/image_id"]
)
def test_an_ami_of_somebody_else_is_refused_unless_it_is_said_to_be_made_from_ours(
    kind: str, parameter: str
) -> None:
    cluster = replace(CLUSTERS[kind], ami_parameter=parameter)
    (problem,) = problems_of(cluster)
    image = {"batch": "gaudi-ecs", "mpi": "cpu-mpi", "slurm": "neuron-slurm"}[kind]
    assert f"ami_parameter: is {parameter}, an AMI without Slipway's boot" in str(problem)
    assert f'use ami_parameter="/slipway/amis/{image}/id"' in problem.hint
    made_of_ours = f'ami_made_from="{image}" if you made this AMI from {image}' in problem.hint
    assert made_of_ours != parameter.startswith("/aws/")
    assert {problems_of(way) for way in followed(cluster, problem)} == {()}


@pytest.mark.parametrize("kind", CLUSTERS)
def test_aws_own_ami_stays_refused_whatever_is_claimed_of_it(kind: str) -> None:
    image = {"batch": "gaudi-ecs", "mpi": "cpu-mpi", "slurm": "neuron-slurm"}[kind]
    claimed: Any = {"ami_parameter": "/aws/service/deeplearning/ami/id", "ami_made_from": image}
    cluster = replace(CLUSTERS[kind], **claimed)
    (problem,) = problems_of(cluster)
    assert "without Slipway's boot" in problem.message
    assert [problems_of(way) for way in followed(cluster, problem)] == [()]


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("batch", {"ami_made_from": "gaudi-ecs"}, "ami_made_from: has no effect: nodes boot gaudi-ecs as"),
        ("mpi", {"ami_adds": ("mpich",)}, "ami_adds: has no effect: nodes boot cpu-mpi as it is published"),
        (
            "mpi",
            {"ami_parameter": "/slipway/amis/cpu-mpi/id", "ami_adds": ("mpich",)},
            "ami_adds: has no effect: /slipway/amis/cpu-mpi/id names cpu-mpi as it is published",
        ),
        (
            "batch",
            {"ami_parameter": OWN, "ami_made_from": "gaudi-esc"},
            "ami_made_from: is 'gaudi-esc', which is no machine image of Slipway's or AWS's; did you mean",
        ),
        (
            "mpi",
            {"ami_parameter": OWN, "ami_made_from": "gaudi-mpi", "machine_image": "cpu-mpi"},
            'ami_made_from: is gaudi-mpi, but machine_image is cpu-mpi; use ami_made_from="cpu-mpi"',
        ),
        (
            "batch",
            {"ami_parameter": OWN, "ami_made_from": "cpu-mpi"},
            "ami_made_from: is cpu-mpi, which has no ecs-agent and no synapseai, so that",
        ),
        (
            "batch",
            {"ami_parameter": OWN, "ami_made_from": "gaudi-ecs", "ami_adds": ("nvidia-driver",)},
            "ami_adds: has 'nvidia-driver'; allowed are lustre-client, open-mpi, intel-mpi, mpich",
        ),
    ],
)
def test_a_wrong_claim_about_an_ami_of_ones_own_is_refused(
    kind: str, changes: dict[str, Any], said: str
) -> None:
    cluster = replace(CLUSTERS[kind], **changes)
    (problem,) = problems_of(cluster)
    assert said in str(problem).partition(".")[2]
    assert {problems_of(way) for way in followed(cluster, problem)} <= {()}


def test_every_machine_image_is_for_the_architecture_that_declarations_are_held_to() -> None:
    types_ = {name for image in MACHINE_IMAGES for name in (image.runs_on, image.instance_type)}
    assert {instance_type(name).architecture for name in types_} == {ARCHITECTURE}
