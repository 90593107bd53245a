"""The page that says how far off the estimate is, counted again from every published row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from slipway.jobs.estimate.evidence.bands import LEAST_ROWS, LEAST_TABLES, NEAR, Band, bands_of
from slipway.jobs.estimate.evidence.trials import Trial, trials

_OPENING = f"""\
# How far off the estimate is

Slipway predicts each row that somebody published twice: first as if nothing of its table were known, then as
if one row of its table were known, the smallest run of the same model. What the estimate would have called
itself is the row's kind:

- *measured*: another row has the same configuration; its rate is compared with this one's;
- *calibrated*: the same model at the same sequence length was measured on the same hardware;
- *predicted*: neither. The nearest model of the instance family stands in, or a prior of its class.

`slipway estimate` prints the band of a row's kind and device. A band needs {LEAST_ROWS} rows of
{LEAST_TABLES} tables; with fewer, none is printed. The last column judges the bands: a row is held if it
lies in the band that all tables but its own make.

| Kind | Device | Rows | Tables | Within {NEAR:.0%} | Nine of ten within | Held without its own table |
|---|---|--:|--:|--:|--:|--:|
"""
_MIDDLE = f"""
## By table

| Published in | Device | Kind | Rows | Within {NEAR:.0%} | Median error | Largest error |
|---|---|---|--:|--:|--:|--:|
"""
_END = """
The rows are in [tables.py](../jobs/estimate/evidence/tables.py) (the articles that Slipway follows) and
[other_rows.csv](../jobs/estimate/evidence/other_rows.csv) (other people's). Rows that an estimate cannot
be asked for are left out: those that do not print their sequence length or shape.
"""


def estimate_page() -> str:
    found = list(trials())
    bands = [_band_line(band) for band in bands_of(found) if band.rows]
    return "".join([_OPENING, *bands, _MIDDLE, *_table_lines(found), _END])


def _band_line(band: Band) -> str:
    within = "no band" if band.within is None else f"± {band.within:.0%}"
    held = f"{band.held} of {band.judged}" if band.judged else "–"
    near = f"{band.near} of {band.rows}"
    return f"| {band.word} | {band.device} | {band.rows} | {band.tables} | {near} | {within} | {held} |\n"


def _table_lines(found: Sequence[Trial]) -> Iterator[str]:
    def key(trial: Trial) -> tuple[str, str, str]:
        return trial.table, trial.device, trial.word

    for where, same in groupby(sorted(found, key=key), key):
        errors = sorted((each.error for each in same), key=abs)
        near = sum(abs(error) <= NEAR for error in errors)
        cells = [
            where[0].replace(":", "/", 1),
            *where[1:],
            str(len(errors)),
            str(near),
            f"{median(errors):+.1%}",
            f"{errors[-1]:+.1%}",
        ]
        yield f"| {' | '.join(cells)} |\n"
