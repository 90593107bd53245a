"""The entry point: Ctrl-C while Python imports the command ends silently."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module

from tests.architecture import tracked

# Interrupts itself when the command's own module is looked for, as a person does who is quick.
EARLY = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["slipway", "--help"]
from {entry} import main
main()
"""


def ended(module: str) -> subprocess.CompletedProcess[str]:
    entry = tomllib.loads(tracked.text("pyproject.toml"))["project"]["scripts"]["slipway"]
    code = EARLY.format(module=module, entry=entry.partition(":")[0])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_an_interrupt_during_the_first_imports_ends_silently() -> None:
    for module in ("slipway.jobs.cli.cli", "click", "slipway.jobs.output"):
        done = ended(module)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", ""), module


def test_without_an_interrupt_the_command_runs() -> None:
    done = ended("no.such.module")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Start here:" in done.stdout


def test_the_entry_point_imports_nothing_before_its_guard() -> None:
    own = "name.startswith(('slipway', 'click'))"
    code = f"import slipway.jobs.entry, sys; print(*(name for name in sys.modules if {own}))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(said.split()) == {"slipway", "slipway.jobs", "slipway.jobs.entry"}
    assert callable(import_module("slipway.jobs.entry").main)
