"""The page that says how far off the estimate is, counted again from every published row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from scripts.page_templates import filled, table
from slipway.jobs.estimate.evidence.bands import (
    NEAR,
    Band,
    ErrorsOfWord,
    bands_of,
    errors_by_word,
    held_by_accelerator,
    left_out,
    median_width,
)
from slipway.jobs.estimate.evidence.published_rows import COLUMNS, RATES
from slipway.jobs.estimate.evidence.trials import Trial, trials


def estimate_page() -> str:
    found = list(trials())
    return filled(
        "estimate",
        near=f"{NEAR:.0%}",
        by_word=table(map(_errors, errors_by_word(found))),
        by_device=table(_cells_of_band(band) for band in bands_of(found) if band.rows),
        by_table=table(_tables(found)),
        judged=_judged(found),
        columns=table((f"`{name}`{_needed(name)}", column.allowed) for name, column in COLUMNS.items()),
    )


def _judged(found: Sequence[Trial]) -> str:
    own = left_out(found)
    held = (f"{name} {of} of {rows}" for name, (of, rows) in held_by_accelerator(found).items())
    return (
        f"With the width that all other tables give, ranges held {own.held} of {own.rows} rows, "
        f"{own.held / own.rows:.1%}, and\n{own.held_of_a_table:.1%} of a table's rows on average; the "
        f"median range is ± {median_width(found):.0%}. The widths that are told held\n{', '.join(held)}."
    )


def _needed(name: str) -> str:
    if name in RATES:
        return ", one of the two"
    return ", required" if COLUMNS[name].is_required else ""


def _errors(own: ErrorsOfWord) -> tuple[object, ...]:
    shares = (f"{share:.1%}" for share in (own.mean, own.median, own.ninth))
    return own.word, own.rows, *shares, f"{own.held} of {own.rows}"


def _cells_of_band(band: Band) -> tuple[object, ...]:
    within = "too few" if band.within is None else f"± {band.within:.0%}"
    counted = (band.word, band.device, band.rows, band.tables, f"{band.near} of {band.rows}")
    return *counted, within, f"± {band.told:.0%}", f"{band.held} of {band.rows}"


def _tables(found: Sequence[Trial]) -> Iterator[tuple[object, ...]]:
    def key(trial: Trial) -> tuple[str, str, str]:
        return trial.table, trial.device, trial.word

    for where, same in groupby(sorted(found, key=key), key):
        errors = sorted((each.error for each in same), key=abs)
        near = sum(abs(error) <= NEAR for error in errors)
        shares = (f"{median(errors):+.1%}", f"{errors[-1]:+.1%}")
        yield where[0].replace(":", "/", 1), *where[1:], len(errors), near, *shares
