"""Reads the user's own measurements, published rows and prices: CSV files in $XDG_CONFIG_HOME/slipway.

They take precedence over ours. Another file is one OwnFile. `slipway instance refresh-prices` has a file of
its own, apart from the user's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime import disk
from slipway.containers.runtime.named_files import MissingFile, UnusableFile, read_text
from slipway.jobs.estimate.evidence.measurements import Measurement, decode_measurements, our_measurements
from slipway.jobs.estimate.evidence.nearest import Evidence
from slipway.jobs.estimate.evidence.published_rows import decode_published
from slipway.jobs.estimate.prices import Rate, decode_rates, known_rates
from slipway.jobs.words.errors import SlipwayError

_MOST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFile:
    name: str
    variable: str  # environment variable that names another path


CALIBRATION = OwnFile(name="calibration.csv", variable="SLIPWAY_CALIBRATION")
PUBLISHED = OwnFile(name="published.csv", variable="SLIPWAY_PUBLISHED")
PRICES = OwnFile(name="prices.csv", variable="SLIPWAY_PRICES")
REFRESHED_PRICES = OwnFile(name="prices-refreshed.csv", variable="SLIPWAY_REFRESHED_PRICES")


class Unreadable(SlipwayError):
    """The file exists and cannot be used."""

    exit_code = 2


def own_path(file: OwnFile) -> Path:
    if named := os.environ.get(file.variable):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "slipway" / file.name


def own_measurements() -> tuple[Measurement, ...]:
    text = _read(CALIBRATION)
    return decode_measurements(text, str(own_path(CALIBRATION))) if text else ()


def measurements(*, without_run: tuple[str, str] | None = None) -> Evidence:
    """Return the user's measurements, ours that they do not replace, and the user's published rows.

    The run of the name and id `without_run` is left out: compared with itself, any run would be as predicted.
    """
    from slipway.jobs.estimate.evidence.calibrations import merged

    own = [row for row in own_measurements() if without_run is None or row.run != without_run]
    text = _read(PUBLISHED)
    published = decode_published(text, str(own_path(PUBLISHED))) if text else ()
    return Evidence(merged(our_measurements(), own), published)


def own_rates(file: OwnFile = PRICES) -> tuple[Rate, ...]:
    text = _read(file)
    return decode_rates(text, str(own_path(file))) if text else ()


def rates() -> tuple[Rate, ...]:
    """Return the user's prices, then those of the last refresh, then ours: the first match wins."""
    return known_rates((*own_rates(PRICES), *own_rates(REFRESHED_PRICES)))


def update(file: OwnFile, change: Callable[[str], str]) -> Path:
    """Change a file under a lock, atomically: `change` gets the old text and returns the new."""
    path = own_path(file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk.alone(path.with_name(f".{path.name}.lock")):
            disk.replace_file(path, change(_read(file)).encode(), token=str(os.getpid()))
    except OSError as error:
        raise Unreadable(
            f"{path}: {error.strerror or error}", hint="make it a file that you may use"
        ) from None
    return path


def _read(file: OwnFile) -> str:
    path = own_path(file)
    try:
        return read_text(path, _MOST_BYTES)
    except MissingFile:
        if os.environ.get(file.variable):
            raise Unreadable(
                f"{file.variable} names {path}, which is not there",
                hint=f"correct or unset {file.variable}",
            ) from None
        return ""
    except UnusableFile as error:
        raise Unreadable(error.message, hint=error.hint) from None
