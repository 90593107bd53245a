"""A bake gets this package as the same bytes for the same files, and as a wheel that pip installs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zlib
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from slipway.infra.patterns.images import payload
from slipway.infra.patterns.images.payload import payload_of, project_wheel

ROOT = Path(__file__).parents[4]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a small package, which nobody edits meanwhile."""
    files = {
        "infra/components/uv.txt": "uv==1\n",
        "containers/images/small/requirements.txt": "torch==1\n",
        "containers/__init__.py": "",
        "__init__.py": "",
        "jobs/cli.py": "def main(): ...\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.setattr(payload, "PACKAGE", tmp_path)
    monkeypatch.setattr(payload, "project_wheel", project_wheel.__wrapped__)
    return tmp_path


def test_the_same_files_make_the_same_bytes_whenever_they_were_written(package: Path) -> None:
    first = payload_of("small")
    os.utime(package / "jobs" / "cli.py", (1, 1))
    (package / "jobs" / "cli.pyc").write_bytes(b"left by a tool")
    assert payload_of("small") == first


def test_another_zlib_makes_the_same_bytes(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fedora's zlib-ng compresses differently: an AMI would be baked again for each colleague."""
    first, compressor = payload_of("small"), zlib.compressobj
    monkeypatch.setattr(zlib, "compressobj", lambda _level, *form: compressor(0, *form))
    assert payload_of("small") == first


def test_other_code_or_another_lock_makes_another_payload(package: Path) -> None:
    first = payload_of("small")
    (package / "jobs" / "cli.py").write_text("def main(): pass\n", encoding="utf-8")
    second = payload_of("small")
    (package / "infra" / "components" / "uv.txt").write_text("uv==2\n", encoding="utf-8")
    assert len({first.digest, second.digest, payload_of("small").digest}) == 3


def test_it_holds_the_locks_the_wheel_and_what_nodes_run_at_boot_and_nothing_else() -> None:
    with ZipFile(BytesIO(payload_of("cpu-mpi").content)) as archive:
        names = archive.namelist()
        locked = archive.read("requirements.txt")
    others = [name for name in names if not name.startswith("boot/")]
    assert others == ["requirements.txt", "uv.txt", project_wheel()[0]]
    assert {"boot/boot.sh", "boot/units/slipway-boot.service"} < set(names)
    assert locked == (ROOT / "containers" / "images" / "cpu-mpi" / "requirements.txt").read_bytes()


def test_the_wheel_holds_code_and_data_and_leaves_out_what_tools_leave_behind() -> None:
    with ZipFile(BytesIO(project_wheel()[1])) as archive:
        names = set(archive.namelist())
    assert {
        "slipway/jobs/platforms/mpi/node/main.py",
        "slipway/jobs/words/catalogue/instances.csv",
        "slipway/containers/data/tokens/native/core.h",
    } <= names
    assert not [
        name for name in names if "__pycache__" in name or name.startswith(("tests/", "slipway/infra/"))
    ]


def test_its_commands_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == payload.SCRIPTS


def test_pip_installs_the_wheel_and_its_commands(tmp_path: Path) -> None:
    name, content = project_wheel()
    (tmp_path / name).write_bytes(content)
    target = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*command, str(target), str(tmp_path / name)], check=True, capture_output=True)
    assert (target / "bin" / "slipway-node").is_file()
    assert (target / "slipway" / "jobs" / "platforms" / "mpi" / "node" / "main.py").is_file()
