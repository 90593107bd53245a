"""A project's clusters.py is a user's program: each mistake in it is told in one line with its place."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from slipway.infra.declare import project_file
from slipway.infra.declare.declared import load, load_machine_images
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


def test_a_module_that_somebody_has_switched_off_is_no_mistake_in_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's documentation says that None in sys.modules prevents an import."""
    monkeypatch.setitem(sys.modules, "numba", None)
    (project / "clusters.py").write_text(ONE)
    assert [cluster.name for cluster in load({})] == ["mine"]


def test_the_image_that_its_cluster_starts_from_is_baked_where_that_stands(project: Path) -> None:
    own = 'ami_parameter="/mine/ami", ami_made_from="cpu-mpi", budget_usd_per_month'
    for declared in (ONE, ONE.replace("budget_usd_per_month", own)):
        (project / "clusters.py").write_text(declared)
        load({})
        (image,) = load_machine_images()
        assert (image.name, image.region, image.zone) == ("cpu-mpi", "eu-west-1", "eu-west-1a")
    (project / "clusters.py").write_text(f"{ONE}MACHINE_IMAGES = ()\n")
    load({})
    assert load_machine_images() == (), "those that it declares itself are all there are"


def test_what_it_and_its_programs_print_never_reaches_standard_output(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prints = "import subprocess\nprint('hello')\nsubprocess.run(['echo', 'there'], check=True)\n"
    (project / "clusters.py").write_text(f"{prints}{ONE}")
    load({})
    print("answer")
    captured = capfd.readouterr()
    assert captured.out == "answer\n"
    assert sorted(captured.err.split()) == ["hello", "there"]


def test_a_second_read_sees_what_changed_in_it_and_beside_it(project: Path) -> None:
    sized = ONE.replace("max_nodes=2", "max_nodes=NODES")
    (project / "clusters.py").write_text(f"from sizes import NODES\n{sized}")
    (project / "sizes.py").write_text("NODES = 2\n")
    assert load({})[0].max_nodes == 2
    (project / "sizes.py").write_text("NODES = 3 + 1\n")
    assert load({})[0].max_nodes == 4
    (project / "clusters.py").write_text(ONE.replace("mine", "ours"))
    assert load({})[0].name == "ours"


def test_two_projects_of_one_process_import_each_its_own_neighbours(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        folder = project / name
        (folder / "below").mkdir(parents=True)
        (folder / "cdk.json").write_text("{}")
        (folder / "clusters.py").write_text("from names import NAME\n" + ONE.replace('"mine"', "NAME"))
        (folder / "names.py").write_text(f"NAME = '{name}'\n")
        monkeypatch.chdir(folder / "below")
        assert [cluster.name for cluster in load({})] == [name]


def test_it_runs_in_its_own_folder_and_leaves_the_process_as_it_was(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "below").mkdir()
    (project / "nodes.txt").write_text("2")
    (project / "sizes.py").write_text("")
    opens = "import os, pathlib, sizes\nassert pathlib.Path('nodes.txt').read_text() == '2'\nos.chdir('/')\n"
    (project / "clusters.py").write_text(f"{opens}{ONE}")
    monkeypatch.chdir(project / "below")
    path, modules = [*sys.path], {*sys.modules}
    load({})
    assert Path.cwd() == project / "below"
    assert sys.path == path
    assert not {"clusters", "sizes"} & ({*sys.modules} - modules)


def test_a_timer_that_somebody_else_had_set_goes_on(project: Path) -> None:
    (project / "clusters.py").write_text(ONE)
    before = signal.setitimer(signal.ITIMER_REAL, 1000.0)
    try:
        load({})
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 900 < left < 1000
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nraise ValueError('no\\nluck')\n", "clusters.py:2: raised ValueError: no luck"),
        ("import no_such_module_of_anybody\n", "clusters.py:1: raised ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)\n", "clusters.py:2: raised SystemExit: 3"),
        ("CLUSTERS = (\n", "clusters.py:1: is no Python: '(' was never closed"),
        (f"{IMPORT}CLUSTERS = (MpiCluster(nodez=4),)\n", "clusters.py:2: 'nodez' is not a setting; did you"),
        (f"{IMPORT}CLUSTERS = (MpiCluster(name='a'),)\n", "clusters.py:2: missing 6 required keyword-only"),
        ("", "clusters.py: declares no CLUSTERS; write CLUSTERS = (BatchCluster(…),)"),
        (ONE.replace('"c6i.16xlarge"', "5"), "mine.instance_type: is 5, not text in quotes"),
        (ONE.replace("c6i.16xlarge", "c6i.16xlrage"), "mine.instance_type: is 'c6i.16xlrage', which is not"),
        (ONE.replace("),\n)", ")\n)"), "CLUSTERS: is or holds a MpiCluster, and not a tuple of Cluster"),
        ("CLUSTERS = ('mine',)\n", "CLUSTERS: is or holds a str, and not a tuple of Cluster entries"),
        ("CLUSTERS = None\n", "declares no CLUSTERS"),
        ("import amounts\n", "amounts.py:1: is no Python"),
        (f"{ONE}MACHINE_IMAGES = 7\n", "MACHINE_IMAGES: is or holds a int"),
        (declare(("a", "10.1.0.0/16"), ("a", "10.2.0.0/16")), "is the name of 2 clusters; cluster names"),
    ],
)
def test_a_mistake_is_told_with_its_place(project: Path, text: str, said: str) -> None:
    (project / "amounts.py").write_text("NODES = = 2\n")
    assert said in refusal(project, text)


def test_one_that_does_not_end_is_ended_and_its_line_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_file, "MOST_SECONDS", 0.2)
    endless = "while True:\n    try:\n        sum(range(10))\n    except Exception:\n        pass\n"
    said = refusal(project, endless)
    assert "took longer than 0.2 s, and every command reads it" in said
    assert said.startswith("clusters.py:")
