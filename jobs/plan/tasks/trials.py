"""Run trials: a few real batches of one task, spread in one way over some devices; results are cached.

To run trials elsewhere than on this machine, write another TrialPlace.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE
from slipway.containers.tasks.description import FACTS_NAME, TaskDescription
from slipway.jobs.plan.tasks.local_machine import LocalMachine, RankGang
from slipway.jobs.plan.techniques.techniques import Variant
from slipway.jobs.platforms.on_nodes import write_whole

TRIAL_STEPS = 4  # the first of them is not counted
MOST_SECONDS = 600.0
_NOT_TIMED = ("name", "rate", "epochs", "batches", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Hold what a trial tries."""

    task: TaskDescription
    technique: str
    variant: Variant
    devices: int

    @property
    def words(self) -> str:
        return f"{self.variant.name} on {self.devices}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Hold what a trial found; without `seconds` it does not fit, for `reason`."""

    seconds: float | None = None  # of a batch
    error: float = 0.0  # half the difference of the fastest and the slowest batch, as a share
    startup: float = 0.0
    facts: Mapping[str, int | None] | None = None  # of the model: see containers/tasks/start.py
    reason: str = ""
    is_kept: bool = True  # False: the same trial might end otherwise next time


class TrialPlace(Protocol):
    """Try tasks on devices of one kind; several threads may call it at once."""

    @property
    def identity(self) -> Sequence[str]:
        """Return all that a batch's seconds depend on there, besides the task."""

    def ranks_on_node(self, devices: int) -> int:
        """Return how many of this many devices are on one node."""

    def run(self, tried: Combination, folder: Path) -> Profile:
        """Train a few batches, which may leave files in the folder."""


class ProfileCache:
    """Keep profiles in files named by a digest of what they depend on."""

    def __init__(self, folder: Path | None = None) -> None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._folder = folder or base / "slipway" / "profiles"

    def find(self, key: str) -> Profile | None:
        try:
            return Profile(**json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None  # no profile, or one of another version

    def keep(self, key: str, profile: Profile) -> None:
        if profile.is_kept:
            write_whole(self._folder / f"{key}.json", json.dumps(asdict(profile)))


def content_key(task: TaskDescription, place: TrialPlace) -> str:
    """Return a digest of all that a batch's seconds depend on, except how it is spread."""
    record = {name: value for name, value in task.as_json().items() if name not in _NOT_TIMED}
    code = [part.content_digest() for part in (task.load_model, task.load_dataloader, task.loss)]
    versions = []
    for package in ("slipway", "torch"):
        try:
            versions.append(version(package))
        except PackageNotFoundError:
            versions.append("")
    text = json.dumps([record, code, [*place.identity, versions]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def try_combination(place: TrialPlace, tried: Combination, folder: Path, cache: ProfileCache) -> Profile:
    """Return the cached profile, or train a few batches once enough devices are free."""
    words = json.dumps([content_key(tried.task, place), dict(tried.variant.settings), tried.devices])
    key = hashlib.sha256(words.encode()).hexdigest()
    if (kept := cache.find(key)) is not None:
        return kept
    found = place.run(tried, folder)
    cache.keep(key, found)
    return found


@dataclass(frozen=True, slots=True)
class LocalTrials:
    """Try tasks on this machine's devices."""

    machine: LocalMachine

    @property
    def identity(self) -> Sequence[str]:
        return [platform.node(), self.machine.devices.kind, *self.machine.devices.names]

    def ranks_on_node(self, devices: int) -> int:
        return devices

    def run(self, tried: Combination, folder: Path) -> Profile:
        with self.machine.taken(tried.devices) as devices:
            gang = RankGang(
                task=tried.task,
                devices=devices,
                settings=tried.variant.settings,
                folder=folder,
                steps=TRIAL_STEPS,
                most_seconds=MOST_SECONDS,
            )
            end = self.machine.run(gang)
            facts = _read_facts(folder)
            if end.code:
                return Profile(facts=facts, reason=end.reason, is_kept=end.code == MISTAKE_EXIT_CODE)
            return profile_of(seconds_per_batch(folder), end.seconds, facts)


def profile_of(taken: Sequence[float], seconds: float, facts: Mapping[str, int | None] | None) -> Profile:
    """Build a trial's profile from the seconds of its batches, without the first, and of the whole trial."""
    middle = statistics.median(taken)
    return Profile(
        seconds=middle,
        error=(max(taken) - min(taken)) / 2 / middle,
        startup=max(0.0, seconds - TRIAL_STEPS * middle),
        facts=facts,
    )


def seconds_per_batch(folder: Path) -> list[float]:
    """Return the seconds of each batch of a trial except the first."""
    lines = (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    return [float(json.loads(line)["seconds"]) for line in lines][1:]


def _read_facts(folder: Path) -> Mapping[str, int | None] | None:
    try:
        found: dict[str, Json] = json.loads((folder / FACTS_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return numbers_of(found)


def numbers_of(found: Mapping[str, Json]) -> Mapping[str, int | None]:
    """Return the facts that are numbers."""
    return {name: value for name, value in found.items() if value is None or isinstance(value, int)}
