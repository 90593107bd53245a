"""What `slipway calibrate --published` and `slipway.calibrate` share: rates of a CSV file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.named_files import UnusableFile, read_text
from slipway.jobs.estimate.evidence.calibrations import find_calibration
from slipway.jobs.estimate.evidence.nearest import can_be_followed
from slipway.jobs.estimate.evidence.own_rows import Evidence
from slipway.jobs.estimate.evidence.published_rows import (
    Published,
    decode_published,
    encode_published,
    refuse_impossible,
)
from slipway.jobs.estimate.inputs.own_data import PUBLISHED, Unreadable, measurements, own_path, update
from slipway.jobs.estimate.work.rate import throughput

_MOST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRow:
    """Hold one row that was read, and what is predicted for its configuration without and with the file."""

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
    is_followed: bool  # false: faster than the model can explain, so it counts for its own size alone


def calibrate(published: str | Path, *, dry_run: bool = False) -> tuple[LearnedRow, ...]:
    """Let estimates stand on the rates of a CSV file, too; return what each changes.

    A file with one row that cannot be used is refused whole, with every mistake. Rows that were read before
    are replaced. With `dry_run`, nothing is stored.
    """
    path = Path(published)
    try:
        text = read_text(path, _MOST_BYTES)
    except UnusableFile as error:
        raise Unreadable(error.message, hint=error.hint) from None
    rows = decode_published(text, str(path), refuse_impossible)
    known = measurements()
    after = Evidence(known, _joined(known.published, rows))
    if not dry_run:
        update(PUBLISHED, lambda old: encode_published(_joined(_stored(old), rows)))
    return tuple(_learned(row, known, after) for row in rows)


def _stored(text: str) -> tuple[Published, ...]:
    return decode_published(text, str(own_path(PUBLISHED))) if text else ()


def _joined(old: tuple[Published, ...], new: tuple[Published, ...]) -> tuple[Published, ...]:
    """Return all rows; of those that differ in nothing but the rate, the last one."""
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
