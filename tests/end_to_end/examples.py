"""The folders of docs/examples as jobs of a cluster: each loses a node, and goes on from what it saved."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.end_to_end.conftest import ROOT, Shell

FOLDER = ROOT / "docs" / "examples"
# What the rest of the tests has no use for: scripts/set_up_apart.
BESIDE = ROOT / ".venv" / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Says how long a folder trains in a test, and which line it prints after it has saved."""

    name: str
    steps: int
    saved: str
    begins: tuple[str, ...] = ("python",)  # what starts its train.py
    options: tuple[str, ...] = ()

    def run(self, shell: Shell, *options: str) -> None:
        """Run it with the command of its page."""
        words = ("env", f"STEPS={self.steps}", *self.begins, "train.py")
        options = (*options, *self.options)
        shell.must("slipway", "run", "--folder", str(FOLDER / self.name), *options, "--", *words)


DDP = Example(name="ddp", steps=400, saved="step 50/400")
TRAINER = Example(
    name="trainer", steps=60, saved="'epoch': '0.4688'"
)  # step 30 of two ranks; step 20 is saved
# One rank on each node, where torchrun would start one for each device of a dl1.
LLAMA = Example(
    name="pretrain_llama",
    steps=100,
    saved="saved step 20",
    begins=("torchrun", "--nproc-per-node", "1"),
    options=("--per-node",),
)
FABRIC = Example(name="fabric", steps=400, saved="step 50/400")


def require_fabric() -> tuple[str, str]:
    """Return the option by which a job finds Lightning, which its page brings in wheels."""
    if not (BESIDE / "lock.txt").exists():
        pytest.skip("needs Lightning: scripts/set_up_apart")
    (packages,) = BESIDE.glob("lib/python*/site-packages")
    return "--env", f"PYTHONPATH={packages}"


def refuse_an_end_without_resuming(shell: Shell, example: Example, *options: str) -> None:
    """Run an example, take a node from it, and see it end with one curve of two attempts."""
    example.run(shell, *options)
    shell.follow_until(example.name, example.saved)
    shell.must("slipway", "yard", "kill-node", example.name, "1")
    log = shell.must("slipway", "logs", example.name, "--follow")
    assert "resuming from step" in log
    assert shell.data("slipway", "status", example.name, "--json")["state"] == "succeeded", log
    curve = shell.data("slipway", "report", "curve", example.name, "--json")
    assert (curve[0]["attempt"], curve[-1]["attempt"]) == (1, 2)
    assert (curve[0]["step"], curve[-1]["step"]) == (10, example.steps)
    assert curve[-1]["loss"] < curve[0]["loss"]
