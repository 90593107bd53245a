"""The faults of a yard that are switched on by name, each with one number. To add one: a row of switches.csv.

Its effect is implemented where its value is read, as in `conditions.value("launch-delay")`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

LARGEST_SEED = 2**63 - 1


class BadFault(ValueError):
    """Says why a fault cannot be switched on as requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One fault by name. Its value is 0 where it is off."""

    name: str
    does: str
    unit: str
    default: float  # the value of NAME without one
    most: float
    in_chaos: float  # the value of `--chaos SEED`: noticeable, but jobs still get through


_TABLE = Path(__file__).with_name("switches.csv").read_text(encoding="utf-8")
SWITCHES: Mapping[str, Switch] = {
    row["name"]: Switch(
        name=row["name"],
        does=row["does"],
        unit=row["unit"],
        default=float(row["default"]),
        most=float(row["most"]),
        in_chaos=float(row["in_chaos"]),
    )
    for row in csv.DictReader(_TABLE.splitlines())
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenFaults:
    """Holds the faults and the seed that a yard is started with."""

    seed: int
    values: Mapping[str, float]

    def arguments(self) -> list[str]:
        """Return the same choice as arguments of the yard's command line."""
        given = [word for name, value in self.values.items() for word in ("--fault", f"{name}={value:g}")]
        return ["--seed", str(self.seed), *given]


def choose(chaos: str | None, words: Iterable[str]) -> ChosenFaults | None:
    """Return all faults if there is a seed `chaos`, changed by those in `words`; None if there are none."""
    seed = checked_seed(chaos) if chaos is not None else 0
    everything = {name: switch.in_chaos for name, switch in SWITCHES.items()} if chaos is not None else {}
    values = {**everything, **decode(words)}
    return ChosenFaults(seed=seed, values=values) if values else None


def decode(words: Iterable[str]) -> dict[str, float]:
    """Return the value of each NAME or NAME=VALUE; raise BadFault if one is wrong."""
    return dict(_decoded(word) for word in words)


def checked_value(name: str, value: float) -> tuple[str, float]:
    """Return the name and its value; raise BadFault if the value is not allowed."""
    switch = _switch(name)
    if not math.isfinite(value) or not 0 <= value <= switch.most:
        allowed = f"0 (off) to {switch.most:g} {switch.unit}"
        raise BadFault(f"fault '{name}' is {value:g}; allowed are {allowed} ({switch.does})")
    return name, value


def checked_seed(text: str) -> int:
    """Return the seed that was given as text; raise BadFault if it is no whole number."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20) or int(text) > LARGEST_SEED:
        raise BadFault(f"the seed is '{text[:40]}'; allowed are whole numbers from 0 to {LARGEST_SEED}")
    return int(text)


def _decoded(word: str) -> tuple[str, float]:
    name, separator, text = word.partition("=")
    switch = _switch(name)
    if not separator:
        return name, switch.default
    try:
        return checked_value(name, float(text))
    except BadFault:
        raise
    except ValueError:
        raise BadFault(
            f"fault '{name}' is '{text[:40]}', which is no number; "
            f"allowed are 0 (off) to {switch.most:g} {switch.unit}, as in {name}={switch.default:g}"
        ) from None


def _switch(name: str) -> Switch:
    if name in SWITCHES:
        return SWITCHES[name]
    close = get_close_matches(name, SWITCHES, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise BadFault(f"there is no fault '{name[:40]}'; {meant}there are {', '.join(SWITCHES)}")
