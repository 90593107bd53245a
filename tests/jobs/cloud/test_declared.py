"""What commands learn of the declarations, from a process of infra's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.cloud.declared import declared_cluster, declared_clusters
from slipway.jobs.words.errors import InvalidConfig, SlipwayError


@pytest.fixture(autouse=True)
def declarations() -> None:
    """Here infra itself answers, each time."""


def write_infra(folder: Path, declared: str) -> None:
    package = folder / "slipway" / "infra" / "declare"
    package.mkdir(parents=True)
    for made in (package, package.parent, package.parent.parent):
        (made / "__init__.py").touch()
    (folder / "slipway" / "infra" / "clusters.py").touch()
    (folder / "cdk.json").write_text("{}")
    (package / "__main__.py").write_text(declared)


def test_the_clusters_of_this_checkout_are_read_with_overrides() -> None:
    dl1, _, c6i, trn1, sagemaker = declared_clusters(["dl1.max_nodes=3", "dl1.zone=us-east-1b"])
    assert (dl1.name, dl1.kind, dl1.max_nodes, dl1.zone) == ("dl1", "batch", 3, "us-east-1b")
    assert (c6i.name, c6i.kind, c6i.max_nodes) == ("c6i", "mpi", 4)
    assert (trn1.name, trn1.kind, trn1.login_instance_type) == ("trn1", "slurm", "c6i.large")
    assert (sagemaker.name, sagemaker.kind, sagemaker.ami_parameter) == ("sagemaker", "sagemaker", None)


def test_a_cluster_says_whose_lock_its_machine_image_is_held_against() -> None:
    dl1, over_mpi, c6i, trn1, sagemaker = declared_clusters()
    assert (dl1.image, dl1.locked_by) == ("gaudi", "gaudi")
    assert (over_mpi.image, over_mpi.locked_by) == (None, "gaudi-mpi")
    assert (c6i.image, c6i.locked_by) == (None, "cpu-mpi")
    assert (trn1.image, trn1.locked_by) == (None, "neuron-slurm")
    assert (sagemaker.image, sagemaker.locked_by) == (None, "sagemaker-pytorch")


def test_every_problem_comes_over_with_its_place_and_fix() -> None:
    with pytest.raises(InvalidConfig) as refusal:
        declared_clusters(["dl1.max_nodes=0", "dl1.regoin=us-east-1"])
    assert [problem.where for problem in refusal.value.problems] == [
        "dl1.regoin of the context",
        "dl1.max_nodes of the context",
    ]
    assert "did you mean region?" in refusal.value.message


def test_an_override_that_looks_like_an_option_stays_an_override() -> None:
    with pytest.raises(InvalidConfig, match=r"dl1\.zone"):
        declared_clusters(["dl1.zone=--help"])
    assert declared_clusters(["--help"])  # a key of nobody's


def test_declarations_that_do_not_load_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_infra(tmp_path, "import nowhere")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SlipwayError, match="No module named 'nowhere'") as refusal:
        declared_clusters()
    assert "\n" not in refusal.value.message
    assert f"python -m slipway.infra.declare` in {tmp_path}" in refusal.value.hint


def test_an_infra_of_another_version_is_told_by_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_infra(tmp_path, """print('{"clusters": [{"kind": "batch", "name": "dl1", "max_nodes": "4"}]}')""")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SlipwayError, match="has max_nodes = '4', not a whole number") as refusal:
        declared_clusters()
    assert "install slipway from the checkout" in refusal.value.hint


def test_an_unknown_cluster_is_refused_with_those_declared() -> None:
    with pytest.raises(SlipwayError, match="no cluster 'p4d' is declared") as refusal:
        declared_cluster("p4d")
    assert refusal.value.hint == "declared are dl1, dl1-mpi, c6i, trn1, sagemaker"
