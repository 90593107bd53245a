"""What works on a Mac works, and the rest says in one line what it needs; so does all on Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.jobs import entry
from tests.architecture import tracked
from tests.jobs.cli.test_cli import COMMANDS

MAC = tracked.ROOT / "tests" / "mac"
COMMAND = "import sys; from slipway.jobs.entry import main; sys.argv[0] = 'slipway'; main()"
PLAN = {
    "pools": [{"type": "p4d.24xlarge", "nodes": 2}],
    "jobs": [
        {"name": name, "modes": [{"type": "p4d.24xlarge", "devices": 8, "seconds": 60 + number}]}
        for number, name in enumerate("abcdef")
    ],
}


def on_a_mac(code: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    paths = {"PYTHONPATH": f"{MAC}{os.pathsep}{tracked.ROOT}", "SLIPWAY_YARD_HOME": str(folder / "yard")}
    command = [sys.executable, "-P", "-W", "error", "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **paths}
    )


def slipway(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return on_a_mac(COMMAND, *words, folder=folder)


def test_every_command_starts_on_a_mac(tmp_path: Path) -> None:
    code = (
        "import sys; from slipway.jobs.cli.cli import cli\n"
        "for name in sys.argv[1:]: cli([*name.split(), '--help'], standalone_mode=False)"
    )
    done = on_a_mac(code, *COMMANDS, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_plan_is_searched_on_a_mac(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text(json.dumps(PLAN))
    done = slipway("plan", "make", "jobs.json", "--time-limit", "1", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(each["job"] for each in json.loads(done.stdout)["assignments"]) == list("abcdef")


def test_the_yard_says_in_one_line_that_it_needs_linux(tmp_path: Path) -> None:
    done = slipway("yard", "up", folder=tmp_path)
    assert done.returncode == 1
    error, hint = done.stderr.splitlines()
    assert error == "error: the yard runs real Linux programs, and this machine is darwin"
    assert hint.startswith("hint: ")


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match=r"^error: .*Windows.* WSL"):
        entry.main()
