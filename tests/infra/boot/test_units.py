"""systemd itself judges a machine image's units, with cloud-init's, Docker's and the ECS agent's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.checks.components import commands_of, steps_of
from slipway.infra.declare.machine_images import read_component
from slipway.infra.patterns.observability.alarms import REPORT_EVERY_MINUTES

# The vendors' units on a node: what waits for what, and what wants what.
# Ubuntu 22.04, 24.04 and Debian 12 agree in these lines. Sources: cloud-init 22.4 and 26, its `systemd/`;
# amazon-ecs-agent 1.105.1, `packaging/generic-deb-integrated/debian/ecs.service`; the packages of Docker,
# containerd and OpenSSH. systemd's own targets are those of this machine.
Section = Mapping[str, str]

_RUN = "/bin/true"
_INSTALL = {"WantedBy": "wants", "RequiredBy": "requires"}
# By name: the lines of [Unit], and the unit that wants it once its package is installed.
CLOUD_INIT: Mapping[str, tuple[Section, str]] = {
    "cloud-init-local.service": (
        {
            "DefaultDependencies": "no",
            "Wants": "network-pre.target",
            "After": "systemd-remount-fs.service",
            "Before": "network-pre.target shutdown.target sysinit.target",
            "Conflicts": "shutdown.target",
        },
        "cloud-init.target",
    ),
    "cloud-init.service": (
        {
            "DefaultDependencies": "no",
            "Wants": "cloud-init-local.service sshd.service",
            "After": "cloud-init-local.service systemd-networkd-wait-online.service networking.service",
            "Before": "network-online.target sshd.service sysinit.target shutdown.target "
            "systemd-user-sessions.service",
            "Conflicts": "shutdown.target",
        },
        "cloud-init.target",
    ),
    "cloud-config.service": (
        {
            "After": "network-online.target cloud-config.target snapd.seeded.service",
            "Wants": "network-online.target cloud-config.target",
        },
        "cloud-init.target",
    ),
    "cloud-final.service": (
        {
            "After": "network-online.target time-sync.target cloud-config.service rc-local.service "
            "multi-user.target",
            "Before": "apt-daily.service",
            "Wants": "network-online.target cloud-config.service",
        },
        "cloud-init.target",
    ),
    "cloud-config.target": (
        {
            "Wants": "cloud-init-local.service cloud-init.service",
            "After": "cloud-init-local.service cloud-init.service",
        },
        "",
    ),
    # Its generator lets multi-user.target want it, at each boot for which it finds a data source.
    "cloud-init.target": ({"After": "multi-user.target"}, "multi-user.target"),
}
DOCKER: Mapping[str, tuple[Section, str]] = {
    "containerd.service": ({"After": "network.target local-fs.target"}, "multi-user.target"),
    "docker.socket": ({}, "sockets.target"),
    "docker.service": (
        {
            "After": "network-online.target docker.socket containerd.service",
            "Wants": "network-online.target containerd.service",
            "Requires": "docker.socket",
        },
        "multi-user.target",
    ),
}
SSH: Mapping[str, tuple[Section, str]] = {"ssh.service": ({"After": "network.target"}, "multi-user.target")}
# Not enabled by its package; `systemctl enable` would let multi-user.target want it.
ECS: Mapping[str, tuple[Section, str]] = {
    "ecs.service": (
        {"Wants": "docker.service", "PartOf": "docker.service", "After": "docker.service"},
        "",
    )
}


class Units:
    """Hold the folders of a machine's units, which systemd reads in place of this machine's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.own, self.vendor = root / "etc/systemd/system", root / "usr/lib/systemd/system"
        for folder in (self.own, self.vendor):
            folder.mkdir(parents=True)
        for package in (CLOUD_INIT, DOCKER, SSH):
            self.install(package)

    @property
    def path(self) -> str:
        return f"{self.own}:{self.vendor}:/usr/lib/systemd/system"

    def install(self, package: Mapping[str, tuple[Section, str]]) -> None:
        for name, (section, wanted_by) in package.items():
            lines = [f"{key}={value}" for key, value in section.items()]
            self.write(name, "\n".join(["[Unit]", f"Description={name}", *lines, *_service(name)]))
            if wanted_by:
                self.want(wanted_by, name)

    def write(self, name: str, text: str) -> None:
        (self.vendor / name).write_text(f"{text}\n", encoding="utf-8")

    def place(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def enable(self, name: str) -> None:
        """Enable units as systemctl does: every line of [Install] becomes a link."""
        for line in (self.vendor / name).read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            if key in _INSTALL:
                for target in value.split():
                    self.want(target, name, _INSTALL[key])

    def want(self, target: str, name: str, how: str = "wants") -> None:
        folder = self.own / f"{target}.{how}"
        folder.mkdir(exist_ok=True)
        (folder / name).symlink_to(self.vendor / name)


def _service(name: str) -> list[str]:
    if name.endswith(".socket"):
        return ["[Socket]", "ListenStream=/run/docker.sock"]
    return ["[Service]", "Type=oneshot", f"ExecStart={_RUN}"] if name.endswith(".service") else []


BOOT = Path(__file__).parents[3] / "infra" / "boot"
OF_SLURM = BOOT / "agents" / "slurm"
OURS = ("slipway-scratch.service", "slipway-boot.service", "slipway-idle.timer", "slipway-watchdog.timer")
# As AWS's installer names them, after the version of Slurm, and as Debian's packages do. PCS's agent starts
# them from a script of the user data.
SLURM_UNITS = ("slurmd-25.05.service", "sackd-25.05.service", "slurmd.service", "sackd.service")
SLURMD = "[Unit]\nAfter=network-online.target\n\n[Service]\nExecStart=/bin/true\n\n[Install]\n"
SLURMD += "WantedBy=multi-user.target\n"
pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")


def verify(units: Units, *names: str, script: str = "verify_units.sh") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": units.path}
    command = ["bash", str(BOOT / script), *names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def units(tmp_path: Path) -> Units:
    """Make a machine with only the vendors' units."""
    return Units(tmp_path)


@pytest.fixture
def image(units: Units) -> Units:
    """Add our units, placed and enabled as the components do."""
    for path in (BOOT / "units").iterdir():
        units.write(path.name, path.read_text(encoding="utf-8"))
        units.enable(path.name)
    units.install(ECS)
    for name in SLURM_UNITS:
        units.write(name, SLURMD)
        units.enable(name)
    for file in (path for path in OF_SLURM.rglob("*") if path.is_file()):
        units.place(f"/{file.relative_to(OF_SLURM)}", file.read_text(encoding="utf-8"))
    of_ecs = (BOOT / "agents" / "ecs.service.conf").read_text(encoding="utf-8")
    units.place("/etc/systemd/system/ecs.service.d/10-slipway.conf", of_ecs)
    for name in ("ecs-agent", "slipway-node"):
        for _, step in steps_of(yaml.safe_load(read_component(name))):
            for file in step["inputs"] if step["action"] == "CreateFile" else ():
                units.place(file["path"], file["content"])
    units.enable("slipway-node.service")
    units.want("cloud-init.target", "ecs.service")
    return units


@pytest.mark.parametrize(
    "unit", [*OURS, "ecs.service", "slipway-node.service", "docker.service", "ssh.service", *SLURM_UNITS]
)
def test_the_next_boot_of_a_machine_image_starts_every_unit(image: Units, unit: str) -> None:
    done = verify(image, unit)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_agent_that_multi_user_wants_and_that_waits_for_the_user_data_is_told_of_as_a_circle(
    units: Units,
) -> None:
    """The vendor's unit and a drop-in with After=cloud-final cause that, while `is-enabled` says enabled."""
    units.install(ECS)
    units.want("multi-user.target", "ecs.service")
    units.place("/etc/systemd/system/ecs.service.d/10.conf", "[Unit]\nAfter=cloud-final.service\n")
    done = verify(units, "ecs.service")
    assert done.returncode == 1
    # Which unit of the circle systemd does not start differs from boot to boot: the agent, or the user data.
    assert "/start deleted to break ordering cycle starting with " in done.stderr


def test_a_unit_that_nothing_wants_is_told_of(units: Units) -> None:
    units.install(ECS)
    done = verify(units, "ecs.service")
    assert (done.returncode, done.stderr) == (1, "slipway: the next boot would not start ecs.service\n")


@pytest.mark.parametrize("component", ["node-boot", "ecs-agent", "slipway-node"])
def test_a_bake_asks_systemd_and_not_whether_a_unit_is_enabled(component: str) -> None:
    tests = [
        command
        for phase, step in steps_of(yaml.safe_load(read_component(component)))
        for command in commands_of(step)
        if phase == "test"
    ]
    assert any("/usr/lib/slipway/verify_units.sh" in command for command in tests)
    assert not any("is-enabled" in command for command in tests)


@pytest.mark.parametrize("unit", ["ecs.service", "slipway-node.service", *SLURM_UNITS])
def test_what_brings_a_node_its_jobs_needs_the_boot_to_have_gone_well(image: Units, unit: str) -> None:
    done = verify(image, unit, script="verify_waits.sh")
    assert (done.returncode, done.stderr) == (0, "")


def test_slurms_daemon_whose_drop_in_is_of_another_name_is_told_of(units: Units) -> None:
    for name in ("slurmd-25.05.service", "slipway-boot.service"):
        units.write(name, SLURMD)
    waits = "[Unit]\nRequires=slipway-boot.service\nAfter=slipway-boot.service\n"
    units.place("/etc/systemd/system/slurmd.service.d/10.conf", waits)
    done = verify(units, "slurmd-25.05.service", script="verify_waits.sh")
    words = "slipway: slurmd-25.05.service does not wait for slipway-boot.service (Requires)\n"
    assert (done.returncode, done.stderr) == (1, words)


def test_a_bake_without_a_unit_of_slurms_daemon_ends(units: Units) -> None:
    done = verify(units, script="verify_waits.sh")
    assert (done.returncode, done.stderr) == (1, "slipway: no unit of the expected name is installed\n")


def test_a_bake_asks_systemd_whether_slurm_waits_for_its_files(image: Units) -> None:
    """Run the component's step with this machine image's units in place of the machine's."""
    (command,) = [
        command
        for _, step in steps_of(yaml.safe_load(read_component("slurm-node")))
        for command in commands_of(step)
        if "verify_waits.sh" in command
    ]
    for name in SLURM_UNITS:
        (image.vendor / name).rename(image.own / name)
    shell = command.replace("/etc/systemd/system", str(image.own)).replace("/usr/lib/slipway", str(BOOT))
    run = ["bash", "-c", shell.replace(f"{BOOT}/verify", f"bash {BOOT}/verify")]
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": image.path}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (image.own / "slurmd-.service.d" / "10-slipway.conf").unlink()
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1


def test_a_script_of_the_user_data_can_start_slurmd_without_waiting_for_itself(image: Units) -> None:
    """Such scripts run in cloud-final.service, for which nothing may wait that slurmd needs."""
    (after,) = re.findall(r"(?m)^After=(.*)$", (image.vendor / "slipway-boot.service").read_text())
    assert {"cloud-init.service", "cloud-init-network.service"} <= set(after.split())
    assert "cloud-final.service" not in after


@pytest.mark.parametrize("unit", ["slipway-node.service", *OURS])
def test_a_person_can_mask_every_unit_of_ours(image: Units, unit: str) -> None:
    """A unit in /etc/systemd/system cannot be masked."""
    done = subprocess.run(
        ["systemctl", f"--root={image.root}", "mask", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, (image.own / unit).readlink()) == (0, Path("/dev/null"))


def test_docker_waits_for_the_local_disks_that_it_keeps_its_images_on(image: Units) -> None:
    assert (image.own / "docker.service.requires" / "slipway-scratch.service").is_symlink()
    assert (
        "Before=containerd.service docker.service" in (image.vendor / "slipway-scratch.service").read_text()
    )


def test_the_idle_report_comes_as_often_as_its_alarm_looks(image: Units) -> None:
    timer = (image.vendor / "slipway-idle.timer").read_text()
    assert f"OnUnitActiveSec={REPORT_EVERY_MINUTES}min" in timer


@pytest.mark.parametrize("image_name", ["cpu-mpi", "gaudi-ecs", "gaudi-mpi", "neuron-slurm"])
def test_a_cluster_s_image_has_the_units_before_what_needs_them(image_name: str) -> None:
    (found,) = [each.components for each in MACHINE_IMAGES if each.name == image_name]
    needing = next(each for each in found if each in ("ecs-agent", "slipway-node", "slurm-node"))
    assert found.index("payload") < found.index("node-boot") < found.index(needing)
