"""Profile tasks by few trials: each kind of batch on one device, each technique once for each model.

An estimate fitted to these gives the other times. What cannot train a task is noted with its reason.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.containers.tasks.description import TaskDescription
from slipway.jobs.plan.tasks.library import retrieve
from slipway.jobs.plan.tasks.local_machine import LocalMachine
from slipway.jobs.plan.tasks.own_technique import OwnOrder, own_result, run_own
from slipway.jobs.plan.tasks.task import Strategy, Task
from slipway.jobs.plan.tasks.trials import (
    Combination,
    Profile,
    ProfileCache,
    TrialPlace,
    content_key,
    try_combination,
)
from slipway.jobs.plan.techniques.fitted import FittedSteps, MeasuredStep, ModelFacts, fit_steps
from slipway.jobs.plan.techniques.techniques import TECHNIQUES, Variant
from slipway.jobs.words.text import Say

_ALONE = "data"  # on one device: every fit begins with these trials
_TRIALS_AT_ONCE = 32


@dataclass(slots=True)
class TaskGroup:
    """Hold tasks that take the same time for a batch, such as two learning rates: only one is tried."""

    key: str
    task: TaskDescription
    tasks: list[Task] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Return the kind of model: tasks of one kind differ only in batches and rates."""
        task = self.task
        return json.dumps([task.load_model.as_json(), dict(task.arguments), task.precision], sort_keys=True)


@dataclass(slots=True, kw_only=True)
class Profiler:
    place: TrialPlace
    own: LocalMachine | None = None  # runs the user's own techniques; None: they are not tried
    cluster: str = ""  # empty: this machine
    folder: Path  # of the trials' files
    counts: Sequence[int]  # of devices
    names: Sequence[str]  # of techniques
    say: Say
    cache: ProfileCache = field(default_factory=ProfileCache)
    found: dict[tuple[str, str, int], tuple[Combination, Profile]] = field(default_factory=dict)
    trials: int = 0

    def profile(self, tasks: Sequence[Task]) -> None:
        """Give each task its strategies, by number of devices."""
        by_key: dict[str, TaskGroup] = {}
        for task in tasks:
            described = task.describe()
            key = content_key(described, self.place)
            by_key.setdefault(key, TaskGroup(key, described)).tasks.append(task)
        groups = list(by_key.values())
        with ThreadPoolExecutor(_TRIALS_AT_ONCE) as pool:
            list(pool.map(self._try_alone, groups))
            ours = [name for name in self.names if name in TECHNIQUES]
            work = [(group, name) for group in self._one_of_each_kind(groups) for name in ours]
            list(pool.map(lambda each: self._try_technique(*each), work))
            own = [name for name in self.names if name not in TECHNIQUES]
            for strategies in pool.map(
                lambda each: self._try_own(*each),
                [(group, name, count) for group in groups for name in own for count in self.counts],
            ):
                self._keep_fastest(strategies)
        fitted = fit_steps(list(self._measured(groups)))
        for group in groups:
            self._keep_fastest(self._strategies(group, fitted))

    def _one_of_each_kind(self, groups: Iterable[TaskGroup]) -> Iterable[TaskGroup]:
        """Return for each model the group with the most rows, which shows a technique's effect best."""
        kinds: dict[str, TaskGroup] = {}
        for group in sorted(groups, key=lambda each: (self._told(each) or {}).get("rows") or 0, reverse=True):
            kinds.setdefault(group.kind, group)
        return kinds.values()

    def _try_alone(self, group: TaskGroup) -> None:
        count = min(self.counts)
        self._try(group, _ALONE, next(iter(self._variants(_ALONE, count))), count)

    def _variants(self, name: str, count: int) -> Iterable[Variant]:
        return TECHNIQUES[name](count, self.place.ranks_on_node(count))

    def _try_technique(self, group: TaskGroup, name: str) -> None:
        """Try a technique on the most devices on which it works, its fastest variant first."""
        for count in sorted(self.counts, reverse=True):
            for variant in self._variants(name, count):
                if (name, count) == (_ALONE, min(self.counts)):
                    return  # tried before
                profile = self._try(group, name, variant, count)
                if profile.seconds is not None:
                    return
                if "memory" not in profile.reason:
                    break  # another way to keep activations would not help

    def _try(self, group: TaskGroup, name: str, variant: Variant, devices: int) -> Profile:
        tried = Combination(task=group.task, technique=name, variant=variant, devices=devices)
        self.trials += 1
        profile = try_combination(self.place, tried, self.folder / f"{self.trials}", self.cache)
        self.found[group.key, variant.name, devices] = (tried, profile)
        words = f"{tried.words} of {self.cluster}" if self.cluster else tried.words
        if profile.seconds is None:
            self.say(f"{group.task.name}: {words} does not fit: {profile.reason}")
            for task in group.tasks:
                task.not_fitting[words] = profile.reason
        else:
            self.say(f"{group.task.name}: {words} takes {profile.seconds:.4g} s a batch")
        return profile

    def _try_own(self, group: TaskGroup, name: str, count: int) -> list[tuple[Task, Strategy]]:
        """Run the search of the user's own technique, which finds its seconds for this number of devices."""
        assert self.own is not None, "techniques of the user's own are refused elsewhere"
        folder = self.folder / f"{name}-{count}-{group.key[:12]}"
        with self.own.taken(count) as devices:
            order = OwnOrder(
                what="search", task=group.tasks[0], technique=name, devices=devices, folder=folder
            )
            end = run_own(self.own, order)
        result: Mapping[str, Any] = {"parameters": None} if end.code else own_result(folder)
        if result["parameters"] is None:
            reason = end.reason or "its search says so"
            self.say(f"{group.task.name}: {name} on {count} does not fit: {reason}")
            for task in group.tasks:
                task.not_fitting[f"{name} on {count}"] = reason
            return []
        seconds, executor = float(result["seconds"]), retrieve(name)
        return [
            (
                task,
                Strategy(
                    executor=executor,
                    gpu_apportionment=count,
                    parameters=result["parameters"],
                    runtime=end.seconds + seconds * self._batches(group, task),
                    technique=name,
                ),
            )
            for task in group.tasks
        ]

    def _measured(self, groups: Iterable[TaskGroup]) -> Iterator[MeasuredStep]:
        kinds = {group.key: group for group in groups}
        for (key, _, devices), (tried, profile) in self.found.items():
            facts = self._facts(kinds[key])
            if profile.seconds is not None and facts is not None:
                yield MeasuredStep(
                    kind=kinds[key].kind,
                    facts=facts,
                    technique=tried.technique,
                    variant=tried.variant,
                    devices=devices,
                    seconds=profile.seconds,
                )

    def _strategies(self, group: TaskGroup, fitted: FittedSteps) -> Iterator[tuple[Task, Strategy]]:
        # Only techniques that worked in a trial of this model.
        works = {(each.kind, each.technique) for each in fitted.measured}
        for count in self.counts:
            for name in (name for name in self.names if name in TECHNIQUES and (group.kind, name) in works):
                for variant in self._variants(name, count):
                    yield from self._strategy(group, name, variant, count, fitted)

    def _strategy(
        self, group: TaskGroup, name: str, variant: Variant, count: int, fitted: FittedSteps
    ) -> Iterator[tuple[Task, Strategy]]:
        _, profile = self.found.get((group.key, variant.name, count), (None, None))
        facts = self._facts(group)
        if profile is not None:
            seconds, source, error = profile.seconds, "measured", profile.error
        elif facts is not None:
            seconds = fitted.seconds(group.kind, facts, variant, count, name)
            source, error = "fitted", fitted.error
        if (profile is None and facts is None) or seconds is None:
            return
        startups = [each.startup for _, each in self.found.values() if each.seconds is not None]
        startup = statistics.median(startups) if startups else 0.0
        for task in group.tasks:
            yield (
                task,
                Strategy(
                    executor=retrieve(name),
                    gpu_apportionment=count,
                    parameters=dict(variant.settings),
                    runtime=startup + seconds * self._batches(group, task),
                    technique=variant.name,
                    source=source,
                    error=error,
                ),
            )

    def _facts(self, group: TaskGroup) -> ModelFacts | None:
        told = self._told(group)
        if told is None:
            return None
        names = ("parameters", "layers", "widest", "rows")
        return ModelFacts(**{name: max(1, told[name] or 1) for name in names})

    def _told(self, group: TaskGroup) -> Mapping[str, int | None] | None:
        own = [profile.facts for (key, _, _), (_, profile) in self.found.items() if key == group.key]
        return next((facts for facts in own if facts is not None), None)

    def _batches(self, group: TaskGroup, task: Task) -> int:
        if task.hparams.batch_count is not None:
            return task.hparams.batch_count
        told = self._told(group) or {}
        return (told.get("batches") or 1) * (task.hparams.epochs or 1)

    def _keep_fastest(self, found: Iterable[tuple[Task, Strategy]]) -> None:
        for task, strategy in found:
            count, kept = strategy.gpu_apportionment, task.strategies_at(self.cluster)
            if task.gpu_range is not None and count not in task.gpu_range:
                continue
            known = kept.get(count)
            if known is None or strategy.runtime < known.runtime:
                kept[count] = strategy
