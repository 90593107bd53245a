"""This checkout's release has the same bytes from two clones, and its wheel runs in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from slipway._version import VERSION
from tests.installed import ROOT, Environment, copy_checkout
from tests.packages import require

require("sphinx", "Sphinx is not installed: python3 scripts/set_up.py site")
pytestmark = pytest.mark.long

NAME = f"slipway-{VERSION}"


def test_two_clones_give_the_same_bytes_and_the_wheel_runs_without_them(tmp_path: Path) -> None:
    copy_checkout(tmp_path / "one")
    _run("git", "clone", "--quiet", str(tmp_path / "one"), str(tmp_path / "another"), cwd=tmp_path)
    release = (sys.executable, "-m", "scripts.releasing", "--out")
    sums = [_run(*release, str(tmp_path / f"of {each}"), cwd=tmp_path / each) for each in ("one", "another")]
    assert sums[0] == sums[1]
    with tarfile.open(tmp_path / "of one" / NAME / f"{NAME}-docs.tar.gz") as site:
        pages = set(site.getnames())
    assert {f"{NAME}-docs/{page}.html" for page in ("index", "docs/first-hour", "search")} <= pages
    installed = _installed(tmp_path / "of one" / NAME / f"{NAME}-py3-none-any.whl", tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert installed.run("slipway", "--version", cwd=empty).stdout == f"slipway {VERSION} (extras: none)\n"
    for command in ("init own", "estimate bert_pretrain --on dl1.24xlarge", "instance list --json"):
        done = installed.run("slipway", *command.split(), cwd=empty)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    listed = installed.run("slipway", "cluster", "list", "--json", cwd=empty / "own")
    assert '"name": "own"' in listed.stdout, listed.stderr


def _installed(wheel: Path, folder: Path) -> Environment:
    """Install it as a user does, with its requirements from the index in the lock's versions."""
    programs = Path(sys.executable).parent
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"), cwd=folder)
    python, lock = folder / "venv" / "bin" / "python", ROOT / "scripts" / "locks" / "submit.txt"
    told = ("--quiet", "--python", str(python), "--constraint", str(lock))
    _run(str(programs / "uv"), "pip", "install", *told, str(wheel), cwd=folder)
    (folder / "home").mkdir()
    return Environment(folder=folder / "venv", home=folder / "home")


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
