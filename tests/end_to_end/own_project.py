"""A user's project as `slipway init` writes it, which trains slowly enough to lose a node meanwhile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.containers.runtime.rendezvous.peers import free_port
from tests.end_to_end.conftest import Shell

STEPS = 120
FIRST_PORT = 29700
_SLOWLY = """import os, sys, time
import train

draw = train.samples

def draw_later(*asked):
    time.sleep(float(os.environ["PAUSE"]))
    return draw(*asked)

train.samples = draw_later
sys.exit(train.main())
"""
# Like `python train.py`, but each step takes a twentieth of a second.
TRAIN_SLOWLY = ("env", f"STEPS={STEPS}", "PAUSE=0.05", "python", "-c", _SLOWLY)
# For a cluster on which killing a node takes a while.
TRAIN_MORE_SLOWLY = ("env", f"STEPS={STEPS}", "PAUSE=0.25", "python", "-c", _SLOWLY)
# Another recipe of the project, in addition to its first one.
SLOW_RECIPE = '''"""Trains the network of train.py slowly."""

import os
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    steps: int
    pause_seconds: float = 0.05


def train(config):
    os.environ["STEPS"] = str(config.steps)
    import train as own

    draw = own.samples

    def draw_later(*asked):
        time.sleep(config.pause_seconds)
        return draw(*asked)

    own.samples = draw_later
    return own.main()
'''


def begin_project(shell: Shell, folder: Path) -> Shell:
    """Begin a project in the folder, with a slow recipe; return a shell in that folder."""
    shell.must("slipway", "init", str(folder))
    (folder / "recipes" / "slow.py").write_text(SLOW_RECIPE, encoding="utf-8")
    return replace(shell, folder=folder)


def losses(log: str) -> dict[int, set[float]]:
    """Return each step's line of train.py in a log, over all attempts."""
    found: dict[int, set[float]] = {}
    for step, loss in re.findall(r"step (\d+)/\d+  loss (\d+\.\d+)", log):
        found.setdefault(int(step), set()).add(float(loss))
    return found


def refuse_another_curve(log: str, folder: Path) -> None:
    """Check that the folder's train.py resumed, with the losses of two undisturbed ranks."""
    assert "resuming from step" in log
    own = {
        "STEPS": str(STEPS),
        "SLIPWAY_CHECKPOINTS": str(folder / "undisturbed"),
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
    }
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port(FIRST_PORT))}
    ranks = [
        subprocess.Popen(
            (sys.executable, "train.py"),
            cwd=folder,
            env={**os.environ, **own, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    wanted, found = losses(said[0]), losses(log)
    assert list(wanted) == list(range(10, STEPS + 1, 10))
    assert sorted(found) == sorted(wanted)
    for step, values in found.items():
        (undisturbed,) = wanted[step]
        assert list(values) == pytest.approx([undisturbed] * len(values), abs=2e-4), f"step {step}"
