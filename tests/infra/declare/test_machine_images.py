"""Machine images are checked like clusters: all mistakes are told at once, with their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.checks import machine_images as checks
from slipway.infra.declare.checks.machine_images import machine_image_problems
from slipway.infra.declare.declared import load
from slipway.infra.declare.machine_images import CONTAINERS, component_names
from slipway.jobs.words.errors import InvalidConfig
from slipway.jobs.words.images.ami_locks import TO_BE_FILLED, machine_image_names

GAUDI = next(image for image in MACHINE_IMAGES if image.name == "gaudi-ecs")
OURS = "from slipway.infra.clusters import CLUSTERS, MACHINE_IMAGES\n"
KEEPS_NONE = """MACHINE_IMAGES = tuple(
    replace(image, keep_images=0) if image.name == "gaudi-ecs" else image for image in MACHINE_IMAGES
)
"""
NEWEST, AN_ID = "ssm:/aws/service/debian/release/12/latest/amd64", "ami-0123456789abcdef0"  # no lock pins one


def said(**changes: Any) -> str:
    return "\n".join(map(str, machine_image_problems((replace(GAUDI, **changes),))))


def test_every_lock_is_baked_and_every_component_is_used() -> None:
    assert {image.name for image in MACHINE_IMAGES} == set(machine_image_names(CONTAINERS))
    assert {name for image in MACHINE_IMAGES for name in image.components} == set(component_names())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "gaudi-ecz"}, "which is not a folder of containers/images with a lock"),
        ({"name": "cpu"}, "no Dockerfile"),
        ({"runs_on": "dl1.24xlarg"}, "runs_on: is 'dl1.24xlarg', which is not in the catalogue"),
        ({"instance_type": "hpc7g.16xlarge"}, "build on the architecture that it runs on"),
        ({"zone": "us-west-2a"}, "not an Availability Zone of us-east-1"),
        ({"parent": "ubuntu"}, "parent: is 'ubuntu', not an AMI such as"),
        ({"parent": NEWEST}, "whose value changes with every release"),
        ({"parent": NEWEST, "parent_moves_because": " "}, "whose value changes with every release"),
        ({"parent": AN_ID, "parent_moves_because": "new"}, "says why the parent may move, but this parent"),
        ({"components": (*GAUDI.components, "habanalab")}, "did you mean habanalabs?"),
        ({"components": (*GAUDI.components, "efa")}, "has efa 2 times"),
        ({"components": GAUDI.components[:-1]}, "locks SignedEcsAgentFingerprint, but no component"),
        ({"components": (*GAUDI.components, "open-mpi")}, "has no value for HostOpenMpi, which infra/comp"),
        ({"keep_images": 0}, "keep_images: is 0"),
        ({"root_volume_gib": "60"}, "root_volume_gib: is '60', not a whole number"),
        ({"parent_moves_because": "AKIA" + "A" * 16}, "holds an AWS access key (hidden)"),
    ],
)
def test_a_mistake_is_said_with_the_image_and_the_setting(changes: dict[str, Any], expected: str) -> None:
    assert expected in said(**changes)


def test_every_mistake_is_said_at_once_of_one_image_and_of_several() -> None:
    assert machine_image_problems(MACHINE_IMAGES) == ()
    found = said(zone="x", keep_images=0, parent="ubuntu", components=("efa", "efa"))
    assert all(each in found for each in ("zone", "keep_images", "parent", "components"))
    (problem,) = machine_image_problems((GAUDI, replace(MACHINE_IMAGES[0], zone="us-east-1b")))
    assert "give all machine images of a region one zone" in problem.hint
    assert "their names must be unique" in str(machine_image_problems((GAUDI, GAUDI)))


def test_clusters_and_machine_images_are_refused_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{OURS}from dataclasses import replace\n{KEEPS_NONE}"
    (tmp_path / "clusters.py").write_text(text)
    (tmp_path / "cdk.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfig) as raised:
        load({"dl1.max_nodes": "0"})
    assert [problem.where for problem in raised.value.problems] == [
        "dl1.max_nodes of the context",
        "machine image 'gaudi-ecs': keep_images",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        (
            "gaudi-ecs",
            'synapseai = "1.18.0"',
            'synapseai = "1.22.0"',
            "1.22.0 no longer supports Habana Gaudi",
        ),
        (
            "gaudi-ecs",
            "snapshot = ",
            f'snapshot = "{TO_BE_FILLED}"\n# ',
            "has no snapshot yet, and needs one",
        ),
        (
            "neuron-slurm",
            '"2.26.10.0"',
            '"2.29.0"',
            "neuron-driver 2.29.0 needs neuron-runtime 2.33 or later",
        ),
    ],
)
def test_a_lock_that_cannot_work_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, expected: str
) -> None:
    image = next(image for image in MACHINE_IMAGES if image.name == name)
    lock = Path("images") / name / "lock.toml"
    text = (CONTAINERS / lock).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / lock).parent.mkdir(parents=True)
    (tmp_path / lock).write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(checks, "CONTAINERS", tmp_path)
    assert expected in str(machine_image_problems((image,)))
