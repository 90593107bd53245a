"""compile.slurm and run.slurm by hand, and the prolog, on a real Slurm whose nodes pretend to be Trn1."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import slipway.jobs.platforms.slurm as platform
from tests.jobs.platforms.slurm.one_slurm import NODES, OneSlurm

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
    """Holds the root of both nodes, and a folder from which a person submits."""

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
    """Write what a healthy trn1.32xlarge has, as far as anybody looks."""
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


def test_an_array_whose_numbers_divide_no_work_is_refused_in_one_line(trn1: Trn1) -> None:
    (trn1.home / "tokens.sh").write_text(MODEL.format(code=trn1.home).replace("smoke tensor=1", TOKENS))
    job = trn1.sbatch("--array=0,3,7", "--nodes", "1", "run.slurm", "./tokens.sh")
    assert trn1.slurm.ended(f"{job}_7") == "FAILED"
    said = next(trn1.home.glob("run-*.log")).read_text()
    assert said.startswith("error: the 3 numbers of this array from 0 to 7 are not evenly spaced"), said
    assert "--array=0-2" in said


def test_a_script_that_is_not_there_is_said_in_one_line(trn1: Trn1) -> None:
    job = trn1.sbatch("--nodes", "1", "run.slurm", "./neox_typo.sh")
    assert trn1.slurm.ended(job) == "FAILED"
    assert trn1.log(job).splitlines() == [
        "error: there is no script './neox_typo.sh'; use: sbatch --nodes COUNT run.slurm ./MODEL.sh"
    ]


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
    trn1.slurm.write_prolog(
        [
            f"export SLURM_CONF={trn1.slurm.folder}/slurm.conf SLIPWAY_PYTHON={sys.executable}",
            f"export PATH={os.environ['PATH']} SLIPWAY_NODE_ROOT={tmp_path}/$SLURMD_NODENAME",
            f"exec {SCRIPTS}/prolog.sh",
        ]
    )
    trn1.slurm.await_idle()
    try:
        job = trn1.sbatch("--nodes", "1", "--output=hi-%j.log", "--wrap", 'echo "on $SLURMD_NODENAME"')
        assert trn1.slurm.ended(job) == "COMPLETED"
        assert trn1.log(job).strip() == "on n2"
        reason = trn1.slurm.ask("sinfo", "--noheader", "--nodes=n1", "--format=%E")
        assert reason == said
    finally:
        trn1.slurm.ask("scontrol", "update", "nodename=n1", "state=resume")
