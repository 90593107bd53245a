"""Reads how far off estimates were, and how many rates were in their printed ranges, from bands.csv.

scripts/write_docs makes the file from trials.py, where each row is estimated without its own table. The range
that is printed with an estimate is another: it depends on the distance from the nearest measurement
(work/spread.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import product
from pathlib import Path

from slipway.jobs.estimate.evidence.calibrations import WORDS
from slipway.jobs.estimate.evidence.trials import Trial
from slipway.jobs.estimate.prices import read_rows, written_rows
from slipway.jobs.estimate.work.spread import width_of
from slipway.jobs.words.catalogue.hardware import CPU, FAMILIES

SHARE = 0.9  # "nine of ten"
LEAST_ROWS, LEAST_TABLES = 10, 3  # a ninth decile needs at least nine rows
NEAR = 0.06  # the same for all words, so that they can be compared
_PLACES = 4
_DEVICES = (CPU, *sorted({family.device for family in FAMILIES.values()}))

# Reason by word, if no published rows can test it.
_NOTHING = {
    "measured": "nobody has published the same configuration twice",
    "calibrated": "nobody has published two sizes of one model",
    "predicted": "nobody has published a row",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Hold what published rows show about estimates of this word on this kind of device."""

    word: str
    device: str
    rows: int
    tables: int
    near: int  # rows that were at most NEAR off
    within: float | None  # nine of ten rows were at most this far off; None: too few rows
    told: float | None  # the median width of the ranges printed for them; None: no rows
    held: int  # rows within the range printed for them

    @property
    def words(self) -> str:
        if not self.rows:
            return f"{_NOTHING[self.word]} on {self.device}"
        text = f"{self.held} of {self.rows} published rows of {self.tables} tables lay in the range that "
        text += f"was told without their own table, ± {self.told:.0%} in the median; "
        if self.within is not None:
            text += f"nine of ten were within ± {self.within:.0%}, "
        return f"{text}{self.near} of {self.rows} within ± {NEAR:.0%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsOfWord:
    """Sum up all rows whose estimate would have this word."""

    word: str
    rows: int
    mean: float
    median: float
    ninth: float  # nine of ten rows are at most this far off
    held: int  # rows within the range printed for them


def errors_by_word(trials: Sequence[Trial]) -> Iterator[ErrorsOfWord]:
    from statistics import fmean, median  # estimates only read bands, and need no statistics

    for word in WORDS:
        own = [trial for trial in trials if trial.word == word]
        errors = sorted(abs(trial.error) for trial in own)
        if errors:
            yield ErrorsOfWord(
                word=word,
                rows=len(own),
                mean=fmean(errors),
                median=median(errors),
                ninth=errors[math.ceil(0.9 * len(errors)) - 1],
                held=sum(trial.is_held for trial in own),
            )


def bands_of(trials: Sequence[Trial]) -> Iterator[Band]:
    """Yield one band for each word and device, including those without a trial."""
    from statistics import median

    for word, device in product(WORDS, _DEVICES):
        own = [trial for trial in trials if (trial.word, trial.device) == (word, device)]
        told = median(trial.spread for trial in own) if own else None
        yield Band(
            word=word,
            device=device,
            rows=len(own),
            tables=len({trial.table for trial in own}),
            near=sum(abs(trial.error) <= NEAR for trial in own),
            within=_within(own),
            told=None if told is None else round(math.expm1(told), _PLACES),
            held=sum(trial.is_held for trial in own),
        )


def find_band(word: str, device: str) -> Band:
    return known_bands()[word, device]


@lru_cache(maxsize=1)
def known_bands() -> Mapping[tuple[str, str], Band]:
    text = Path(__file__).with_name("bands.csv").read_text(encoding="utf-8")
    rows = read_rows(text, "bands.csv", _COLUMNS, _decode, most=len(WORDS) * len(_DEVICES))
    return {(row.word, row.device): row for row in rows}


def encode_bands(bands: Iterable[Band]) -> str:
    return written_rows(_COLUMNS, map(asdict, bands))


def _within(trials: Sequence[Trial]) -> float | None:
    """Return the smallest band in which a new row like these lies nine times of ten (split-conformal
    quantile).

    It is rounded up, so that the rows from which it is made lie within the printed number.
    """
    if len(trials) < LEAST_ROWS or len({trial.table for trial in trials}) < LEAST_TABLES:
        return None
    errors = sorted(abs(trial.error) for trial in trials)
    place = math.ceil((len(trials) + 1) * SHARE)
    scale = 10.0**_PLACES
    return math.ceil(errors[place - 1] * scale) / scale


_COLUMNS = tuple(field.name for field in fields(Band))


def _decode(row: Mapping[str, str | None], _where: str) -> Band:
    text = {name: value or "" for name, value in row.items()}
    return Band(
        word=text["word"],
        device=text["device"],
        rows=int(text["rows"]),
        tables=int(text["tables"]),
        near=int(text["near"]),
        within=float(text["within"]) if text["within"] else None,
        told=float(text["told"]) if text["told"] else None,
        held=int(text["held"]),
    )


# The width that a range needs: a quantile of rows' errors, each divided by its distance. An accelerator with
# enough rows has its own, in which rows weigh half and tables half, since a user asks about a new table. All
# others share one over all rows, in which each table weighs the same, however many rows it has.
_OWN_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Count the rows in ranges whose width was computed from all other tables."""

    rows: int
    held: int
    held_of_a_table: float  # mean over tables


def widths(trials: Sequence[Trial]) -> Mapping[str, float]:
    """Return the factor of a distance by accelerator, if it has enough rows; "" is for all others."""
    found = {"": _quantile(trials, of_rows=0.0)}
    for accelerator in sorted({trial.accelerator for trial in trials}):
        own = [trial for trial in trials if trial.accelerator == accelerator]
        if len(own) >= _OWN_ROWS and len({trial.table for trial in own}) >= LEAST_TABLES:
            found[accelerator] = _quantile(own, of_rows=0.5)
    return found


def _quantile(trials: Sequence[Trial], *, of_rows: float) -> float:
    """Return the factor within which nine tenths of the errors are; rows have this share of the weight."""
    rows = Counter(trial.table for trial in trials)
    below = 0.0
    for trial in sorted(trials, key=_score):
        below += of_rows / len(trials) + (1 - of_rows) / len(rows) / rows[trial.table]
        if below >= SHARE:
            return _score(trial)
    raise AssertionError("all rows weigh 1")


def left_out(trials: Sequence[Trial]) -> LeftOut:
    """Judge each table by the widths that the other tables give."""
    from statistics import fmean

    held: dict[str, list[bool]] = {}
    for table in dict.fromkeys(trial.table for trial in trials):
        told = widths([trial for trial in trials if trial.table != table])
        own = (trial for trial in trials if trial.table == table)
        held[table] = [_score(trial) <= told.get(trial.accelerator, told[""]) for trial in own]
    return LeftOut(
        rows=len(trials),
        held=sum(sum(rows) for rows in held.values()),
        held_of_a_table=fmean(fmean(rows) for rows in held.values()),
    )


def held_by_accelerator(trials: Sequence[Trial]) -> Mapping[str, tuple[int, int]]:
    """Return, for each accelerator with enough rows, how many were in the printed range, and of how many."""
    rows = Counter(trial.accelerator for trial in trials)
    held = Counter(trial.accelerator for trial in trials if trial.is_held)
    return {name: (held[name], count) for name, count in sorted(rows.items()) if count >= _OWN_ROWS}


def median_width(trials: Sequence[Trial]) -> float:
    """Return the farther end of the median range, as a share."""
    from statistics import median

    return math.expm1(median(trial.spread for trial in trials))


def _score(trial: Trial) -> float:
    return width_of(trial.accelerator) * abs(math.log(trial.predicted / trial.published)) / trial.spread
