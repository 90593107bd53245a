"""What makes a node whole at each boot: its local disks, its processors, its shared files."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.storage.file_systems import SharedFiles
from tests.infra.boot.node import Node, mpi_parameters, parameters, slurm_parameters

DISK = "Amazon EC2 NVMe Instance Storage"
FOUR_DISKS = "\n".join(f"/dev/nvme{index}n1 {DISK}" for index in range(1, 5))


def test_four_local_disks_become_one_striped_volume_for_jobs_and_for_docker(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(), lsblk=f"/dev/nvme0n1 Amazon Elastic Block Store\n{FOUR_DISKS}")
    done = node.run("scratch.sh")
    assert done.returncode == 0, done.stderr
    (created,) = node.calls("mdadm")
    assert created.endswith("--raid-devices=4 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1")
    local = f"{tmp_path}/mnt/slipway-local"
    assert node.calls("mount") == [
        f"-o noatime /dev/md/scratch {local}",
        f"--bind {local}/scratch {tmp_path}/scratch",
        f"--bind {local}/docker {tmp_path}/var/lib/docker",
        f"--bind {local}/containerd {tmp_path}/var/lib/containerd",
    ]


def test_after_a_reboot_the_disks_are_mounted_as_they_were(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(), lsblk=FOUR_DISKS)
    node.program("blkid", "/dev/md127")
    assert node.run("scratch.sh").returncode == 0
    assert (node.calls("mdadm"), node.calls("mkfs.xfs")) == ([], [])
    assert node.calls("mount")[0] == f"-o noatime /dev/md127 {tmp_path}/mnt/slipway-local"


def test_the_folder_of_jobs_holds_nothing_of_docker_s(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(), lsblk=FOUR_DISKS)
    node.run("scratch.sh")
    local = tmp_path / "mnt" / "slipway-local"
    assert {path.name for path in local.iterdir()} == {"scratch", "docker", "containerd"}
    assert (local.stat().st_mode & 0o777, (tmp_path / "scratch").stat().st_mode & 0o1777) == (0o711, 0o1777)


def test_a_node_without_local_disks_keeps_scratch_on_its_root_disk(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(), lsblk="/dev/nvme0n1 Amazon Elastic Block Store")
    assert node.run("scratch.sh").returncode == 0
    assert (tmp_path / "scratch").is_dir()
    assert (node.calls("mkfs.xfs"), node.calls("mount")) == ([], [])


def test_in_a_container_the_disks_of_the_machine_around_it_are_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(), lsblk=FOUR_DISKS)
    node.program("systemd-detect-virt")
    assert node.run("scratch.sh").returncode == 0
    assert (node.calls("mdadm"), node.calls("mkfs.xfs"), node.calls("mount")) == ([], [], [])


@pytest.mark.parametrize("broken", ["mount", "mkfs.xfs", "mdadm"])
def test_a_node_whose_local_disks_fail_says_so_and_its_unit_fails(tmp_path: Path, broken: str) -> None:
    node = Node(tmp_path, parameters(), lsblk=FOUR_DISKS)
    node.program(broken, code=1)
    done = node.run("scratch.sh")
    assert done.returncode != 0
    assert node.reason() == "local-disks"
    assert "(local-disks); this node takes no jobs" in done.stderr


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
    assert node.run("boot.sh").returncode == 0
    assert node.calls("mount") == [f"{mounted} {tmp_path}/shared"]
    assert node.reason() == ""


def test_a_lustre_is_mounted_beside_the_shared_home(tmp_path: Path) -> None:
    scratch = SharedFiles(
        kind=FileSystem.FSX_LUSTRE,
        file_system_id="fs-2",
        mount_point=str(tmp_path / "fsx"),
        mount_name="efgh",
        security_group_id="sg-2",
        ports=(),
    )
    node = Node(tmp_path, slurm_parameters(scratch))
    assert node.run("boot.sh").returncode == 0
    assert node.calls("mount") == [
        f"-t efs -o tls,iam fs-1:/ {tmp_path}/shared",
        f"-t lustre -o relatime,flock fs-2.fsx.us-east-1.amazonaws.com@tcp:/efgh {tmp_path}/fsx",
    ]


def test_a_mount_that_fails_is_tried_again_and_then_the_unit_fails_with_its_reason(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(FileSystem.EFS))
    node.program("mount", code=32)
    done = node.run("boot.sh")
    assert done.returncode != 0
    assert (len(node.calls("mount")), node.calls("sleep")) == (6, ["10"] * 5)
    assert node.reason() == "shared-files"
    assert "(shared-files); this node takes no jobs" in done.stderr


def test_a_node_that_cannot_read_what_it_was_told_takes_no_jobs(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(FileSystem.EFS))
    (tmp_path / "node.json").unlink()
    done = node.run("boot.sh")
    assert done.returncode != 0
    assert (node.reason(), node.calls("mount")) == ("shared-files", [])
    assert "(shared-files); this node takes no jobs" in done.stderr


def test_files_that_are_mounted_already_are_not_mounted_again(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(FileSystem.EFS))
    node.program("mountpoint")
    assert node.run("boot.sh").returncode == 0
    assert node.calls("mountpoint") == [f"--quiet {tmp_path}/shared"]
    assert node.calls("mount") == []


@pytest.mark.parametrize(
    ("instance_type", "in_a_container", "reserved"),
    [("dl1.24xlarge", False, "15000\n"), ("dl1.24xlarge", True, "0\n"), ("c6i.xlarge", False, "0\n")],
)
def test_huge_pages_are_reserved_where_gaudis_are_and_taken_from_no_other_machine(
    tmp_path: Path, instance_type: str, in_a_container: bool, reserved: str
) -> None:
    """The AMI of DL1 boots on small machines, too, which would have no memory left."""
    node = Node(tmp_path, parameters(instance_type=instance_type))
    if in_a_container:
        node.program("systemd-detect-virt")
    pages = tmp_path / "proc" / "sys" / "vm" / "nr_hugepages"
    assert node.run("boot.sh").returncode == 0
    assert pages.read_text() == reserved


@pytest.mark.parametrize(("smt", "written"), [("off", "off\n"), ("on", None)])
def test_bare_metal_takes_its_second_threads_away_by_itself(
    tmp_path: Path, smt: str, written: str | None
) -> None:
    node = Node(tmp_path, mpi_parameters(smt=smt))
    assert node.run("boot.sh").returncode == 0
    control = tmp_path / "smt"
    assert (control.read_text() if control.exists() else None) == written
