"""Deployed clusters accept every command of the other roads' pages, line by line, in one yard.

A page's jobs for accelerators are too large for processors: each is submitted as typed, and cancelled once no
later line needs it. Other tests run the whole pages of c6i and dl1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.words.installation import DECLARATIONS
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.services.pcs import differences
from tests.architecture.tracked import ROOT
from tests.end_to_end.conftest import Shell, yard_at
from tests.end_to_end.own_project import begin_project
from tests.end_to_end.roads import PlayedRoad
from tests.jobs.test_page_commands import CLUSTERS_OF_A_PAGE, small_upload
from tests.test_docs import page
from tests.yard.accounts import stand_in
from tests.yard.services.sagemaker.training_site import require_training

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

_SUBMITS = re.compile(r"slipway (?:submit|run) (?!.*--dry-run)")
_JOB = re.compile(r"\b([\w-]+)-[0-9a-f]{12}\b")


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A yard with AMIs by name only; quotas are what the pages ask for."""
    require_training()
    with yard_at(tmp_path_factory.mktemp("roads"), stand_in) as shell:
        yield shell


def submitted(road: PlayedRoad, commands: list[str]) -> None:
    """Run commands in order, and cancel each job that no later one waits for."""
    for place, typed in enumerate(commands):
        said = road.play([typed.replace(" --follow", "")])
        if _SUBMITS.match(typed):
            job = _JOB.search(said)
            assert job is not None, f"$ {typed}\n{said}"
            if not any(re.search(rf"\b{job[1]}\b", later) for later in commands[place + 1 :]):
                road.play([f"slipway cancel {job[0]}"])


def test_the_page_of_gpus_is_taken_by_the_clusters_that_it_declares(yard: Shell, tmp_path: Path) -> None:
    project = begin_project(yard, tmp_path / "mine")
    (declared,) = CLUSTERS_OF_A_PAGE.findall(page("docs/roads/gpu.md"))
    (project.folder / DECLARATIONS).write_text(f"{declared}MACHINE_IMAGES = ()\n", encoding="utf-8")
    road = PlayedRoad.at("gpu", yard, tmp_path, bakes=False)
    road = replace(road, yard=replace(road.yard, folder=project.folder))
    submitted(
        road, [typed.replace("destroy gpus", "destroy gpus --cancel --yes") for typed in road.commands()]
    )


def test_the_page_of_sagemaker_is_taken(yard: Shell, tmp_path: Path) -> None:
    road = PlayedRoad.at("sagemaker", yard, tmp_path, bakes=False)
    for name in ("gpt-j-6b", "sst2"):
        small_upload(tmp_path / name)
    submitted(road, [*road.commands(), *road.commands("A job")])


def test_the_page_of_trn1_is_taken(yard: Shell, tmp_path: Path) -> None:
    if why := differences.obstacle() or boot_ways.obstacle_here():
        pytest.skip(f"no Slurm of the yard runs here: {why}")
    road = PlayedRoad.at("trn1", yard, tmp_path, bakes=False)
    typed = [*road.commands(), *road.commands("Jobs")]
    submitted(road, [each for each in typed if "sbatch" not in each])  # test_trn1_road.py submits scripts


def test_dl1_over_mpi_is_taken(yard: Shell, tmp_path: Path) -> None:
    road = PlayedRoad.at("dl1", yard, tmp_path, bakes=False)
    road.play(["slipway cluster quota dl1 --request --wait"])  # of the page's first commands
    submitted(replace(road, name="dl1-mpi"), road.commands("Without AWS Batch"))


def test_every_page_of_a_road_has_a_test() -> None:
    played = {"c6i", "dl1", "gpu", "sagemaker", "trn1"}
    assert {path.stem for path in (ROOT / "docs" / "roads").glob("*.md")} == played
