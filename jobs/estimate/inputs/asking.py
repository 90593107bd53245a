"""The common part of `slipway estimate` and `slipway.estimate`: one job, in one place, at one or more sizes.

Also that of `slipway calibrate --published` and `slipway.calibrate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.named_files import UnusableFile, read_text
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import Estimate, PricedHardware
from slipway.jobs.estimate.estimates import estimate as estimate_size
from slipway.jobs.estimate.evidence.calibrations import find_calibration
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.evidence.nearest import Evidence, can_be_followed
from slipway.jobs.estimate.evidence.published_rows import (
    Published,
    check_of_new_rows,
    decode_published,
    encode_published,
)
from slipway.jobs.estimate.inputs.own_data import PUBLISHED, Unreadable, measurements, own_path, rates, update
from slipway.jobs.estimate.inputs.places import find_place
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.estimate.prices import ON_DEMAND
from slipway.jobs.estimate.work.rate import throughput
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.words.given import checked

USUAL_SIZES = (1, 2, 4, 8)


@checked
def estimate(
    recipe: str,
    *,
    on: str,
    nodes: int | Sequence[int] | None = None,
    settings: Mapping[str, str] | None = None,
    term: str = ON_DEMAND,
    region: str | None = None,
) -> tuple[Estimate, ...]:
    """Estimate a recipe or a model on a cluster or an instance type: one row for each size.

    `term` and `region` choose the price: "on-demand", "spot", "capacity-block", "1-year" or "3-year".

    A model is a name, the path of a config.json, or "decoder" or "encoder" with its sizes as settings.

    A size in `nodes` that cannot work is refused with the nearest that does. Without `nodes`, the rows are
    those of 1, 2, 4 and 8 nodes that work.
    """
    workload = workload_of(recipe, settings or {})
    place = find_place(on, rates(), region=region, term=term)
    known = measurements()
    if nodes is None:
        return tuple(estimate_usual_sizes(workload, place, known)[0])
    sizes = (nodes,) if isinstance(nodes, int) else sorted(set(nodes))
    if not sizes:
        raise CannotEstimate("no size is asked for: nodes is empty", hint="such as nodes=(1, 8)")
    return tuple(estimate_size(workload, place, size, known) for size in sizes)


def estimate_usual_sizes(
    workload: Workload, place: PricedHardware, known: Sequence[Measurement]
) -> tuple[list[Estimate], dict[int, CannotEstimate]]:
    """Return the usual sizes that work, and why each of the others does not; refuse if none works."""
    usual = [size for size in USUAL_SIZES if size <= place.most_nodes]
    return estimate_what_works(workload, place, usual, known)


def estimate_what_works(
    workload: Workload, place: PricedHardware, sizes: Sequence[int], known: Sequence[Measurement]
) -> tuple[list[Estimate], dict[int, CannotEstimate]]:
    """Return the sizes that work, and why each of the others does not; refuse if none works."""
    found: list[Estimate] = []
    refused: dict[int, CannotEstimate] = {}
    for size in sizes:
        try:
            found.append(estimate_size(workload, place, size, known))
        except CannotEstimate as error:
            refused[size] = error
    if not found:
        raise next(iter(refused.values()))
    return found, refused


# The common part of `slipway calibrate --published` and `slipway.calibrate`: rates of a CSV file.
_MOST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRow:
    """Hold one row that was read, and what is predicted for it without and with the file."""

    table: str
    hardware: str
    model: str
    nodes: int
    devices: int
    sequences_per_second: float
    before: float
    after: float
    word: str  # of its estimate from now on
    basis: str  # of that estimate
    is_followed: bool  # False: faster than the model can explain, so it counts for its own size alone


@checked
def calibrate(published: str | Path, *, dry_run: bool = False) -> tuple[LearnedRow, ...]:
    """Base estimates also on the rates of a CSV file; return what each rate changes.

    A file with one unusable row is refused as a whole, with every mistake. Rows that were read before are
    replaced. With `dry_run`, nothing is stored.
    """
    path = Path(published)
    try:
        text = read_text(path, _MOST_BYTES)
    except UnusableFile as error:
        raise Unreadable(error.message, hint=error.hint) from None
    rows = decode_published(text, str(path), check_of_new_rows())
    known = measurements()
    after = Evidence(known, _joined(known.published, rows))

    def add(text: str) -> str:
        old = decode_published(text, str(own_path(PUBLISHED))) if text else ()
        return encode_published(_joined(old, rows))

    if not dry_run:
        update(PUBLISHED, add)
    return tuple(_learned(row, known, after) for row in rows)


def _joined(old: tuple[Published, ...], new: tuple[Published, ...]) -> tuple[Published, ...]:
    """Return all rows; of rows that differ only in the rate, the last one."""
    return tuple({row.key: row for row in (*old, *new)}.values())


def _learned(row: Published, before: Evidence, after: Evidence) -> LearnedRow:
    now = find_calibration(after, row.asked)
    return LearnedRow(
        table=row.table,
        hardware=row.asked.instance,
        model=row.asked.model_name,
        nodes=row.asked.cluster.nodes,
        devices=row.asked.cluster.devices,
        sequences_per_second=row.sequences_per_second,
        before=_told(row, before),
        after=_told(row, after),
        word=now.word,
        basis=now.basis,
        is_followed=can_be_followed(row),
    )


def _told(row: Published, known: Evidence) -> float:
    of = row.asked
    found = find_calibration(known, of)
    if found.measured is not None:
        return found.measured.sequences_per_second
    return round(throughput(of.model, of.cluster, of.layout, found.calibration).sequences_per_second, 4)
