"""The commands and the CDK app read the same declared clusters and machine images."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slipway.infra.declare.declared import (
    build_type,
    declared_cluster,
    declared_clusters,
    declared_machine_image,
    load,
    load_machine_images,
)
from slipway.infra.declare.node_images import locked_by
from slipway.infra.declare.types import BatchCluster, MpiCluster, SageMakerCluster, SlurmCluster
from slipway.jobs.words.errors import InvalidConfig, SlipwayError

ROOT = Path(__file__).parents[3]
OUR_CLUSTERS = ROOT / "infra" / "clusters.py"


def make_checkout(folder: Path, declared: str) -> Path:
    """Write another checkout, with its own clusters."""
    infra = folder / "slipway" / "infra"
    infra.mkdir(parents=True)
    (folder / "cdk.json").write_text("{}")
    for package in (infra, infra.parent):
        (package / "__init__.py").write_text("raise AssertionError('it is not the installed one')\n")
    (infra / "clusters.py").write_text(declared)
    return folder


def test_the_clusters_of_this_checkout_are_read_with_overrides() -> None:
    dl1, _, c6i, trn1, sagemaker = declared_clusters(["dl1.max_nodes=3", "dl1.tags.note=a=b"])
    assert isinstance(dl1, BatchCluster)
    assert (dl1.name, dl1.max_nodes, dl1.tags) == ("dl1", 3, {"note": "a=b"})
    assert isinstance(c6i, MpiCluster)
    assert isinstance(trn1, SlurmCluster)
    assert isinstance(sagemaker, SageMakerCluster)


def test_an_override_that_is_given_twice_is_refused() -> None:
    """BI-132"""
    with pytest.raises(InvalidConfig) as refused:
        declared_clusters(["dl1.max_nodes=2", "c6i.max_nodes=2", "dl1.max_nodes=64"])
    assert str(refused.value) == "-c dl1.max_nodes: is given 2 times: 2, 64; say it once"


def test_a_cluster_says_whose_lock_its_machine_image_is_held_against_and_where_it_is_baked() -> None:
    found = {each.name: (locked_by(each), build_type(each)) for each in declared_clusters()}
    assert found == {
        "dl1": ("gaudi", "c6i.16xlarge"),
        "dl1-mpi": ("gaudi-mpi", "c6i.16xlarge"),
        "c6i": ("cpu-mpi", "c6i.16xlarge"),
        "trn1": ("neuron-slurm", "trn1.2xlarge"),
        "sagemaker": ("sagemaker-pytorch", None),
    }
    own = declared_cluster("dl1", ["dl1.ami_parameter=/our/ami", "dl1.ami_made_from=gaudi-ecs"])
    assert build_type(own) is None


def test_every_problem_is_told_with_its_place_and_fix() -> None:
    given = ["dl1.max_nodes=0", "dl1.regoin=us-east-1", "dl2.zone=x", "c6i.zone=--help"]
    with pytest.raises(InvalidConfig) as refusal:
        declared_clusters(given)
    assert [problem.where for problem in refusal.value.problems] == [
        "dl1.regoin of the context",
        "dl2.zone of the context",
        "dl1.max_nodes of the context",
        "c6i.zone of the context",
    ]
    assert "did you mean region?" in refusal.value.message
    assert declared_clusters(["--help=x"])  # a key of nobody's


def test_an_unknown_cluster_or_image_is_refused_with_those_declared() -> None:
    with pytest.raises(SlipwayError, match="no cluster 'p4d' is declared") as refusal:
        declared_cluster("p4d")
    assert refusal.value.hint == "declared are dl1, dl1-mpi, c6i, trn1, sagemaker"
    with pytest.raises(SlipwayError, match="no machine image 'gaudi-mpl' is declared") as refusal:
        declared_machine_image("gaudi-mpl")
    assert "did you mean gaudi-mpi?" in refusal.value.hint


def test_reading_loads_neither_the_cdk_nor_boto3() -> None:
    code = (
        "import sys; from slipway.infra.declare import declared; declared.load({});"
        "print([name for name in sys.modules if '.' not in name])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "'slipway'" in loaded
    assert not any(
        f"'{heavy}'" in loaded for heavy in ("aws_cdk", "jsii", "boto3", "botocore", "rich", "yaml")
    )


def test_another_checkout_is_read_by_its_own_file_and_never_replaced_by_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = OUR_CLUSTERS.read_text(encoding="utf-8").replace("max_nodes=4", "max_nodes=3")
    monkeypatch.chdir(make_checkout(tmp_path, theirs))
    assert declared_cluster("c6i").max_nodes == 3
    assert [image.name for image in load_machine_images()] == [
        "cpu-mpi",
        "neuron-slurm",
        "gaudi-ecs",
        "gaudi-mpi",
    ]


def test_a_checkout_that_cannot_be_read_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_checkout(tmp_path, "\nimport nowhere\n"))
    with pytest.raises(InvalidConfig) as refusal:
        load({})
    assert refusal.value.message.startswith("clusters.py:2: raised ModuleNotFoundError: No module")
    assert "\n" not in refusal.value.message
