"""Offer our own techniques as classes of Saturn's API: each trains, and finds its fastest variant."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from slipway.containers.runtime.collective import Json
from slipway.jobs.plan.tasks.local_machine import LocalMachine, RankGang, find_devices, scratch_folder
from slipway.jobs.plan.tasks.saved_models import CHECKPOINTS
from slipway.jobs.plan.tasks.task import BaseTechnique
from slipway.jobs.plan.techniques.techniques import TECHNIQUES
from slipway.jobs.words.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.jobs.plan.tasks.task import Task


class RankTechnique(BaseTechnique):
    """Train on one rank per device, spread by one of our techniques."""

    technique: ClassVar[str]

    @classmethod
    def execute(cls, task: Task, gpus: Sequence[int], task_id: int, batch_count: int | None = None) -> None:
        """Train the task to its end, or for `batch_count` batches without saving."""
        del task_id
        chosen = task.selected_strategy
        settings = chosen.parameters if chosen else next(iter(_settings(cls.technique, len(gpus))), {})
        gang = RankGang(
            task=task.describe(),
            devices=gpus,
            settings={name: str(value) for name, value in settings.items()},
            folder=task.folder / "logs",
            checkpoints=task.folder / CHECKPOINTS if batch_count is None else None,
            steps=batch_count,
        )
        with LocalMachine(find_devices()) as machine:
            end = machine.run(gang)
        if end.code:
            raise SlipwayError(f"task '{task.name}' ended: {end.reason}", hint=f"see {gang.folder}")

    @classmethod
    def search(
        cls, task: Task, gpus: Sequence[int], task_id: int
    ) -> tuple[dict[str, Json], float] | tuple[None, None]:
        """Try each variant for a few batches; return the fastest one's settings and seconds per batch."""
        del task_id
        from slipway.jobs.plan.tasks.trials import TRIAL_STEPS, seconds_per_batch

        found: list[tuple[float, dict[str, Json]]] = []
        with scratch_folder() as scratch, LocalMachine(find_devices()) as machine:
            for number, settings in enumerate(_settings(cls.technique, len(gpus))):
                folder = Path(scratch) / str(number)
                gang = RankGang(
                    task=task.describe(), devices=gpus, settings=settings, folder=folder, steps=TRIAL_STEPS
                )
                if not machine.run(gang).code:
                    found.append((statistics.median(seconds_per_batch(folder)), dict(settings)))
        if not found:
            return None, None
        seconds, chosen = min(found, key=lambda each: each[0])
        return chosen, seconds


def _settings(technique: str, ranks: int) -> Iterator[dict[str, str]]:
    for variant in TECHNIQUES[technique](ranks, ranks):
        yield dict(variant.settings)


@cache
def technique_class(name: str) -> type[RankTechnique]:
    words = {"name": name, "technique": name, "__doc__": f"Train by our technique {name}."}
    return type(f"{name.capitalize()}Technique", (RankTechnique,), words)
