"""A bake has the same result whenever it runs: nothing upgrades meanwhile, and versions are the lock's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.checks.components import commands_of, steps_of
from slipway.infra.declare.machine_images import MachineImage, read_component

# The programs that a bake's step calls on Ubuntu; each records how it was called.
RECORDS = '#!/bin/sh\necho "${{0##*/}} $*" >>"{calls}"\n'
CALLED = ("systemctl", "snap")


def step(component: str, name: str) -> str:
    found = [each for _, each in steps_of(yaml.safe_load(read_component(component))) if each["name"] == name]
    (command,) = commands_of(found[0])
    return command


@pytest.fixture
def ubuntu(tmp_path: Path) -> Path:
    """Make a folder that stands in for an Ubuntu machine, with programs that only record their calls."""
    (tmp_path / "bin").mkdir()
    for folder in ("run/systemd/system", "etc/apt/apt.conf.d"):
        (tmp_path / folder).mkdir(parents=True)
    for name in CALLED:
        program = tmp_path / "bin" / name
        program.write_text(RECORDS.format(calls=tmp_path / "calls"), encoding="ascii")
        program.chmod(0o755)
    return tmp_path


def run(script: str, machine: Path) -> subprocess.CompletedProcess[str]:
    for path in ("/run/systemd/system", "/etc/apt"):
        script = script.replace(path, f"{machine}{path}")
    environment = {**os.environ, "PATH": f"{machine / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("image", MACHINE_IMAGES, ids=lambda image: image.name)
def test_a_bake_first_stops_what_upgrades_a_machine_by_itself(image: MachineImage) -> None:
    """This includes the agent that runs the bake: a refresh by Ubuntu in the middle would end the bake."""
    first = image.components[0]
    _, opening = next(steps_of(yaml.safe_load(read_component(first))))
    assert (first, opening["name"], opening["onFailure"]) == ("base-apt", "BeQuiet", "Abort")


def test_no_timer_upgrades_and_no_snap_is_refreshed_while_a_bake_runs(ubuntu: Path) -> None:
    done = run(step("base-apt", "BeQuiet"), ubuntu)
    assert (done.returncode, done.stderr) == (0, "")
    units = "apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service"
    assert (ubuntu / "calls").read_text().splitlines() == [
        f"systemctl mask {units}",  # otherwise a boot in the middle of the bake starts them again
        f"systemctl stop {units}",
        "snap wait system seed.loaded",  # the first boot installs snaps, and holds none before
        "snap refresh --hold",
    ]


def test_an_image_without_snaps_is_baked_as_well(ubuntu: Path) -> None:
    (ubuntu / "bin" / "snap").unlink()
    script = step("base-apt", "BeQuiet").replace("command -v snap", f"command -v {ubuntu / 'bin' / 'snap'}")
    assert run(script, ubuntu).returncode == 0
    assert "snap" not in (ubuntu / "calls").read_text()


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="this machine has no apt")
def test_apt_waits_for_whoever_holds_its_lock_by_then(ubuntu: Path) -> None:
    """apt itself reads what the step wrote."""
    run(step("base-apt", "BeQuiet"), ubuntu)
    (file,) = (ubuntu / "etc/apt/apt.conf.d").iterdir()
    read = ["apt-config", "dump", "DPkg::Lock::Timeout"]
    environment = {**os.environ, "APT_CONFIG": str(file)}
    said = subprocess.run(read, env=environment, capture_output=True, text=True, check=True).stdout
    assert said == 'DPkg::Lock::Timeout "600";\n'


@pytest.mark.parametrize(("baked", "status"), [("1.105.1-1", 0), ("1.106.0-1", 1)])
def test_an_ecs_agent_of_another_version_than_the_lock_s_fails_the_bake(
    ubuntu: Path, baked: str, status: int
) -> None:
    """AWS publishes no checksum of it, and a signature is valid for every version."""
    for name, script in (("dpkg-query", f"#!/bin/sh\nprintf '{baked}'\n"), ("verify", "#!/bin/sh\n")):
        (ubuntu / "bin" / name).write_text(script, encoding="ascii")
        (ubuntu / "bin" / name).chmod(0o755)
    test = step("ecs-agent", "NextBootStartsTheAgentFromVendor").replace("{{ HostEcsAgent }}", "1.105.1-1")
    done = run(test.replace("/usr/lib/slipway/verify_units.sh", str(ubuntu / "bin" / "verify")), ubuntu)
    assert done.returncode == status
    assert status == 0 or f"amazon-ecs-init is {baked}, locked is 1.105.1-1" in done.stderr
