"""Set-up on a new machine says what it does, does it once, and names what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SET_UP = ROOT / "scripts" / "set_up.py"


def set_up(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments] if code else [sys.executable, str(SET_UP), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def pretending(statement: str) -> str:
    return f"import runpy, shutil, sys, os; {statement}; runpy.run_path({str(SET_UP)!r}, run_name='__main__')"


def test_a_second_run_does_nothing_and_says_nothing() -> None:
    assert set_up("develop").returncode == 0
    done = set_up("develop")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_group_is_one_line_that_names_the_allowed_ones() -> None:
    done = set_up("develp")
    assert done.returncode == 1
    assert done.stderr.startswith("error: unknown group 'develp'; allowed are submit, develop")
    assert done.stderr.count("\n") == 1


def test_an_old_python_is_told_which_one_is_needed() -> None:
    done = set_up("develop", code=pretending("sys.version_info = (3, 9, 2)"))
    assert done.returncode == 1
    assert "needs 3.11 or newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mac_is_told_what_works_there() -> None:
    done = set_up("develop", code=pretending("sys.platform = 'darwin'"))
    assert done.returncode == 1
    assert done.stderr == (
        "error: set-up needs Linux, and this machine is darwin; for AWS alone: pip install '.[infra]'\n"
    )


APT = """#!/bin/sh
echo "$* $SYSTEMD_OFFLINE" >> "$(dirname "$0")/said"
exit $APT_CODE
"""


def set_up_machine(
    folder: Path, statement: str, apt_code: int = 0, group: str = "machine"
) -> tuple[str, list[str]]:
    """Return its output, and the arguments of an apt-get that only records them."""
    apt, said = folder / "apt-get", folder / "said"
    apt.write_text(APT)
    apt.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "APT_CODE": str(apt_code)}
    done = subprocess.run(
        [sys.executable, "-c", pretending(f"{statement}; {noting_touches(folder)}"), group, "develop"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr, said.read_text().splitlines() if said.exists() else []


def noting_touches(folder: Path) -> str:
    """Code that leaves this machine's /etc unchanged, and records what would be made there."""
    touches = f"pathlib.Path.touch = lambda path: open({str(folder / 'touched')!r}, 'w').write(str(path))"
    keeps = "lambda path, **more: None if str(path).startswith('/etc') else mkdir(path, **more)"
    return f"import pathlib; {touches}; mkdir = pathlib.Path.mkdir; pathlib.Path.mkdir = {keeps}"


def only_apt_get_is_installed(euid: int) -> str:
    return (
        f"os.geteuid = lambda: {euid}; which = shutil.which; "
        "shutil.which = lambda name, path=None: which(name) if name in ('apt-get', 'npm', 'node') else None"
    )


def test_root_gets_the_debian_packages_that_are_missing_and_nothing_is_started(tmp_path: Path) -> None:
    said, told = set_up_machine(tmp_path, only_apt_get_is_installed(0))
    assert said.startswith("set-up: installing buildah, cloud-init, debootstrap, ")
    assert told[0].strip() == "update -qq"
    assert told[1].startswith("install -y -qq --no-install-recommends buildah cloud-init debootstrap ")
    assert told[1].endswith(
        "openssh-server shellcheck slurm-client slurmctld slurmd slurmdbd systemd-container 1"
    )


def test_the_browser_of_tests_is_a_group_of_its_own(tmp_path: Path) -> None:
    said, told = set_up_machine(tmp_path, only_apt_get_is_installed(0), group="browser")
    assert said == "set-up: installing chromium: tests look at pages with it\n"
    assert told[1].startswith("install -y -qq --no-install-recommends chromium ")


def test_cloud_init_is_for_hosts_and_does_not_set_up_the_machine_itself(tmp_path: Path) -> None:
    set_up_machine(tmp_path, only_apt_get_is_installed(0))
    assert (tmp_path / "touched").read_text() == "/etc/cloud/cloud-init.disabled"


def test_a_machine_that_cloud_init_has_set_up_keeps_it_as_it_is(tmp_path: Path) -> None:
    installed = only_apt_get_is_installed(0).replace("'npm'", "'npm', 'cloud-init'")
    set_up_machine(tmp_path, installed)
    assert not (tmp_path / "touched").exists()


def test_another_user_is_told_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    said, told = set_up_machine(tmp_path, only_apt_get_is_installed(1000))
    assert told == []
    assert said.startswith("set-up: not on this machine: buildah, cloud-init, debootstrap, ")
    assert (
        "left out of tests and demo. To install them: sudo apt-get install buildah cloud-init debootstrap"
        in said
    )
    assert said.count("\n") == 1


def test_packages_that_cannot_be_installed_do_not_stop_the_rest(tmp_path: Path) -> None:
    said, told = set_up_machine(tmp_path, only_apt_get_is_installed(0), apt_code=100)
    assert len(told) == 1
    assert "apt-get update failed: apt-get ended with 100" in said
    assert "not on this machine: buildah, cloud-init, debootstrap, " in said


def test_a_script_can_ask_what_is_missing() -> None:
    found = set_up("--missing", "openssh-server", "gcc", code=pretending(only_apt_get_is_installed(0)))
    assert (found.returncode, found.stdout, found.stderr) == (0, "openssh-server gcc\n", "")


def test_a_checkout_of_somebody_else_is_refused_in_one_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    code = pretending("os.access = lambda path, mode: False").replace(str(ROOT), str(tmp_path))
    done = set_up("develop", code=code)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: you may not write in {tmp_path}; clone the repository to a folder of your own\n",
    )


def test_the_node_modules_of_another_checkout_are_not_emptied_through_a_link(tmp_path: Path) -> None:
    """`npm ci` removes all that it finds behind the link, before it installs."""
    others, npm = tmp_path / "others", tmp_path / "bin" / "npm"
    for folder in (others, npm.parent, tmp_path / ".venv" / "bin"):
        folder.mkdir(parents=True)
    (others / "package.json").touch()
    (tmp_path / "package-lock.json").touch()
    (tmp_path / "node_modules").symlink_to(others)
    npm.write_text("#!/bin/sh\nrm -rf node_modules/*\nmkdir -p node_modules\n")
    npm.chmod(0o755)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    copied = str(tmp_path / "scripts" / "set_up.py")
    code = f"import runpy; made = runpy.run_path({copied!r}); made['ensure_node'].__globals__.update("
    code += f"ensure_node=lambda: None, find=lambda program: {str(npm)!r}); made['install_cdk']()"
    done = set_up(code=code)
    assert done.returncode == 0, done.stderr
    assert (others / "package.json").exists()
    assert not (tmp_path / "node_modules").is_symlink()


def test_every_lock_but_torch_is_exact_and_hashed() -> None:
    for lock in sorted((ROOT / "scripts" / "locks").glob("*.txt")):
        text = lock.read_text()
        entries = [line for line in text.splitlines() if line and not line.startswith((" ", "#", "\t"))]
        assert entries, lock
        for entry in entries:
            assert "==" in entry, f"{lock.name}: {entry}"
            assert entry.endswith("\\"), f"{lock.name}: {entry} carries no hash"
        assert "torch==" not in text, f"{lock.name} locks torch, whose build depends on the machine"


def test_scripts_can_be_executed() -> None:
    for name in ("demo", "test", "check", "bench", "lock", "fresh", "site", "record_session"):
        assert os.access(ROOT / "scripts" / name, os.X_OK), name
