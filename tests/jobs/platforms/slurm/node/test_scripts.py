"""Users' scripts and commands, and the prolog, work on a real Slurm whose nodes pretend to be Trn1."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import slipway.jobs.platforms.slurm as platform
from slipway.jobs.code.command_job import RECIPE, OwnCommand, command_settings
from slipway.jobs.code.folder import read_folder
from slipway.jobs.code.packing import pack_project
from slipway.jobs.platforms.slurm.node.train import WrongWords
from slipway.jobs.words.job import Job
from tests.jobs.code.projects import write
from tests.jobs.platforms.slurm.conftest import CODE, Cluster, words
from tests.jobs.platforms.slurm.one_slurm import NODES, OneSlurm, is_installed

SCRIPTS = Path(next(iter(platform.__path__))) / "scripts"
PROGRAM = Path(__file__).parents[1] / "rank_program.py"
FACTS = {"cluster": "trn1", "instance_type": "trn1.32xlarge", "efa_interfaces": 8}
MODEL = """\
#!/usr/bin/env bash
exec "$SLIPWAY_PYTHON" -m slipway.jobs.platforms.slurm.node.main train --module rank_program \\
  --ranks-per-node 1 --code {code} -- smoke tensor=1 "$@"
"""
TOKENS = "prepare_tokens"
NCCOM = 'echo "Avg bus bandwidth: $(cat {root}/bandwidth)GB/s"\n'
COMPILER = """\
"$@" || exit
echo "INFO ||NEURON_PARALLEL_COMPILE||: Total failed compilations: $(cat {root}/failed)"
"""
PYTHON = """\
#!/bin/sh
[ "$1" = -c ] && echo 2.23.6484.0 && exit
exec {python} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trn1:
    """Hold the root of both nodes, and a folder from which a user submits."""

    slurm: OneSlurm
    root: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"SLIPWAY_NODE_ROOT": str(self.root), "SLIPWAY_ROOT": str(self.root)}

    def sbatch(self, *words: str) -> str:
        return self.slurm.ask("sbatch", "--parsable", *words, environment=self.environment, cwd=self.home)

    def log(self, job: str) -> str:
        return "".join(path.read_text() for path in self.home.glob(f"*-{job}.log"))


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}")
    path.chmod(0o755)


def write_node(root: Path) -> None:
    """Write the files of a healthy trn1.32xlarge, as far as they are read."""
    for index in range(16):
        (root / "dev").mkdir(exist_ok=True)
        (root / f"dev/neuron{index}").touch()
    for index in range(8):
        (root / "dev/infiniband").mkdir(exist_ok=True)
        (root / f"dev/infiniband/uverbs{index}").touch()
    (root / "etc/slipway").mkdir(parents=True)
    (root / "etc/slipway/node.json").write_text(json.dumps(FACTS))
    (root / "bandwidth").write_text("150.2")
    (root / "failed").write_text("0")
    program(root / "opt/aws/neuron/bin/nccom-test", NCCOM.format(root=root))


@pytest.fixture
def trn1(slurm: OneSlurm, tmp_path: Path) -> Iterator[Trn1]:
    root, home = tmp_path / "root", tmp_path / "home"
    home.mkdir()
    root.mkdir()
    write_node(root)
    training = root / "opt/slipway/training"
    program(training / "bin/python", PYTHON.format(python=sys.executable))
    program(training / "bin/neuron_parallel_compile", COMPILER.format(root=root))
    (training / "variables").touch()
    (training / "version").write_text("2.28.1")
    (home / "rank_program.py").write_bytes(PROGRAM.read_bytes())
    (home / "neox_tiny.sh").write_text(MODEL.format(code=home))
    for name in ("compile.slurm", "run.slurm"):
        (home / name).write_bytes((SCRIPTS / name).read_bytes())
    yield Trn1(slurm=slurm, root=root, home=home)
    slurm.write_prolog(["exit 0"])


def test_compile_then_run_as_in_the_article(trn1: Trn1) -> None:
    compiled = trn1.sbatch("--nodes", "2", "compile.slurm", "./neox_tiny.sh", "mode=echo")
    trained = trn1.sbatch(
        f"--dependency=afterok:{compiled}", "--nodes", "2", "run.slurm", "./neox_tiny.sh", "mode=echo"
    )
    assert trn1.slurm.ended(trained) == "COMPLETED", trn1.log(compiled) + trn1.log(trained)
    told = [
        json.loads(line.partition("] ")[2])["environment"]
        for line in (trn1.log(compiled) + trn1.log(trained)).splitlines()
        if line.startswith("[0] {")
    ]
    assert [each["SLIPWAY_CHECKPOINTS"].rpartition("/")[2] for each in told] == ["checkpoints", "neox_tiny"]
    assert not list(trn1.root.glob("shared/slipway/compiling/*"))
    other = trn1.sbatch("--nodes", "2", "run.slurm", "./neox_tiny.sh", "mode=echo", "micro_batch=2")
    assert trn1.slurm.ended(other) == "FAILED"
    assert f"not what compile job {compiled} compiled: micro_batch is 2, compiled was" in trn1.log(other)


def test_a_graph_that_failed_fails_the_compile_job_and_what_waits_for_it(trn1: Trn1) -> None:
    (trn1.root / "failed").write_text("1")
    compiled = trn1.sbatch("--nodes", "2", "compile.slurm", "./neox_tiny.sh")
    assert trn1.slurm.ended(compiled) == "FAILED"
    assert "error: 2 graphs failed to compile" in trn1.log(compiled)


def test_each_element_of_an_array_does_its_share_of_the_tokens(trn1: Trn1) -> None:
    (trn1.home / "tokens.sh").write_text(MODEL.format(code=trn1.home).replace("smoke tensor=1", TOKENS))
    job = trn1.sbatch("--array=1-3:2", "--nodes", "1", "run.slurm", "./tokens.sh", "input=text.jsonl")
    assert [trn1.slurm.ended(f"{job}_{number}") for number in (1, 3)] == ["COMPLETED", "COMPLETED"]
    log = "".join(path.read_text() for path in trn1.home.glob("run-*.log"))
    told = [json.loads(line.partition("] ")[2]) for line in log.splitlines() if line.startswith("[0] {")]
    assert sorted(rank["arguments"] for rank in told) == [
        ["--set", f"share={share}/2", "--set", "input=text.jsonl"] for share in (0, 1)
    ]
    assert {rank["environment"]["SLIPWAY_ARRAY_INDEX"] for rank in told} == {"0", "1"}


def test_an_array_whose_numbers_divide_no_work_or_a_script_that_is_not_there_is_refused_in_one_line(
    trn1: Trn1,
) -> None:
    (trn1.home / "tokens.sh").write_text(MODEL.format(code=trn1.home).replace("smoke tensor=1", TOKENS))
    uneven = trn1.sbatch("--array=0,3,7", "--nodes", "1", "run.slurm", "./tokens.sh")
    absent = trn1.sbatch("--nodes", "1", "run.slurm", "./neox_typo.sh")
    assert [trn1.slurm.ended(job) for job in (f"{uneven}_7", absent)] == ["FAILED", "FAILED"]
    logs = [path.read_text() for path in trn1.home.glob("run-*.log")]
    uneven_ones = "error: the 3 numbers of this array from 0 to 7 are not evenly spaced"
    said = next(text for text in logs if text.startswith(uneven_ones))
    assert "--array=0-2" in said
    assert trn1.log(absent).splitlines() == [
        "error: there is no script './neox_typo.sh'; use: sbatch --nodes COUNT run.slurm ./MODEL.sh"
    ]


def check_nodes(slurm: OneSlurm, roots: Path) -> None:
    """Let slurmd run our prolog before each job, with the node's files in a folder of its name."""
    slurm.write_prolog(
        [
            f"export SLURM_CONF={slurm.folder}/slurm.conf SLIPWAY_PYTHON={sys.executable}",
            f"export PATH={os.environ['PATH']} SLIPWAY_NODE_ROOT={roots}/$SLURMD_NODENAME",
            f"exec {SCRIPTS}/prolog.sh",
        ]
    )


@pytest.mark.parametrize(
    "lacks", ["neuron15", pytest.param("infiniband/uverbs7", marks=pytest.mark.long), "bandwidth"]
)
def test_an_unfit_node_drains_and_the_job_runs_on_another(trn1: Trn1, tmp_path: Path, lacks: str) -> None:
    roots = {node: tmp_path / node for node in NODES}
    for root in roots.values():
        root.mkdir()
        write_node(root)
    said = {
        "neuron15": "slipway: 15 of 16 neuron devices",
        "infiniband/uverbs7": "slipway: 7 of 8 EFA devices",
        "bandwidth": "slipway: an all-reduce of 32 ranks moves 3.1 GB/s, and 20 is the least",
    }[lacks]
    if lacks == "bandwidth":
        (roots["n1"] / "bandwidth").write_text("3.1")
    else:
        (roots["n1"] / "dev" / lacks).unlink()
    check_nodes(trn1.slurm, tmp_path)
    trn1.slurm.await_idle()
    try:
        job = trn1.sbatch("--nodes", "1", "--output=hi-%j.log", "--wrap", 'echo "on $SLURMD_NODENAME"')
        assert trn1.slurm.ended(job) == "COMPLETED"
        assert trn1.log(job).strip() == "on n2"
        reason = trn1.slurm.ask("sinfo", "--noheader", "--nodes=n1", "--format=%E")
        assert reason == said
    finally:
        trn1.slurm.ask("scontrol", "update", "nodename=n1", "state=resume")


# Settings of a Slurm that starts and ends machines; none idles for so long here.
CLOUD = "SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=600\nSuspendTimeout=1\n"


@pytest.mark.skipif(not is_installed(), reason="Slurm is not installed")
def test_an_unfit_node_is_given_back_at_once_and_its_name_is_free_for_another_machine(tmp_path: Path) -> None:
    """A node that is only drained stays so when it is powered down, and after it no job gets that name."""
    for node in NODES:
        (tmp_path / node).mkdir()
        write_node(tmp_path / node)
    (tmp_path / "n1" / "dev" / "neuron15").unlink()
    (tmp_path / "slurm").mkdir()
    slurm = OneSlurm(tmp_path / "slurm", settings=CLOUD)
    try:
        slurm.start()
        check_nodes(slurm, tmp_path)
        job = slurm.ask("sbatch", "--parsable", "--nodes=1", "--output=hi.log", "--wrap", "true")
        assert slurm.ended(job) == "COMPLETED"
        state = ("sinfo", "--noheader", "--nodes=n1", "--format=%T %E")
        slurm.until(lambda: slurm.ask(*state) == "idle~ slipway: 15 of 16 neuron devices", "rid of n1")
    finally:
        slurm.stop()


# A user's own command on two nodes of a real Slurm, from the frozen request to what it prints.
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
    """Pack a user's folder; every rank runs the recipe that unpacks it."""
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


# A batch script's settings come from its own lines, or from variables of the user who called sbatch.


def test_ranks_of_a_node_are_those_of_the_script_or_else_of_the_variable() -> None:
    assert words().ranks_per_node is None
    assert words(SLIPWAY_PROCESSES_PER_NODE="2").ranks_per_node == 2
    assert words("--ranks-per-node", "1", SLIPWAY_PROCESSES_PER_NODE="2").ranks_per_node == 1


@pytest.mark.parametrize("value", ["0", "-1", "two", "", "²"])
def test_a_number_of_ranks_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(
        WrongWords, match=f"SLIPWAY_PROCESSES_PER_NODE is '{value}'; a number of ranks from 1"
    ):
        words(SLIPWAY_PROCESSES_PER_NODE=value)
