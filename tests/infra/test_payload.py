"""What a bake gets of this checkout: the same bytes for the same files, and a wheel that pip installs."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from infra.patterns.payload import payload_of, project_wheel

ROOT = Path(__file__).parents[2]


def test_the_same_files_make_the_same_bytes() -> None:
    first = payload_of("cpu-mpi")
    project_wheel.cache_clear()
    assert payload_of("cpu-mpi") == first


def test_it_holds_the_locks_and_the_wheel_and_nothing_else() -> None:
    with ZipFile(BytesIO(payload_of("cpu-mpi").content)) as archive:
        names = archive.namelist()
        locked = archive.read("requirements.txt")
    assert names == ["requirements.txt", "uv.txt", project_wheel()[0]]
    assert locked == (ROOT / "containers" / "images" / "cpu-mpi" / "requirements.txt").read_bytes()


def test_the_wheel_holds_code_and_data_and_leaves_out_what_tools_leave_behind() -> None:
    with ZipFile(BytesIO(project_wheel()[1])) as archive:
        names = set(archive.namelist())
    assert {"jobs/node/main.py", "jobs/core/instances.csv", "containers/data/native/core.h"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests/", "infra/"))]


def test_pip_installs_the_wheel_and_its_commands(tmp_path: Path) -> None:
    name, content = project_wheel()
    (tmp_path / name).write_bytes(content)
    target = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*command, str(target), str(tmp_path / name)], check=True, capture_output=True)
    assert (target / "bin" / "slipway-node").is_file()
    assert (target / "jobs" / "node" / "main.py").is_file()
