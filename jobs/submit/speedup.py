"""Compares finished runs of one recipe with the same settings by size: how much faster more nodes were.

Adds the speed-ups that were published for such a cluster and those that the estimate predicts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import PricedHardware, estimate
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.evidence.tables import TABLES, Row
from slipway.jobs.estimate.hardware import family_of
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.submit.curve import points
from slipway.jobs.submit.rate import LEAST_STEPS, settings_of, steady_rate
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import AnyFound, JobState

PLOT_COLUMNS = 40  # length of a speed-up that equals the largest run's number of nodes
MEASURED, IDEAL, ESTIMATED = "█", "│", "◆"


class NothingToCompare(SlipwayError):
    """There is no run on one node, or none on several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Hold what a comparison needs of one run."""

    nodes: int
    job: str
    seconds: float | None  # of the whole job, as the article counts
    examples_per_second: float
    steps: int  # counted in the rate; 0: too few after the warm-up, so the rate counts all


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    nodes: int
    job: str
    seconds: float | None
    examples_per_second: float
    speedup: float
    efficiency: float
    published: float | None
    estimated: float | None
    is_short: bool  # too few steps to say much
    plot: str


def chosen(
    finished: Sequence[AnyFound], recipe: str, asked: Mapping[str, str], target: str
) -> tuple[dict[str, str], list[AnyFound]]:
    """Choose the newest run of each size with the given settings, or with those that ran at the most sizes.

    `finished` comes with the newest first.
    """
    own = [
        each
        for each in finished
        if each.run.recipe == recipe and each.run.nodes and each.run.state is JobState.SUCCEEDED
    ]
    groups: dict[tuple[tuple[str, str], ...], dict[int, AnyFound]] = {}
    for each in own:
        settings = settings_of(each.detail)
        if asked.items() <= settings.items():
            sizes = groups.setdefault(tuple(sorted(settings.items())), {})
            sizes.setdefault(each.run.nodes or 0, each)
    # max keeps the first of equals, which is the newest; a group without a run on one node is of no use.
    best = max(groups, key=lambda key: (1 in groups[key], len(groups[key])), default=None)
    if best is None or 1 not in groups[best]:
        settings = dict(asked) if best is None else dict(best)
        raise NothingToCompare(
            f"no run of {recipe} on one node of '{target}' has succeeded"
            + (f" with {', '.join(map('='.join, settings.items()))}" if settings else ""),
            hint=f"submit it: {submit_line(recipe, target, 1, settings)}",
        )
    return dict(best), [groups[best][nodes] for nodes in sorted(groups[best])]


def sample(found: AnyFound, lines: Iterable[str]) -> Sample:
    run = found.run
    curve = points(lines)
    rate, steps = steady_rate(curve)
    if not steps:  # none after the warm-up, so the rate over all counts
        told = [point.sequences_per_second for point in curve if point.sequences_per_second]
        rate = len(told) / sum(1 / each for each in told) if told else 0.0
    if not rate:
        raise NothingToCompare(
            f"job '{run.name}' has reported no step",
            hint=f"read its log: slipway logs {run.name}",
        )
    return Sample(
        nodes=run.nodes or 0,
        job=run.name,
        seconds=None if run.hours is None else run.hours * 3600,
        examples_per_second=rate,
        steps=steps,
    )


def compare(
    samples: Sequence[Sample],
    published: Mapping[int, float],
    estimated: Mapping[int, float],
) -> list[Line]:
    alone = next(each for each in samples if each.nodes == 1)
    most = max(each.nodes for each in samples)
    lines = []
    for each in samples:
        speedup = each.examples_per_second / alone.examples_per_second
        line = Line(
            nodes=each.nodes,
            job=each.job,
            seconds=each.seconds,
            examples_per_second=each.examples_per_second,
            speedup=speedup,
            efficiency=speedup / each.nodes,
            published=published.get(each.nodes),
            estimated=estimated.get(each.nodes),
            is_short=each.steps < LEAST_STEPS,
            plot=plot(speedup, each.nodes, estimated.get(each.nodes), most),
        )
        lines.append(line)
    return lines


def plot(speedup: float, nodes: int, estimated: float | None, most: int) -> str:
    """Draw a bar from zero, with marks for ideal and estimate, scaled to the largest run."""
    cells = [" "] * (PLOT_COLUMNS + 1)
    end = min(PLOT_COLUMNS, round(speedup / most * PLOT_COLUMNS))
    cells[:end] = MEASURED * end
    if estimated is not None:
        cells[min(PLOT_COLUMNS, round(estimated / most * PLOT_COLUMNS))] = ESTIMATED
    cells[round(nodes / most * PLOT_COLUMNS)] = IDEAL
    return "".join(cells).rstrip()


def published_speedups(workload: Workload, instance: str) -> tuple[str, dict[int, float]]:
    """Return source and speed-ups by nodes of the published table for this workload and instance family."""
    family = family_of(instance)
    own = [table for table in TABLES.values() if family_of(table.instance) == family]
    named = [table for table in own if workload.task and table.name.rpartition("/")[2] == workload.task]
    table = next(iter(named or [table for table in own if table.model == workload.model_name]), None)
    if table is None or table.rows[0].nodes != 1:
        return "", {}
    first = table.rows[0]
    return table.source, {row.nodes: _faster(row, first) for row in table.rows}


def estimated_speedups(
    workload: Workload, place: PricedHardware, sizes: Sequence[int], rows: Sequence[Measurement]
) -> dict[int, float]:
    """Return predicted speed-ups, even for measured sizes: a measured one would be compared with itself."""
    try:
        rates = {
            nodes: estimate(workload, place, nodes, rows).predicted_sequences_per_second
            for nodes in {1, *sizes}
        }
    except CannotEstimate:
        return {}
    return {nodes: rate / rates[1] for nodes, rate in rates.items()}


def submit_line(recipe: str, target: str, nodes: int, settings: Mapping[str, str]) -> str:
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return shlex.join(["slipway", "submit", recipe, "--on", target, "--nodes", str(nodes), *words])


def _faster(row: Row, first: Row) -> float:
    if row.seconds is not None and first.seconds is not None:
        return first.seconds / row.seconds
    assert row.sequences_per_second is not None
    assert first.sequences_per_second is not None
    return row.sequences_per_second / first.sequences_per_second
