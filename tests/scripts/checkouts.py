"""Runs the scripts in a folder with commands that record their calls, and finds processes that are left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
MARK = "SLIPWAY_TEST_OF_DEMO"
# Answers as the real commands do, as far as the demo reads it. FAILING and HANGING are patterns of commands.
FAKE = r"""#!/usr/bin/env bash
line="${0##*/} $*"
echo "$line" >> "$SAID"
if [[ -n ${HANGING:-} && $line =~ $HANGING ]]; then
  [ -z "${STUBBORN:-}" ] || trap '' INT
  sleep 1000
fi
if [[ -n ${FAILING:-} && $line =~ $FAILING ]]; then
  echo "error: the reason" >&2
  exit 1
fi
case $line in
*"logs bert_pretrain"*) printf '[0] saved step 40\n[0] %s\n[0] done\n' "${REACHED:-saved step 60}" ;;
*"logs own"*) printf '[0] saved step 20\n[0] step 1500/1500\n' ;;
*"logs doomed"*) printf '[0] step 20/90\nerror: lost node 3\n'; exit 1 ;;
*upload*) echo progress >&2; echo s3://bucket/datasets/it ;;
*"status --on c6i"*) echo '[{"name": "ip-1"}, {"name": "ip-4"}]' ;;
*room_tests*) printf 'tests/jobs/test_one.py\ntests/jobs/test_two.py\n' ;;
"python -c"*) exec PYTHON "$@" ;;
esac
"""
SET_UP = """import os, sys
if sys.argv[1] == "--missing":
    print(*(package for package in os.environ.get("MISSING", "").split() if package in sys.argv[2:]))
"""


SCRIPTS = ("bench", "check", "demo", "lock", "set_up_apart", "start.sh", "test", "tests_of")
PROGRAMS = ("slipway", "cdk", "python", "pytest", "mypy", "ruff", "lint-imports", "uv", "zizmor")


def make_checkout(folder: Path) -> Checkout:
    """Write the scripts to this folder, with a set-up that does nothing."""
    scripts, programs = folder / "scripts", folder / ".venv" / "bin"
    scripts.mkdir()
    programs.mkdir(parents=True)
    for name in SCRIPTS:
        shutil.copy(ROOT / "scripts" / name, scripts)
    (scripts / "set_up.py").write_text(SET_UP)
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")  # of which the demo shows some
    for name in PROGRAMS:
        (programs / name).write_text(FAKE.replace("PYTHON", sys.executable))
        (programs / name).chmod(0o755)
    return Checkout(folder=folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """Hold where the scripts are, and their results."""

    folder: Path

    def command(self, script: str = "demo") -> list[str]:
        return [str(self.folder / "scripts" / script)]

    def environment(self, **more: str) -> dict[str, str]:
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        own = {"SAID": str(self.folder / "said"), MARK: str(self.folder), "TMPDIR": str(temporary)}
        return {**os.environ, "RESULTS": "", **own, **more}  # of the `scripts/test --all` that runs this test

    def run(self, *arguments: str, script: str = "demo", **more: str) -> tuple[int, str]:
        done = subprocess.run(
            [*self.command(script), *arguments],
            cwd="/",
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout

    def said(self) -> list[str]:
        return (self.folder / "said").read_text().splitlines()

    def processes(self) -> list[str]:
        """List the command lines of all processes that the demo started and that have not ended."""
        lines = []
        for process in Path("/proc").iterdir():
            if process.name.isdecimal() and f"{MARK}={self.folder}\0".encode() in _environ(process):
                with suppress(OSError):  # it ends just now
                    lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return lines

    def assert_nothing_is_left(self) -> None:
        until(lambda: not self.processes(), lambda: f"still there: {self.processes()}", patience_s=30)
        assert not list((self.folder / "tmp").iterdir())


def _environ(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


class Running:
    """A script in its own terminal, which can be interrupted."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.terminal, slave = os.openpty()
        # setsid: the terminal belongs to the script, so that Ctrl-C and closing it reach the right processes.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        self.said = b""

    def read_until(self, words: str) -> None:
        while words.encode() not in self.said:
            self.said += os.read(self.terminal, 65536)

    def interrupt(self, way: str) -> int:
        """Interrupt by Ctrl-C, by closing the terminal or by a signal; return the script's exit code."""
        if way == "Ctrl-C":
            os.write(self.terminal, b"\x03")
        elif way != "closed terminal":
            self.process.send_signal(signal.Signals[way])
        if way == "closed terminal":
            os.close(self.terminal)
        code = self.process.wait(timeout=60)
        if way != "closed terminal":
            self._read_the_rest()
            os.close(self.terminal)
        return code

    def _read_the_rest(self) -> None:
        with suppress(OSError):  # nothing has the terminal open any more
            while more := os.read(self.terminal, 65536):
                self.said += more
