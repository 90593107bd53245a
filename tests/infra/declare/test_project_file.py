"""A project's clusters.py is somebody's own program: each mistake in it is one line with its place."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from slipway.infra.declare import project_file
from slipway.infra.declare.declared import load, load_machine_images, main
from slipway.jobs.words.errors import InvalidConfig

CLUSTER = """MpiCluster(
    name="{name}", instance_type="c6i.16xlarge", max_nodes=2, region="eu-west-1", zone="eu-west-1a",
    budget_usd_per_month=100, alert_email="me@example.org", vpc_cidr="{cidr}",
)"""
IMPORT = "from slipway.infra import MachineImage, MpiCluster\n"


def declare(*entries: tuple[str, str]) -> str:
    listed = "".join(f"{CLUSTER.format(name=name, cidr=cidr)},\n" for name, cidr in entries)
    return f"{IMPORT}CLUSTERS = (\n{listed})\n"


ONE = declare(("mine", "10.30.0.0/16"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cdk.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "clusters", raising=False)
    return tmp_path


def refusal(project: Path, text: str) -> str:
    (project / "clusters.py").write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        load({})
    return refused.value.message


def test_the_clusters_of_the_project_replace_ours(project: Path) -> None:
    (project / "sizes.py").write_text("NODES = 2\n")
    (project / "clusters.py").write_text(f"from sizes import NODES\n{ONE}")
    assert [cluster.name for cluster in load({"mine.max_nodes": "4"})] == ["mine"]


def test_the_image_that_its_cluster_starts_from_is_baked_where_that_stands(project: Path) -> None:
    (project / "clusters.py").write_text(ONE)
    load({})
    (image,) = load_machine_images()
    assert (image.name, image.region, image.zone) == ("cpu-mpi", "eu-west-1", "eu-west-1a")


def test_the_image_that_an_ami_of_ones_own_is_made_from_is_baked_too(project: Path) -> None:
    own = 'ami_parameter="/mine/ami", ami_made_from="cpu-mpi", budget_usd_per_month'
    (project / "clusters.py").write_text(ONE.replace("budget_usd_per_month", own))
    load({})
    assert [image.name for image in load_machine_images()] == ["cpu-mpi"]


def test_machine_images_that_it_declares_itself_are_all_there_are(project: Path) -> None:
    (project / "clusters.py").write_text(f"{ONE}MACHINE_IMAGES = ()\n")
    load({})
    assert load_machine_images() == ()


def test_what_it_prints_does_not_mix_with_the_answer(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "clusters.py").write_text(f"print('hello')\n{ONE}")
    assert main([]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["clusters"][0]["name"] == "mine"
    assert captured.err == "hello\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nraise ValueError('no\\nluck')\n", "clusters.py:2: raised ValueError: no luck"),
        ("import no_such_module_of_anybody\n", "clusters.py:1: raised ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)\n", "clusters.py:2: raised SystemExit: 3"),
        ("CLUSTERS = (\n", "clusters.py:1: is no Python: '(' was never closed"),
        (f"{IMPORT}CLUSTERS = (MpiCluster(nodez=4),)\n", "clusters.py:2: 'nodez' is not a setting; did you"),
        (f"{IMPORT}CLUSTERS = (MpiCluster(name='a'),)\n", "clusters.py:2: missing 6 required keyword-only"),
        ("", "clusters.py: declares no CLUSTERS; write CLUSTERS = (Cluster(…),)"),
        (ONE.replace("),\n)", ")\n)"), "CLUSTERS: is or holds a MpiCluster, and not a tuple of Cluster"),
        ("CLUSTERS = ('mine',)\n", "CLUSTERS: is or holds a str, and not a tuple of Cluster entries"),
        ("CLUSTERS = None\n", "declares no CLUSTERS"),
        (f"{ONE}MACHINE_IMAGES = 7\n", "MACHINE_IMAGES: is or holds a int"),
        (
            declare(("a", "10.1.0.0/16"), ("a", "10.2.0.0/16")),
            "is the name of 2 clusters; cluster names",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(project: Path, text: str, said: str) -> None:
    assert said in refusal(project, text)


def test_a_module_beside_it_that_is_no_python_is_named(project: Path) -> None:
    (project / "amounts.py").write_text("NODES = = 2\n")
    assert "amounts.py:1: is no Python" in refusal(project, "import amounts\n")


def test_one_that_does_not_end_is_ended_and_its_line_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_file, "MOST_SECONDS", 0.2)
    endless = "while True:\n    try:\n        sum(range(10))\n    except Exception:\n        pass\n"
    said = refusal(project, endless)
    assert "took longer than 0.2 s, and every command reads it" in said
    assert said.startswith("clusters.py:")
