"""Types commands on the login node of a Slurm cluster of the yard."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from slipway.jobs.words import slurm as places
from tests.end_to_end.conftest import Shell
from tests.jobs.platforms.slurm.one_slurm import start_requeued
from tests.waiting import until

PATIENCE_SECONDS = 600.0
LOOK_AGAIN_SECONDS = 2.0  # each look is a session on the host
FOLDER = f"{places.SHARED}/trial"
WAITS = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED")
CHARTS = "events.out.tfevents.*"  # the names by which TensorBoard finds them
STEP = re.compile(r"step (\d+)\b.*?\bloss (\d+\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginNode:
    """Types on the login node."""

    yard: Shell
    name: str

    def types(self, line: str) -> str:
        inside = f"cd {FOLDER} && {line}"
        return self.yard.must("slipway", "yard", "ssh", self.name, "--", "bash", "-c", inside).strip()

    def sbatch(self, *words: str) -> str:
        return self.types(" ".join(("sbatch", "--parsable", *words))).splitlines()[-1]

    def job(self, job: str) -> dict[str, str]:
        words = self.types(f"scontrol --oneliner show job {job}").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def log(self, name: str) -> str:
        return self.types(f"cat {name} 2>/dev/null || true")

    def until(self, holds: Callable[[], Any], *told: str) -> None:
        until(
            holds,
            lambda: "\n".join(self.log(name) for name in told),
            patience_s=PATIENCE_SECONDS,
            look_again_s=LOOK_AGAIN_SECONDS,
        )

    def node(self, name: str) -> str:
        return self.types(f"scontrol --oneliner show node {name}")

    def ends_well(self, job: str, log: str) -> None:
        self.until(lambda: self._has_ended(job), log)
        assert self.job(job)["JobState"] == "COMPLETED", self.log(log)

    def _has_ended(self, job: str) -> bool:
        """Look, and let a requeued job start before the end of the two minutes for which Slurm delays it."""
        found = self.job(job)
        if found["Reason"] == "BeginTime":
            start_requeued(lambda *words: self.types(f"{shlex.join(words)} || true"), job)
        return found["JobState"] not in WAITS

    def trains(self, job: str, log: str) -> None:
        """Wait until the job has saved a step."""
        self.until(lambda: "saved step" in self.log(log) or self.job(job)["JobState"] not in WAITS, log)
        assert self.job(job)["JobState"] in WAITS, self.log(log)

    def last_host(self, job: str) -> str:
        """Return the address of the last of the job's nodes."""
        last = self.types(f"scontrol show hostnames {self.job(job)['NodeList']}").split()[-1]
        address = re.search(r"NodeAddr=(\S+)", self.node(last))
        assert address
        return address[1]

    def charts(self, job: str) -> list[str]:
        """Return the files of a job in which TensorBoard finds a loss."""
        found = f"find {places.SHARED} -path '*/{job}/*' -name '{CHARTS}' -exec grep -la loss {{}} +"
        return sorted(self.types(found).splitlines())

    def losses(self, log: str) -> dict[int, float]:
        return {int(step): float(loss) for step, loss in STEP.findall(self.log(log))}


def login_node(shell: Shell, group: str) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for host in shell.data("slipway", "yard", "hosts", "--json"):
            if host["group"] == group and host["state"] in ("running", "failed"):
                name = str(host["name"])
                made = f"mkdir -p {FOLDER} && cp {places.SCRIPTS}/* {FOLDER}"
                shell.must("slipway", "yard", "ssh", name, "--", "bash", "-c", made)
                return name
    pytest.fail("the login node never booted")
