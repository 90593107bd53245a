"""How far off estimates of a kind were, and how many lay in the range that was told with them: bands.csv.

scripts/write_docs makes the file from trials.py, where each row is estimated without its own table. What is
printed beside an estimate is its own range, by its distance from what was measured (work/spread.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path

from slipway.jobs.estimate.evidence.calibrations import WORDS
from slipway.jobs.estimate.evidence.trials import Trial
from slipway.jobs.estimate.prices import read_rows, written_rows
from slipway.jobs.estimate.work.spread import width_of
from slipway.jobs.words.catalogue.hardware import CPU, FAMILIES

SHARE = 0.9  # "nine of ten"
LEAST_ROWS, LEAST_TABLES = 10, 3  # nine rows are the fewest that a ninth decile can be told from
NEAR = 0.06  # what is counted as near in every kind, so that kinds can be compared
_PLACES = 4
_DEVICES = (CPU, *sorted({family.device for family in FAMILIES.values()}))

# What it takes to try a word on published rows, where there is none.
_NOTHING = {
    "measured": "nobody has published the same configuration twice",
    "calibrated": "nobody has published two sizes of one model",
    "predicted": "nobody has published a row",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Hold what published rows say about estimates with this word on this kind of device."""

    word: str
    device: str
    rows: int
    tables: int
    near: int  # rows that were at most NEAR off
    within: float | None  # nine of ten rows were at most so far off; None: too few rows to say
    told: float | None  # the median of what was told with them; None: no rows
    held: int  # rows that lay in the range that was told with them

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
    """Sum up all rows of which the estimate would have said this word."""

    word: str
    rows: int
    mean: float
    median: float
    ninth: float  # of ten, by size
    held: int  # in the range that was told


def errors_by_word(trials: Sequence[Trial]) -> Iterator[ErrorsOfWord]:
    from statistics import fmean, median  # estimates read the bands, and count none

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
    """Yield one band per word and device, including those without a trial."""
    for word in WORDS:
        for device in _DEVICES:
            own = [trial for trial in trials if (trial.word, trial.device) == (word, device)]
            yield _band(word, device, own)


def find_band(word: str, device: str) -> Band:
    return known_bands()[word, device]


@lru_cache(maxsize=1)
def known_bands() -> Mapping[tuple[str, str], Band]:
    text = Path(__file__).with_name("bands.csv").read_text(encoding="utf-8")
    rows = read_rows(text, "bands.csv", _COLUMNS, _decode, most=len(WORDS) * len(_DEVICES))
    return {(row.word, row.device): row for row in rows}


def encode_bands(bands: Iterable[Band]) -> str:
    return written_rows(_COLUMNS, map(asdict, bands))


def _band(word: str, device: str, trials: Sequence[Trial]) -> Band:
    from statistics import median

    told = median(trial.spread for trial in trials) if trials else None
    return Band(
        word=word,
        device=device,
        rows=len(trials),
        tables=len({trial.table for trial in trials}),
        near=sum(abs(trial.error) <= NEAR for trial in trials),
        within=_within(trials),
        told=None if told is None else round(math.expm1(told), _PLACES),
        held=sum(trial.is_held for trial in trials),
    )


def _within(trials: Sequence[Trial]) -> float | None:
    """Return the smallest band that a further row like these stays in nine times of ten (split-conformal
    quantile).

    It is rounded up, so that the rows which it is made of lie in what is printed.
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


# How wide a range has to be: a quantile of rows' errors, each in units of its distance. Where an accelerator
# has enough rows, it is of its own, rows weighing half and tables half: who asks brings a table of his own.
# Elsewhere it is of all rows, and a table counts as one, however many rows it prints.
_OWN_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Count the rows that lay in ranges whose width was told by all other tables."""

    rows: int
    held: int
    held_of_a_table: float  # on average over tables


def widths(trials: Sequence[Trial]) -> Mapping[str, float]:
    """Return the factor of a distance for each accelerator with rows enough, and as "" for all others."""
    found = {"": _quantile(trials, of_rows=0.0)}
    for accelerator in sorted({trial.accelerator for trial in trials}):
        own = [trial for trial in trials if trial.accelerator == accelerator]
        if len(own) >= _OWN_ROWS and len({trial.table for trial in own}) >= LEAST_TABLES:
            found[accelerator] = _quantile(own, of_rows=0.5)
    return found


def _quantile(trials: Sequence[Trial], *, of_rows: float) -> float:
    """Return the factor within which nine tenths of the errors are, rows having this share of the weight."""
    rows = Counter(trial.table for trial in trials)
    below = 0.0
    for trial in sorted(trials, key=_score):
        below += of_rows / len(trials) + (1 - of_rows) / len(rows) / rows[trial.table]
        if below >= SHARE:
            return _score(trial)
    raise AssertionError("all rows weigh 1")


def left_out(trials: Sequence[Trial]) -> LeftOut:
    """Judge each table by the widths that the others give."""
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
    """Return how many rows lay in the range that was told, of how many, where an accelerator has enough."""
    rows = Counter(trial.accelerator for trial in trials)
    held = Counter(trial.accelerator for trial in trials if trial.is_held)
    return {name: (held[name], count) for name, count in sorted(rows.items()) if count >= _OWN_ROWS}


def median_width(trials: Sequence[Trial]) -> float:
    """Return the farther end of the median range, as a share."""
    from statistics import median

    return math.expm1(median(trial.spread for trial in trials))


def _score(trial: Trial) -> float:
    return width_of(trial.accelerator) * abs(math.log(trial.predicted / trial.published)) / trial.spread
