"""A user's own command on two nodes of a real Slurm, from the frozen request to what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipway.jobs.code.command_job import RECIPE, OwnCommand, command_settings
from slipway.jobs.code.folder import read_folder
from slipway.jobs.code.packing import pack_project
from slipway.jobs.words.job import Job
from tests.jobs.code.projects import write
from tests.jobs.platforms.slurm.conftest import CODE, Cluster

COMMAND = """
import sys
from slipway.containers.recipes.command.train import main
sys.exit(main())
"""
SHOW = """
import os, sys
told = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "NODE_RANK", "NNODES")]
print("told", *told, sys.argv[1:])
"""
WORDS = ("python", "show.py", "it's $(id)", "Ref::x", "")


@pytest.fixture
def archive(cluster: Cluster, tmp_path: Path) -> Path:
    """A user's folder, packed; what every rank runs here is the recipe that unpacks it."""
    write(cluster.root / f"shared/slipway/code/{CODE}", {"rank_program.py": COMMAND})
    folder = write(tmp_path / "project", {"show.py": SHOW})
    packed = pack_project(read_folder(folder), tmp_path / "packed")
    return packed.archive.rename(tmp_path / f"{packed.digest}.tar.gz")


def test_a_users_own_command_runs_on_every_node_with_its_words(cluster: Cluster, archive: Path) -> None:
    settings = command_settings(OwnCommand(words=WORDS), str(archive))
    job_id, request = cluster.submit(Job(name="own", recipe=RECIPE, nodes=2, settings=settings))
    ended, log = cluster.slurm.ended(job_id), cluster.log(request.name)
    assert ended == "COMPLETED", log
    said = sorted(re.findall(r"^\[\d+\] (told .*)$", log, re.MULTILINE))
    assert said == [f"told {rank} 2 {rank} 2 {list(WORDS[2:])}" for rank in range(2)]
