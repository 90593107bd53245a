"""The health of NVIDIA GPUs is judged by programs that answer as NVIDIA's do, healthy and with each fault."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.runtime.launch import gpus
from slipway.jobs.platforms.slurm.node import health
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths
from slipway.yard.machines import gpu_programs
from slipway.yard.machines.gpu_programs import FAULTS, GpuAnswers
from tests.containers.runtime.nodes import Cluster, Node, ready
from tests.fault_clock import FaultClock

WELL = gpu_programs.of_node(gpu_programs.RECORDED, 8)
P4D: dict[str, Any] = {"SLIPWAY_ACCELERATOR": "nvidia", "SLIPWAY_ACCELERATORS": 8}
ONE_RANK = {**P4D, "SLIPWAY_PROCESSES_PER_NODE": 1}
ILL = "GPU 7 (0000:08:00.0)"
FALLEN = (
    "3,1184,86553204,-;NVRM: Xid (PCI:0000:10:1c): 79, pid='<unknown>', name=<unknown>, "
    "GPU has fallen off the bus.\n"
)

# For each fault, the words of the job's log or of Slurm's reason.
SAID = {
    "one-missing": "nvidia-smi sees 7 of 8 GPUs",
    "lost": "nvidia-smi -q -x fails (Unable to determine the device handle for GPU 0000:04:00.0: "
    "GPU is lost. Reboot the system to recover this GPU)",
    "uncorrectable-errors": f"{ILL} had 2 uncorrectable memory errors since its driver was loaded",
    "row-remapping-failed": f"{ILL} could not remap a bad row of its memory",
    "sram-threshold": f"{ILL} had more errors in its SRAM than NVIDIA allows",
    "unrepairable-memory": f"{ILL} has memory that cannot be repaired",
    "reset-needed": f"{ILL} needs: Reset",
    "outside-the-fabric": f"{ILL} has not joined NVLink's fabric (Completed, Insufficient resources)",
    "link-down": f"{ILL} has 11 of 12 NVLinks",
    "links-off": f"{ILL} has 0 of its NVLinks",
    "diagnostic": "dcgmi diag -r 1 fails: A GPU had uncorrectable memory errors and row remapping failed.",
}


class Machine:
    """A node with eight GPUs: its root, and the folder of its programs."""

    def __init__(self, folder: Path) -> None:
        self.root, self.programs = folder / "root", folder / "programs"
        (self.root / "dev").mkdir(parents=True)
        for index in range(8):
            (self.root / f"dev/nvidia{index}").touch()
        (self.root / "dev/nvidiactl").touch()
        (self.root / "proc").symlink_to("/proc")
        self.log("6,1,0,-;Linux version 6.12\n")
        self.answer(WELL)

    @property
    def path(self) -> str:
        return f"{self.programs}{os.pathsep}{os.environ['PATH']}"

    def answer(self, answers: GpuAnswers) -> None:
        gpu_programs.write(self.programs, answers)

    def log(self, text: str) -> None:
        (self.root / "dev/kmsg").write_text(text)

    def findings(self, expected: int = 8) -> tuple[list[str], list[str]]:
        said: list[str] = []
        return list(gpus.findings(expected, self.root, said.append)), said


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    monkeypatch.setattr(gpus, "_PAUSE_SECONDS", 0.01)
    return made


def test_nothing_is_said_of_gpus_that_are_well(machine: Machine) -> None:
    assert machine.findings() == ([], [])


def test_each_fault_of_the_yard_is_held_here() -> None:
    assert SAID.keys() == FAULTS.keys()


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_one_line_that_names_the_gpu(machine: Machine, fault: str) -> None:
    machine.answer(FAULTS[fault](WELL))
    assert machine.findings() == ([SAID[fault]], [])


@pytest.mark.parametrize("code", [48, 54, 64, 74, 79, 95, 119, 120, 140, 143])
def test_a_grave_error_in_the_kernels_log_is_said_once(machine: Machine, code: int) -> None:
    machine.log(2 * FALLEN.replace("79", str(code)))
    (found,), _ = machine.findings()
    assert found.startswith(f"the kernel logged Xid {code} of the GPU at 0000:10:1c: pid=")


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 92, 94, 121])
def test_what_programs_do_wrong_and_the_driver_has_mended_is_no_illness(machine: Machine, code: int) -> None:
    machine.log(FALLEN.replace("79", str(code)))
    assert machine.findings() == ([], [])


def test_a_row_that_waits_for_a_reset_is_said_and_lets_the_job_run(machine: Machine) -> None:
    machine.answer(gpu_programs.with_field("remapped_row_pending", "Yes")(WELL))
    assert machine.findings() == (
        [],
        [f"{ILL} will remap a bad row of its memory when it is reset"],
    )


def test_an_older_driver_asks_for_a_reset_in_its_own_field(machine: Machine) -> None:
    older = "<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>"
    texts = [text.replace("<gpu_recovery_action>None</gpu_recovery_action>", older) for text in WELL.gpus[:1]]
    machine.answer(replace(WELL, gpus=(*texts, *WELL.gpus[1:])))
    assert machine.findings() == (["GPU 0 (0000:01:00.0) needs: Reset"], [])


def test_a_node_that_has_just_booted_may_still_join_the_fabric(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins = gpu_programs.with_field("fabric", "<state>In Progress</state><status>N/A</status>")
    machine.answer(joins(WELL))
    monkeypatch.setattr("time.sleep", lambda seconds: machine.answer(WELL))
    assert machine.findings() == ([], [])
    machine.answer(joins(WELL))
    monkeypatch.setattr(gpus, "_FABRIC_SECONDS", 0.0)
    assert machine.findings()[0] == [f"{ILL} has not joined NVLink's fabric (In Progress, ?)"]


@pytest.mark.parametrize(("product", "count"), [("NVIDIA A10G", 8), ("NVIDIA H100 80GB HBM3", 1)])
def test_gpus_without_peers_need_no_links(machine: Machine, product: str, count: int) -> None:
    """G5 has no NVLink; a p5.4xlarge has one GPU of a board with eight."""
    answers = gpu_programs.of_node(product, count)
    machine.answer(replace(answers, links=tuple(text.partition("\n")[0] for text in answers.links)))
    assert machine.findings(expected=count) == ([], [])


def test_a_setting_that_dcgm_dislikes_does_not_make_a_node_ill(machine: Machine) -> None:
    words = "Persistence Mode: Persistence mode for GPU 0 is disabled."
    machine.answer(replace(WELL, diagnostic=((5, words),)))
    assert machine.findings() == ([], [f"dcgmi diag -r 1: {words}"])


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ({"gpu_ids": "3", "status": "Fail", "warnings": ["GPU 3: row remap failure"]}, True),
        ({"gpu_ids": "3", "status": "FAIL", "warnings": "GPU 3: row remap failure"}, True),
        ({"gpu_ids": "3", "status": "Fail", "warnings": ["Persistence mode is off"]}, False),
        ({"gpu_ids": "3", "status": "Warn", "warnings": ["GPU 3: row remap failure"]}, False),
    ],
)
def test_older_releases_of_dcgm_are_understood(results: dict[str, object], found: bool) -> None:
    """Their JSON is that of NvvsCommon.h in DCGM 2 and 3."""
    tests = [{"name": "Page Retirement/Row Remap", "results": [results]}]
    answer = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]}}
    severe = [words for severity, words in gpus._failures(answer) if "Persistence" not in words]
    assert severe == (["GPU 3: row remap failure"] if found else [])


def test_a_diagnostic_that_cannot_run_says_nothing_of_the_gpus(machine: Machine) -> None:
    words = "Error: Unable to connect to host engine. Host engine connection invalid/disconnected."
    (machine.programs / "dcgmi").write_text(f'#!/bin/sh\necho "{words}"; exit 1\n')
    assert machine.findings() == ([], [f"dcgmi diag -r 1 -j fails ({words}), so it was left out"])


def test_a_program_that_does_not_end_is_a_fault(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_SMI_SECONDS", 0.1)
    (machine.programs / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 30\n")
    assert machine.findings() == (["nvidia-smi -q -x does not end in 0 s"], [])


def test_what_a_container_lacks_is_said_and_is_no_fault(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine.root))
    (machine.root / "dev/kmsg").unlink()
    assert machine.findings() == (
        [],
        [
            "there is no nvidia-smi here, so the health of its GPUs is not known",
            "/dev/kmsg cannot be read here, so errors that the driver logged are not known",
        ],
    )


@pytest.mark.parametrize("sick", [0, 1])
def test_a_node_with_an_ill_gpu_ends_the_attempt_and_is_named(
    cluster: Cluster, tmp_path: Path, sick: int
) -> None:
    machines = [Machine(tmp_path / str(node)) for node in range(2)]
    machines[sick].answer(FAULTS["row-remapping-failed"](WELL))
    nodes = [
        cluster.start({"*": ["wait"]}, node=node, nodes=2, SLIPWAY_ROOT=each.root, PATH=each.path, **P4D)
        for node, each in enumerate(machines)
    ]
    assert [node.end() for node in nodes] == [85, 85]
    for node in nodes:
        assert f"node {sick} (" in node.lines[-1]
        assert SAID["row-remapping-failed"] in node.lines[-1]
    assert "ready" not in nodes[0].text + nodes[1].text, "nothing was started on any node"


ECC = "uncorrectable-errors"


@pytest.mark.parametrize("ill", [ECC, "reset-needed", "fallen"])
def test_a_gpu_that_falls_ill_during_a_run_asks_for_another_attempt(
    cluster: Cluster, tmp_path: Path, ill: str, fault: FaultClock
) -> None:
    """F47. A rank whose device is lost ends as one with a mistake does, so the device is asked."""
    machine = Machine(tmp_path)
    node = cluster.start({"*": ["wait"]}, SLIPWAY_ROOT=machine.root, PATH=machine.path, **ONE_RANK)
    node.until("ready")
    if ill == "fallen":
        machine.log(FALLEN)
    else:
        machine.answer(FAULTS[ill](WELL))
    fault.strikes()
    os.kill(rank_of(node), signal.SIGABRT)
    node.until("is not fit for the job")
    fault.is_seen()
    assert node.end() == 85
    fault.is_over()
    told = SAID.get(ill, "the kernel logged Xid 79 of the GPU at 0000:10:1c")
    assert f"is not fit for the job: {told}" in node.lines[-1]
    again = cluster.start({"*": ["wait"]}, SLIPWAY_ROOT=machine.root, PATH=machine.path, **ONE_RANK)
    assert again.end() == 85
    assert "ready" not in again.text, "the same node starts nothing"


@pytest.mark.long  # the next attempt gives nvidia-smi a minute
def test_a_gpu_that_hangs_during_a_run_ends_the_attempt_and_its_node_starts_no_other(
    cluster: Cluster, tmp_path: Path, fault: FaultClock
) -> None:
    """F47. A rank waits for its device for ever, and so does the driver's program."""
    machine = Machine(tmp_path)
    told = {"SLIPWAY_ROOT": machine.root, "PATH": machine.path, "SLIPWAY_HANG_SECONDS": 2, **ONE_RANK}
    node = cluster.start({"*": ["beat 7", "wait"]}, **told)
    node.until("ready")
    (machine.programs / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 600\n")
    fault.strikes()
    node.until("no progress for too long")
    fault.is_seen()
    assert node.end() == 85
    again = cluster.start({"*": ["wait"]}, **told)
    again.process.wait(timeout=120)
    fault.is_over()
    assert again.end() == 85
    assert "is not fit for the job: nvidia-smi -q -x does not end in 60 s" in again.lines[-1]
    assert "ready" not in again.text, "the node starts nothing"


def test_an_ill_gpu_explains_what_fails_on_other_nodes(cluster: Cluster, tmp_path: Path) -> None:
    """F47. The exception of a peer that lost its connection would end the job for good."""
    machines = [Machine(tmp_path / str(node)) for node in range(2)]
    nodes = [
        cluster.start(
            {"*": ["finish 1"]},
            node=node,
            nodes=2,
            SLIPWAY_ROOT=each.root,
            PATH=each.path,
            **ONE_RANK,
        )
        for node, each in enumerate(machines)
    ]
    ready(nodes)
    machines[1].answer(FAULTS[ECC](WELL))
    for node in nodes:
        os.kill(rank_of(node), signal.SIGTERM)
    assert [node.end() for node in nodes] == [85, 85]
    assert f"is not fit for the job: {SAID[ECC]}" in nodes[0].lines[-1]


def test_a_rank_that_fails_on_gpus_that_are_well_is_not_tried_again(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    node = cluster.start({"*": ["explode"]}, SLIPWAY_ROOT=machine.root, PATH=machine.path, **ONE_RANK)
    assert node.end() == 1
    assert "not fit" not in node.text


def rank_of(node: Node) -> int:
    """Return the process of the rank, which the launcher has started."""
    children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text().split()
    (found,) = (int(one) for one in children if b"\0RANK=" in Path(f"/proc/{one}/environ").read_bytes())
    return found


def test_devices_that_are_not_there_are_one_line(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.root / "dev/nvidia7").unlink()
    machine.answer(FAULTS["one-missing"](WELL))
    node = cluster.start({"*": ["wait"]}, SLIPWAY_ROOT=machine.root, PATH=machine.path, **P4D)
    assert node.end() == 85
    assert "is not fit for the job: 7 of 8 nvidia devices (/dev/nvidia[0-9]+)" in node.lines[-1]
    assert "nvidia-smi" not in node.text


def test_a_job_on_gpus_that_are_well_starts(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    node = cluster.start({"*": ["say done"]}, SLIPWAY_ROOT=machine.root, PATH=machine.path, **P4D)
    assert node.end() == 0
    assert "this node has 8 nvidia devices" in node.text


def test_of_the_launchers_of_a_node_only_the_first_asks(cluster: Cluster, tmp_path: Path) -> None:
    """Slurm may start one a device; two diagnostics at once refuse each other."""
    machine = Machine(tmp_path)
    (machine.programs / "nvidia-smi").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked-$SLURM_LOCALID\n")
    second = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_NNODES": "1"}
    second |= {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0"}
    node = cluster.start(
        {"*": ["wait"]},
        SLIPWAY_ROOT=machine.root,
        PATH=machine.path,
        SLIPWAY_RENDEZVOUS_SECONDS=1,
        **(P4D | second),
    )
    assert node.end() == 85
    assert not (tmp_path / "asked-1").exists()


def test_slurms_prolog_asks_the_same(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    where = SlurmNodePaths(root=machine.root)
    facts = SlurmNodeFacts(instance_type="p4d.24xlarge")
    assert health.check_node(where, facts) == 0
    machine.answer(FAULTS["link-down"](WELL))
    assert health.check_node(where, facts) == 1
    assert f"not fit for jobs: slipway: {SAID['link-down']}" in capsys.readouterr().err
