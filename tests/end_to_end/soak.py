"""A job of two nodes that something strikes each minute, and what of its time was training.

What is expected follows from the rates: how many faults of each kind end an attempt, how long the next start
usually takes after that kind, and half the steps between two checkpoints. A kind of fault is a row of ENDS.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tests.end_to_end.conftest import Shell
from tests.end_to_end.login_node import login_node

APP = Path(__file__).parent / "apps" / "soaking"
NAME = "soak"
EVERY_SECONDS = 60.0
STEP_SECONDS, SAVED_EVERY = 0.1, 20  # of the program
LOOK_SECONDS = 3.0
ATTEMPTS = 10  # AWS Batch's most
OPTIONS = (
    *("--nodes", "2", "--processes-per-node", "1", "--name", NAME, "--checkpoints", f"checkpoints/{NAME}"),
    *("--attempts", str(ATTEMPTS), "--timeout-hours", "2"),  # in all within Systems Manager's two days
)
# True if the fault ends the attempt; otherwise training goes on.
ENDS: Mapping[str, bool] = {"kill": True, "hang": True, "cut": True, "full": False, "throttle": False}
OWN = {"hang": 1, "cut": 1, "full": 0}  # what the program does to itself, and at which rank
LATELY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    kind: str
    at: float  # seconds after the first step


def strokes(minutes: float, seed: int, kinds: Sequence[str]) -> list[Stroke]:
    """Return one fault for each minute; the seed draws the order of the kinds and the second."""
    drawn, found = random.Random(seed), list[Stroke]()  # noqa: S311  # the same for a seed
    while len(found) < minutes:
        for kind in drawn.sample(sorted(kinds), len(kinds)):
            at = EVERY_SECONDS * len(found) + drawn.uniform(20, 40)
            found.append(Stroke(kind=kind, at=at))
    return found[: max(1, int(minutes))]


@dataclass(slots=True, kw_only=True)
class Soak:
    """Strike one job on one cluster, follow it to its end, and count."""

    yard: Shell
    on: str
    minutes: float
    seed: int
    kinds: Sequence[str]
    strokes: list[Stroke] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    struck: set[int] = field(default_factory=set)  # a job that is restarting is not struck

    def run(self) -> dict[str, float]:
        """Return the share of time spent training, and the expected one."""
        self.strokes = strokes(self.minutes, self.seed, self.kinds)
        target = self.yard.data("slipway", "cluster", "targets", self.on, "--json")
        if group := target.get("login_group"):  # Slurm takes jobs once its login node has booted
            login_node(self.yard, group)
        self._submit()
        self.yard.follow_until(self.jobs[0], '"at":')
        zero = time.time() - float(self._told("at")[-1]["at"])
        for number, stroke in enumerate(self.strokes):
            self._wait_until(zero + stroke.at)
            if stroke.kind not in OWN and self._trains(zero):
                self._strike(stroke.kind)
                self.struck.add(number)
            print(f"{time.time() - zero:.0f} s: {stroke.kind}", flush=True)
        self._wait_until(zero + self.minutes * 60)
        while not self._has_ended():
            time.sleep(LOOK_SECONDS)
        return self._counted()

    def _submit(self) -> None:
        orders = [
            (number, each.kind, each.at, OWN[each.kind])
            for number, each in enumerate(self.strokes)
            if each.kind in OWN
        ]
        told = {"FAULTS": json.dumps(orders), "UNTIL": str(self.minutes * 60)}
        words = [word for name, value in told.items() for word in ("--env", f"{name}={value}")]
        again = ["--again"] if self.jobs else []
        options = ["--on", self.on, "--folder", str(APP), "--json", *OPTIONS, *words, *again]
        sent = self.yard.data("slipway", "run", *options, "--", "python", "train.py")
        self.jobs.append(sent["name"])

    def _trains(self, zero: float) -> bool:
        """Return True once the job has reported a step, or False if it has not before the next fault."""
        ends = time.time() + EVERY_SECONDS / 3
        while time.time() - zero - float(self._told("at")[-1]["at"]) > LATELY_SECONDS:
            if time.time() > ends:
                return False
            self._go_on()
        return True

    def _strike(self, kind: str) -> None:
        if kind == "kill":
            self.yard.must("slipway", "yard", "kill-node", *self._node())
        if kind == "throttle":
            self.yard.must("slipway", "yard", "faults", "set", "throttling=20")
            self.yard.run("slipway", "status", self.jobs[-1])
            self.yard.must("slipway", "yard", "faults", "clear")

    def _node(self) -> tuple[str, ...]:
        """Return the arguments that name the last node: a host on MPI, a number of the job elsewhere."""
        if self.on != "c6i":
            return self.jobs[-1], "1"
        hosts = self.yard.data("slipway", "status", "--on", self.on, "--nodes", "--json")
        return (str(hosts[-1]["name"]),)

    def _wait_until(self, then: float) -> None:
        while (left := then - time.time()) > 0:
            self._go_on()
            time.sleep(min(LOOK_SECONDS, left))

    def _go_on(self) -> None:
        """Do what a user does after the last attempt: repeat the command with --again."""
        if self._state() == "failed":
            ended_by_a_rank = self.on == "sagemaker"  # SageMaker tries again only after its own faults
            assert ended_by_a_rank or f"attempt {ATTEMPTS}: " in self._log(), self._log()
            self._submit()

    def _has_ended(self) -> bool:
        self._go_on()
        return self._state() == "succeeded"

    def _state(self) -> str:
        return str(self.yard.data("slipway", "status", self.jobs[-1], "--json")["state"])

    def _told(self, key: str) -> list[dict[str, Any]]:
        found = [json.loads(text) for text in re.findall(r"\{\"(?:step|ended)\".*\}", self._log())]
        return [each for each in found if key in each]

    def _log(self) -> str:
        return "\n".join(self.yard.must("slipway", "logs", job) for job in self.jobs)

    def _counted(self) -> dict[str, float]:
        print("\n".join(line for line in self._log().splitlines() if '"step"' not in line), flush=True)
        (ended,) = self._told("ended")
        assert ended["weights"] == chain(ended["ended"]).hex(), "another end than that of a quiet training"
        steps, seconds = self._told("at"), self.minutes * 60
        pace, pauses = usual_pace(steps), pauses_of(steps)
        self.struck |= {int(number) for number in re.findall(r"stroke (\d+): ", self._log())}
        kinds = [self.strokes[number].kind for number in sorted(self.struck)]
        ends = [kind for kind in kinds if ENDS[kind]]
        assert len(pauses) == len(ends), f"{ends} ended attempts, and {len(pauses)} began anew"
        usual = {
            kind: median(p for each, p in zip(ends, pauses, strict=True) if each == kind) for kind in ends
        }
        cost = sum(usual[kind] + SAVED_EVERY / 2 * pace for kind in ends)
        assert cost < seconds, f"{seconds:g} s are too few to see {ends}, of which each costs {usual}"
        return {
            "steps": ended["ended"],
            "faults": len(kinds),
            "usual_pause": median(pauses or [0]),
            "share": ended["ended"] * pace / seconds,
            "expected": 1 - cost / seconds,
        }


def chain(steps: int) -> bytes:
    """Return the weights after so many undisturbed steps."""
    weights = bytes(32)
    for step in range(1, steps + 1):
        weights = hashlib.sha256(weights + step.to_bytes(8, "big")).digest()
    return weights


def usual_pace(told: Sequence[Mapping[str, float]]) -> float:
    """Return the median of the seconds of a step."""
    return median(
        (later["at"] - sooner["at"]) / (later["step"] - sooner["step"])
        for sooner, later in pairwise(told)
        if later["step"] > sooner["step"]
    )


def pauses_of(told: Sequence[Mapping[str, float]]) -> list[float]:
    """Return the seconds from an attempt's last line to the first line of the next attempt."""
    return [later["at"] - sooner["at"] for sooner, later in pairwise(told) if later["step"] <= sooner["step"]]
