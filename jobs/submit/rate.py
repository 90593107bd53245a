"""Reads how fast a run was from its first rank's log lines, and which recipe and settings it ran.

The first steps of every attempt are not counted: compilers, caches and data loaders are still warming up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.estimate.estimates import PricedHardware
from slipway.jobs.estimate.evidence.calibrations import Asked
from slipway.jobs.estimate.evidence.measurements import Measurement, unfitted
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.inputs.places import find_place
from slipway.jobs.estimate.inputs.workloads import recipe_workload
from slipway.jobs.estimate.prices import ON_DEMAND, Rate, find_rate
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.submit.curve import Point, points
from slipway.jobs.submit.logs import Wanted, follow_lines
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import AnyFound, term_of

WARM_UP_STEPS = 10  # left out at the start of every attempt
LEAST_STEPS = 20  # after the warm-up; fewer say little


class TooShort(SlipwayError):
    """The run was too short to learn anything from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRate:
    found: AnyFound
    workload: Workload
    sequences_per_second: float
    steps: int  # counted, without the warm-up
    processes_per_node: int | None  # None: unknown
    curve: tuple[Point, ...]  # all points, warm-up too

    @property
    def asked(self) -> Asked:
        """Describe the run as it ran: some devices may have been idle, or processors shared."""
        run, layout = self.found.run, self.workload.layout
        cluster = cluster_of(instance_type(run.instance_type), run.nodes or 1)
        processes = self.processes_per_node or cluster.devices_per_node
        if processes < cluster.devices_per_node:
            cluster = replace(cluster, devices_per_node=processes)
        elif processes % cluster.devices_per_node == 0:
            layout = replace(layout, micro_batch=layout.micro_batch * processes // cluster.devices_per_node)
        return Asked(
            instance=run.instance_type,
            model_name=self.workload.model_name,
            model=self.workload.model,
            cluster=cluster,
            layout=layout,
        )

    def measurement(self, date: str) -> Measurement:
        run = self.found.run
        return unfitted(
            self.asked,
            name=run.name,
            sequences_per_second=round(self.sequences_per_second, 4),
            date=date,
            source=f"slipway calibrate, {self.steps} steps of {run.id}",
        )

    def place(self, rates: Sequence[Rate]) -> PricedHardware:
        """Return the run's cluster with the costs around its nodes, or its nodes alone if not declared."""
        run, instance = self.found.run, instance_type(self.found.run.instance_type)
        bought = find_rate(rates, instance.name, run.region, term_of(self.found.target))
        with suppress(SlipwayError):
            declared = find_place(run.target, rates, region=None, term=ON_DEMAND)
            if declared.instance == instance:
                return replace(declared, rate=bought or declared.rate)
        rate = bought or find_rate(rates, instance.name, run.region, ON_DEMAND)
        return PricedHardware(name=run.target, instance=instance, rate=rate, region=run.region)


def read_run(found: AnyFound) -> RunRate:
    """Read the rate of a run; refuse a run that was too short, or whose recipe has no estimate."""
    run = found.run
    if run.recipe is None or run.nodes is None:
        raise SlipwayError(
            f"job '{run.name}' has no record of its recipe and its number of nodes",
            hint="choose a job that slipway submitted: slipway status --all",
        )
    workload = recipe_workload(run.recipe, settings_of(found.detail))
    curve = points([line.text for line in follow_lines(found, Wanted(rank=0), to_end=False)])
    rate, steps = steady_rate(curve)
    if steps < LEAST_STEPS:
        raise TooShort(
            f"job '{run.name}' has reported {steps} steps after the first {WARM_UP_STEPS} of each attempt; "
            f"at least {LEAST_STEPS} are needed",
            hint=f"run it for {LEAST_STEPS + WARM_UP_STEPS} steps or more, or wait: it is {run.state}",
        )
    return RunRate(
        found=found,
        workload=workload,
        sequences_per_second=rate,
        steps=steps,
        processes_per_node=processes_of(found.detail),
        curve=tuple(curve),
    )


def steady_rate(curve: Sequence[Point]) -> tuple[float, int]:
    """Return sequences per second over the counted steps, and their number; every step weighs the same."""
    counted: list[tuple[int, float]] = []
    attempt: int | None = None
    begun, before = 0, 0
    for point in curve:
        rate = point.sequences_per_second or 0.0  # the mean since the line before
        if point.attempt != attempt:
            attempt, begun = point.attempt, before
        elif before - begun >= WARM_UP_STEPS and rate > 0:
            counted.append((point.step - before, rate))
        before = point.step
    steps = sum(each for each, _ in counted)
    seconds_of_one_sequence = sum(each / rate for each, rate in counted)
    return (steps / seconds_of_one_sequence if steps else 0.0), steps


def settings_of(detail: Mapping[str, Any]) -> dict[str, str]:
    """Return the recipe's settings: the `--set key=value` of the first command that has any."""
    for words in _nested(detail):
        if isinstance(words, list) and all(isinstance(each, str) for each in words):
            pairs = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "--set"]
            if pairs:
                return dict(pair.partition("=")[::2] for pair in pairs)
    return {}


def processes_of(detail: Mapping[str, Any]) -> int | None:
    """Return the processes per node that the launchers were given, in a variable as AWS lists it."""
    for each in _nested(detail):
        if isinstance(each, Mapping) and each.get("name") == variables.PROCESSES_PER_NODE:
            value = each.get("value")
            if isinstance(value, str) and value.isdecimal() and int(value):
                return int(value)
    return None


def _nested(value: object) -> Iterator[object]:
    """Yield the value and everything in it."""
    yield value
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for each in inside:
        yield from _nested(each)
