"""A job runs on this machine as its only node, with a real mpirun, sshd, launchers and ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node import run as node_run
from slipway.jobs.platforms.mpi.node.facts import end_processes, find_program, jobs_here, own_facts
from slipway.jobs.platforms.mpi.node.lock import CannotRun, lock_cluster
from slipway.jobs.platforms.mpi.node.mpirun import Ended, MpirunWork, _true_code, run_everywhere
from slipway.jobs.platforms.mpi.node.run import DeadHost, UnlikeHosts, agree
from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.platforms.on_nodes import FOLDER, rank_python
from slipway.jobs.words.mpi import REPLACED_SECONDS, Member
from tests.jobs.platforms.mpi.node.conftest import SETUP, Node, Start
from tests.jobs.words.test_mpi import JOB

HERE, THERE = "127.0.0.1", "127.0.0.2"
MEMBER = Member(name="ip-127-0-0-1", address=HERE, instance_id="i-1")
MPIS_HERE = [mpi for mpi in ("open-mpi", "mpich") if find_program(mpi)]
pytestmark = pytest.mark.skipif(not MPIS_HERE, reason="neither Open MPI nor MPICH is installed")
RANK = """\
import os, sys
print("argument", sys.argv[1], "of rank", os.environ["RANK"], "in", os.environ["SLIPWAY_DATA"])
sys.exit(7 if os.environ["RANK"] == "1" else 0)
"""


@pytest.fixture
def node(start: Start, as_node: Callable[[Node], None]) -> Node:
    found = start(HERE)
    as_node(found)
    return found


def work_of(node: Node, mpi: str, code: Path, ranks: int) -> MpirunWork:
    program = find_program(mpi)
    assert program is not None
    (code / "tiny_rank.py").write_text(RANK)
    return MpirunWork(
        job=f"tiny-{os.getpid()}",
        members=[node.member],
        module="tiny_rank",
        arguments=("a b;$(false)",),
        environment={
            "SLIPWAY_JOB": f"tiny-{os.getpid()}",
            "SLIPWAY_NODES": "1",
            "SLIPWAY_DATA": "/data/a b'\"",
        },
        processes_per_node=ranks,
        mpi=mpi,
        program=program,
        facts=own_facts(mpi),
        efa_interfaces=0,
        code=code,
    )


def run(node: Node, work: MpirunWork, folder: Path) -> Ended:
    with lock_cluster(node.where, work.job) as lock:
        return run_everywhere(node.where, work, folder, lock, lambda _: None)


@pytest.mark.parametrize("mpi", MPIS_HERE)
def test_the_exit_code_is_the_first_failed_ranks_own_and_no_process_is_left(
    node: Node, tmp_path: Path, capfd: pytest.CaptureFixture[str], mpi: str
) -> None:
    """MPICH would return the bitwise or of all exit codes, and Open MPI the first one."""
    assert run(node, work_of(node, mpi, tmp_path, 2), tmp_path) == Ended(code=7, dead=())
    out = capfd.readouterr().out
    for rank in (0, 1):
        assert f"[{rank}] argument a b;$(false) of rank {rank} in /data/a b'\"\n" in out
    work = work_of(node, mpi, tmp_path, 1)
    assert run(node, work, tmp_path) == Ended(code=0, dead=())
    assert work.job not in jobs_here()
    assert _true_code(Path("/nowhere"), 1, ("ip-10-0-0-2",)) == 85  # which asks for another attempt
    assert _true_code(Path("/nowhere"), 3, ()) == 3


def test_ranks_run_in_the_python_of_the_image_with_its_variables_where_it_brings_one(
    node: Node, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A vendor's PyTorch needs another Python than the node's own, which has what joins a cluster."""
    folder = node.where.root / FOLDER
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "python"
    program.write_text(f'#!/bin/sh\nRAN_BY=$0 exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    (folder / "variables").write_text("GC_KERNEL_PATH=/usr/lib/habanalabs/libtpc_kernels.so\n")
    (folder / "version").write_text("SynapseAI 1.18.0\n")
    python = rank_python(node.where.root)
    work = work_of(node, MPIS_HERE[0], tmp_path, 1)
    told = "import os; print(os.environ['RAN_BY'], os.environ['GC_KERNEL_PATH'])"
    (tmp_path / "tiny_rank.py").write_text(told)
    settings = {**python.variables, **work.environment}
    run(node, replace(work, python=python.program, environment=settings), tmp_path)
    said = capfd.readouterr().out
    assert f"[0] {program} /usr/lib/habanalabs/libtpc_kernels.so" in said
    assert own_facts(MPIS_HERE[0]).training == "SynapseAI 1.18.0"


def test_a_dead_host_and_nodes_without_the_mpi_of_the_cluster_are_named_before_a_rank_starts(
    node: Node,
) -> None:
    dead = Member(name="ip-127-0-0-2", address=THERE, instance_id="i-dead")
    node.knows([node.member, dead])
    with pytest.raises(DeadHost) as refusal:
        agree(node.where, [node.member.name, dead.name], MPIS_HERE[0])
    assert "host ip-127-0-0-2 does not answer" in refusal.value.message
    assert node.member.name not in refusal.value.message
    if find_program("intel-mpi") and own_facts("intel-mpi").mpi.startswith("Intel"):
        pytest.skip("Intel MPI is installed")
    with pytest.raises(UnlikeHosts, match="ip-127-0-0-1 has no intel-mpi"):
        agree(node.where, [node.member.name], "intel-mpi")


def test_a_node_on_which_another_job_left_a_process_is_named_with_it(node: Node) -> None:
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, "SLIPWAY_JOB": "left-behind"})
    try:
        with pytest.raises(UnlikeHosts, match=r"ip-127-0-0-1 still runs .*\bleft-behind"):
            agree(node.where, [node.member.name], MPIS_HERE[0])
    finally:
        left.kill()
        left.wait()


def test_another_attempt_waits_until_what_was_lost_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its group needs minutes for a replacement, and EC2 calls a machine running before it answers."""
    answers: list[Exception | None] = [node_run._Missing("1 of 2 run"), DeadHost("silent"), None]
    paused: list[float] = []

    def ask(*_: object) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(node_run, "_members_of", lambda *_: [MEMBER])
    monkeypatch.setattr(node_run, "agree", ask)
    monkeypatch.setattr(time, "sleep", paused.append)
    assert node_run.await_members(NodePaths(root=tmp_path), SETUP, JOB) == [MEMBER]
    assert (len(paused), answers) == (2, [])


def test_another_attempt_gives_up_a_machine_that_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = iter((0.0, REPLACED_SECONDS + 1.0))

    def ask(*_: object) -> None:
        raise DeadHost("host ip-10-0-0-2 does not answer")

    monkeypatch.setattr(node_run, "_members_of", lambda *_: [MEMBER])
    monkeypatch.setattr(node_run, "agree", ask)
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    with pytest.raises(DeadHost, match="ip-10-0-0-2"):
        node_run.await_members(NodePaths(root=tmp_path), SETUP, JOB)


@pytest.fixture
def stoppable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Tell `run` to end while it looks at the nodes; return what it then asks of AWS."""
    done: list[str] = []
    before = signal.getsignal(signal.SIGTERM)

    def look(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(node_run, "_read_request", lambda *_: JOB)
    monkeypatch.setattr(node_run, "_members_of", lambda *_: [MEMBER])
    monkeypatch.setattr(node_run, "become_cluster_user", lambda: None)
    monkeypatch.setattr(node_run, "protect", look)
    monkeypatch.setattr(node_run, "release", lambda *_: done.append("released"))
    yield done
    signal.signal(signal.SIGTERM, before)


def test_a_job_that_is_ended_before_its_ranks_began_says_so(
    stoppable: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert node_run.run_job(NodePaths(root=tmp_path), SETUP, "jobs/x/request.json") == 143
    assert f"error: {JOB.name} ended before its ranks began: SIGTERM received" in capsys.readouterr().err
    assert stoppable == ["released"]


def test_a_job_that_is_refused_leaves_the_nodes_of_the_other_as_they_are(
    stoppable: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_run, "_ENDING_SECONDS", 0.0)
    where = NodePaths(root=tmp_path)
    with lock_cluster(where, "first-1"), pytest.raises(CannotRun, match="first-1 runs"):
        node_run.run_job(where, SETUP, "jobs/x/request.json")
    assert stoppable == []


def test_a_second_job_is_refused_with_the_name_of_the_first(node: Node) -> None:
    with (
        lock_cluster(node.where, "first-1"),
        pytest.raises(CannotRun, match="first-1 runs on this cluster"),
        lock_cluster(node.where, "second-2"),
    ):
        pass
    with lock_cluster(node.where, "second-2"):
        assert (node.where.run / "job.lock").read_text() == "second-2"


def test_every_process_of_a_job_is_ended_and_no_other(tmp_path: Path) -> None:
    """This includes one that ignores SIGTERM, and one in a session of its own."""
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    job = f"ended-{os.getpid()}"
    theirs = [
        subprocess.Popen(
            [sys.executable, "-c", stubborn],
            env={**os.environ, "SLIPWAY_JOB": name},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        for name in (job, f"{job}-not")
    ]
    try:
        for their in theirs:
            assert their.stdout is not None
            their.stdout.readline()
        assert end_processes(job, 0.1) in ([], [theirs[0].pid])  # killed, and a zombie until we reap it
        assert theirs[0].wait() == -signal.SIGKILL
        assert theirs[1].poll() is None
    finally:
        for their in theirs:
            their.kill()
            their.communicate()
