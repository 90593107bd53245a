"""Each boot sets up a node's local disks, processors and shared files."""

from __future__ import annotations

import re
import subprocess
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.storage.file_systems import SharedFiles
from tests.infra.boot.node import SCRIPTS, Node, mpi_parameters, parameters, slurm_parameters

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


def test_disks_that_awss_deep_learning_ami_made_one_are_shared_as_they_are(tmp_path: Path) -> None:
    """dlami-nvme.service has mounted them; mkfs on one would fail, and the node would take no jobs."""
    node = Node(tmp_path, parameters(), lsblk=FOUR_DISKS)
    dlami = tmp_path / "opt" / "dlami" / "nvme"
    path = tmp_path / "mountpoint"
    path.write_text(f'#!/bin/bash\n[[ "$*" == *{dlami} ]]\n', encoding="utf-8")
    assert node.run("scratch.sh").returncode == 0
    local = f"{tmp_path}/mnt/slipway-local"
    assert (node.calls("mdadm"), node.calls("mkfs.xfs")) == ([], [])
    mounts = [f"--bind {dlami} {local}", f"--bind {local}/scratch {tmp_path}/scratch"]
    assert node.calls("mount")[:2] == mounts


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
        (FileSystem.EFS, "-t efs -o tls,iam,nosuid,nodev fs-1:/"),
        (
            FileSystem.FSX_LUSTRE,
            "-t lustre -o relatime,flock,nosuid,nodev fs-1.fsx.us-east-1.amazonaws.com@tcp:/abcd",
        ),
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
        f"-t efs -o tls,iam,nosuid,nodev fs-1:/ {tmp_path}/shared",
        f"-t lustre -o relatime,flock,nosuid,nodev fs-2.fsx.us-east-1.amazonaws.com@tcp:/efgh {tmp_path}/fsx",
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


def first_boot(folder: Path, script: str, **changed: str) -> tuple[Node, subprocess.CompletedProcess[str]]:
    """Run the first boot of a node whose payload, as its stack uploads it, has one script."""
    file = folder / "payload.zip"
    with ZipFile(file, "w") as archive:
        archive.writestr("boot/software/install.sh", script)
    digest = sha256(file.read_bytes()).hexdigest()
    told = {"url": "s3://assets/payload.zip", "sha256": digest, "installed_by": "install.sh", **changed}
    node = Node(folder, {**slurm_parameters(), "payload": told})
    (folder / "aws").write_text(f'#!/bin/bash\ncp "{folder}/payload.zip" "${{@: -1}}"\n', encoding="utf-8")
    return node, node.run("payload.sh", SLIPWAY_PAYLOAD=str(folder / "installed" / "payload"))


def test_a_node_of_awss_own_ami_runs_what_its_cluster_uploaded_for_it(tmp_path: Path) -> None:
    node, done = first_boot(tmp_path, f"#!/bin/bash\necho installed >{tmp_path}/done\n")
    assert done.returncode == 0, done.stderr
    assert ((tmp_path / "done").read_text(), node.reason()) == ("installed\n", "")


@pytest.mark.parametrize(
    ("script", "changed"), [("#!/bin/bash\nexit 1\n", {}), ("#!/bin/bash\n", {"sha256": "0" * 64})]
)
def test_a_node_whose_software_fails_or_is_another_takes_no_jobs(
    tmp_path: Path, script: str, changed: dict[str, str]
) -> None:
    node, done = first_boot(tmp_path, script, **changed)
    assert (done.returncode != 0, node.reason()) == (True, "software")


def test_a_bake_fetches_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, slurm_parameters())
    assert (node.run("payload.sh").returncode, node.calls("aws")) == (0, [])


def with_containers(folder: Path) -> Node:
    """Make a node of AWS's own AMI, with PCS's Slurm and programs that record how they were called."""
    told = {"slurm_version": "25.11", "container_registry": "1.dkr.ecr.us-east-1.amazonaws.com"}
    node = Node(folder, {**slurm_parameters(), **told})
    for name in ("apt-get", "git", "make"):
        node.program(name)
    node.program("dpkg", "amd64")
    fetched = "echo package"
    (folder / "curl").write_text(f'#!/bin/bash\n{fetched} >"${{@: -2:1}}"\n', encoding="utf-8")
    return node


def test_what_runs_containers_is_installed_once_and_keeps_no_password(tmp_path: Path) -> None:
    node = with_containers(tmp_path)
    done = node.run("software/containers.sh")
    assert done.returncode == 0, done.stderr
    plugin = tmp_path / "etc/aws/pcs/scheduler/slurm-25.11/plugstack.conf.d/pyxis.conf"
    slurm = tmp_path / "opt/aws/pcs/scheduler/slurm-25.11"
    assert plugin.read_text() == f"required {slurm}/lib/slurm/spank_pyxis.so\n"
    credentials = (tmp_path / "etc/enroot/slipway/.credentials").read_text()
    assert credentials == (
        "machine 1.dkr.ecr.us-east-1.amazonaws.com login AWS password "
        "$(aws ecr get-login-password --region us-east-1)\n"
    )
    assert node.calls("aws") == [], "Enroot asks for the password when it pulls"
    assert "has the SHA-256" in done.stderr, "of packages whose checksum nobody prints"
    called = len(node.calls("apt-get"))
    assert node.run("software/containers.sh").returncode == 0
    assert len(node.calls("apt-get")) == called


def test_no_upgrade_of_the_machine_restarts_slurmd_below_a_job(tmp_path: Path) -> None:
    """Ubuntu's AMI would upgrade packages by itself, and needrestart ends steps with their slurmd."""
    node = with_containers(tmp_path)
    assert node.run("software/containers.sh").returncode == 0
    assert node.calls("systemctl") == ["mask --quiet --now apt-daily.timer apt-daily-upgrade.timer"]
    order = [line.partition(" ")[0] for line in node.log.read_text().splitlines()]
    assert order.index("systemctl") < order.index("apt-get"), "it would hold dpkg's lock"


@pytest.mark.parametrize(("release", "found"), [("25.11", "slurm-25.11/bin"), ("25.05", "slurm-25.05/bin")])
def test_people_use_the_clusters_release_of_slurm_of_those_on_the_machine(
    tmp_path: Path, release: str, found: str
) -> None:
    """A controller answers no newer commands (Slurm's "Upgrade Guide"); AWS's AMI has every release."""
    for installed in ("24.11", "25.05", "25.11", "26.05"):
        sbatch = tmp_path / f"opt/aws/pcs/scheduler/slurm-{installed}/bin/sbatch"
        sbatch.parent.mkdir(parents=True)
        sbatch.touch(0o755)
    Node(tmp_path, {**slurm_parameters(), "slurm_version": release})
    profile = SCRIPTS / "agents/slurm/etc/profile.d/slipway-slurm.sh"
    settings = {"SLIPWAY_ROOT": str(tmp_path), "SLIPWAY_PARAMETERS": str(tmp_path / "node.json")}
    command = ["sh", "-c", f'PATH=/usr/bin:/bin; . "{profile}"; command -v sbatch']
    said = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert said.stdout == f"{tmp_path}/opt/aws/pcs/scheduler/{found}/sbatch\n", said.stderr


def test_what_runs_containers_comes_by_https_which_alone_leaves_the_network(tmp_path: Path) -> None:
    """Ubuntu's mirrors answer on port 80, which the nodes' security group keeps shut."""
    node = with_containers(tmp_path)
    assert node.run("software/containers.sh").returncode == 0
    archive = tmp_path / "etc/apt/slipway.list"
    for call in node.calls("apt-get"):
        assert f"-o Dir::Etc::SourceList={archive} -o Dir::Etc::SourceParts=- " in call
    lines = archive.read_text(encoding="utf-8").splitlines()
    sources = [line.split("] ")[1].split()[0] for line in lines]
    assert len(sources) == 3
    for source in sources:
        assert re.fullmatch(r"https://snapshot\.ubuntu\.com/ubuntu/20\d{6}T\d{2}0000Z", source)
    assert all("https://" in call for call in node.calls("git") if "clone" in call)


def test_pyxis_is_a_commit_and_enroot_a_release_for_each_architecture() -> None:
    rows = [line.split() for line in (SCRIPTS / "software" / "enroot.lock").read_text().splitlines()]
    locked = [row for row in rows if row[0] != "#"]
    assert {row[0] for row in locked} == {"amd64", "arm64", "pyxis"}
    for row in locked:
        assert re.fullmatch("unlisted|[0-9a-f]{40}|[0-9a-f]{64}", row[-1]), row
