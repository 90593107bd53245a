"""The scripts of a node, run here with programs that write down how they were called."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.nodes.boot import IdleProbe, boot_parameters
from slipway.infra.patterns.storage.file_systems import NO_FILES, SharedFiles

SCRIPTS = Path(__file__).parents[3] / "infra" / "userdata"
DISK = "Amazon EC2 NVMe Instance Storage"


class Node:
    """`answers` is what a program prints; one that is not named prints nothing."""

    def __init__(self, folder: Path, parameters: dict[str, Any], **answers: str) -> None:
        self.folder, self.log = folder, folder / "calls"
        self.log.touch()
        parameters["scratch"] = str(folder / "scratch")
        if "files" in parameters:
            parameters["files"]["path"] = str(folder / "shared")
        (folder / "node.json").write_text(json.dumps(parameters), encoding="utf-8")
        for name in ("systemd-run", "systemctl", "mdadm", "mkfs.xfs", "mount", "lsblk", "aws", "curl"):
            self.program(name, answers.get(name.replace(".", "_").replace("-", "_"), ""))

    def program(self, name: str, answer: str = "", code: int = 0) -> None:
        path = self.folder / name
        body = f'#!/bin/bash\necho "{name} $*" >> "{self.log}"\ncat <<"END"\n{answer}\nEND\nexit {code}\n'
        path.write_text(body, encoding="utf-8")
        path.chmod(0o755)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "SLIPWAY_PARAMETERS": str(self.folder / "node.json"),
            "SLIPWAY_BOOT_STEPS": str(SCRIPTS / "boot_steps.sh"),
            "SLIPWAY_SMT_CONTROL": str(self.folder / "smt"),
            "SLIPWAY_PROC": str(self.folder / "proc"),
        }
        command = ["bash", str(SCRIPTS / script)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def calls(self, program: str) -> list[str]:
        calls = self.log.read_text(encoding="utf-8").splitlines()
        return [call.partition(" ")[2] for call in calls if call.partition(" ")[0] == program]


def parameters(sort: FileSystem = FileSystem.NONE, work: IdleProbe = IdleProbe.TASK) -> dict[str, Any]:
    files = SharedFiles(
        kind=sort,
        file_system_id="fs-1",
        mount_point="/mnt/shared",
        mount_name="abcd",
        security_group_id="sg-1",
        ports=(),
    )
    return boot_parameters("dl1", "us-east-1", NO_FILES if sort is FileSystem.NONE else files, work)


def test_four_local_disks_become_one_striped_scratch(tmp_path: Path) -> None:
    disks = "\n".join(f"/dev/nvme{index}n1 {DISK}" for index in range(1, 5))
    node = Node(tmp_path, parameters(), lsblk=f"/dev/nvme0n1 Amazon Elastic Block Store\n{disks}")
    assert node.run("boot_node.sh").returncode == 0
    (created,) = node.calls("mdadm")
    assert created.endswith("--raid-devices=4 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1")
    assert node.calls("mount") == [f"-o noatime /dev/md/scratch {tmp_path}/scratch"]


def test_a_node_without_local_disks_keeps_scratch_on_its_root_disk(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(), lsblk="/dev/nvme0n1 Amazon Elastic Block Store")
    assert node.run("boot_node.sh").returncode == 0
    assert (tmp_path / "scratch").is_dir()
    assert not node.calls("mkfs.xfs")


@pytest.mark.parametrize(
    ("sort", "mounted"),
    [
        (FileSystem.EFS, "-t efs -o tls,iam fs-1:/"),
        (FileSystem.FSX_LUSTRE, "-t lustre -o relatime,flock fs-1.fsx.us-east-1.amazonaws.com@tcp:/abcd"),
    ],
)
def test_shared_files_are_mounted_where_containers_look(
    tmp_path: Path, sort: FileSystem, mounted: str
) -> None:
    node = Node(tmp_path, parameters(sort))
    assert node.run("boot_node.sh").returncode == 0
    assert node.calls("mount") == [f"{mounted} {tmp_path}/shared"]


def test_the_idle_report_starts_before_anything_can_fail(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(FileSystem.EFS))
    node.program("mount", code=32)
    node.run("boot_node.sh")
    (report,) = node.calls("systemd-run")
    assert "--on-unit-active=5min" in report
    assert report.endswith("/usr/local/sbin/slipway-report-idle")


@pytest.mark.parametrize("broken", ["mount", "mkfs.xfs", "mdadm"])
def test_a_node_that_is_not_whole_takes_no_jobs(tmp_path: Path, broken: str) -> None:
    disks = f"/dev/nvme1n1 {DISK}\n/dev/nvme2n1 {DISK}"
    node = Node(tmp_path, parameters(FileSystem.EFS), lsblk=disks)
    node.program(broken, code=1)
    done = node.run("boot_node.sh")
    assert done.returncode != 0
    assert node.calls("systemctl") == ["mask --now ecs"]
    assert "takes no jobs" in done.stderr


def test_a_whole_node_is_left_to_ecs(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(FileSystem.EFS))
    node.run("boot_node.sh")
    assert node.calls("systemctl") == []


@pytest.mark.parametrize(
    ("tasks", "idle"),
    [
        ('{"Tasks":[]}', "1"),
        ("", "1"),
        ('{"Tasks":[{"DesiredStatus":"RUNNING","KnownStatus":"RUNNING"}]}', "0"),
        ('{"Tasks":[{"DesiredStatus":"RUNNING","KnownStatus":"PENDING"}]}', "0"),
        ('{"Tasks":[{"DesiredStatus":"STOPPED","KnownStatus":"STOPPED"}]}', "1"),
    ],
)
def test_a_node_is_idle_when_it_has_no_task_to_run(tmp_path: Path, tasks: str, idle: str) -> None:
    node = Node(tmp_path, parameters(), curl=tasks)
    assert node.run("report_idle.sh").returncode == 0
    (report,) = node.calls("aws")
    assert report.endswith(f"--value {idle}")
    assert "--namespace Slipway --metric-name IdleNodes --dimensions Cluster=dl1" in report


def test_a_node_whose_agent_does_not_answer_is_idle(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters())
    node.program("curl", code=7)
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws")[0].endswith("--value 1")


def mpi_parameters(sort: FileSystem = FileSystem.NONE, smt: str = "on") -> dict[str, Any]:
    return {**parameters(sort, IdleProbe.PROCESS), "smt": smt}


def test_a_machine_of_an_mpi_cluster_reports_mounts_and_leaves_its_threads_to_ec2(tmp_path: Path) -> None:
    node = Node(tmp_path, mpi_parameters(FileSystem.EFS))
    assert node.run("boot_mpi_node.sh").returncode == 0
    assert node.calls("mount") == [f"-t efs -o tls,iam fs-1:/ {tmp_path}/shared"]
    assert len(node.calls("systemd-run")) == 1
    assert not (tmp_path / "smt").exists()


def test_bare_metal_takes_its_second_threads_away_by_itself(tmp_path: Path) -> None:
    node = Node(tmp_path, mpi_parameters(smt="off"))
    assert node.run("boot_mpi_node.sh").returncode == 0
    assert (tmp_path / "smt").read_text() == "off\n"


def test_files_that_are_mounted_already_are_not_mounted_again(tmp_path: Path) -> None:
    node = Node(tmp_path, mpi_parameters(FileSystem.EFS))
    node.program("mountpoint")
    assert node.run("boot_mpi_node.sh").returncode == 0
    assert node.calls("mountpoint") == [f"--quiet {tmp_path}/shared"]
    assert node.calls("mount") == []


def test_a_machine_that_is_not_whole_never_joins_its_cluster(tmp_path: Path) -> None:
    node = Node(tmp_path, mpi_parameters(FileSystem.EFS))
    node.program("mount", code=32)
    assert node.run("boot_mpi_node.sh").returncode != 0
    assert node.calls("systemctl") == ["mask --now slipway-node"]


@pytest.mark.parametrize(
    ("environment", "idle"),
    [("HOME=/root\0SLIPWAY_JOB=glue-1\0", "0"), ("NOT_SLIPWAY_JOB=glue-1\0", "1"), ("", "1")],
)
def test_a_machine_is_at_work_while_a_process_of_a_job_is_there(
    tmp_path: Path, environment: str, idle: str
) -> None:
    node = Node(tmp_path, mpi_parameters())
    for process, text in {"1": "HOME=/\0", "4711": environment}.items():
        (tmp_path / "proc" / process).mkdir(parents=True)
        (tmp_path / "proc" / process / "environ").write_text(text)
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws")[0].endswith(f"--value {idle}")
    assert not node.calls("curl")
