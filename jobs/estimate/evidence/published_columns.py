"""The columns of a CSV of published rates: how each is read, and what is allowed in it.

A further column is one row of COLUMNS, and its use in published_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from slipway.jobs.estimate.evidence.named_hardware import HARDWARE, PRECISIONS, is_hardware
from slipway.jobs.estimate.work.shapes import (
    CHECKPOINTING,
    LARGEST_AMOUNT,
    LARGEST_COUNT,
    SCHEDULES,
    SHARDINGS,
)

_TRUTHS = {"yes": True, "no": False}
RATES = ("sequences_per_second", "tokens_per_second")  # of which a row has one, or both


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReader:
    """Say how a column is read; `read` gives None for what is not allowed."""

    read: Callable[[str], object]
    allowed: str
    is_required: bool = False


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= LARGEST_COUNT else None


def _number(least: float, most: float) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        try:
            value = float(text)
        except ValueError:
            return None
        return value if least <= value <= most else None  # false for nan, too

    return read


def _one_of(words: Iterable[str]) -> Callable[[str], str | None]:
    allowed = frozenset(words)
    return lambda text: text if text in allowed else None


_COUNT = ColumnReader(read=_count, allowed=f"a whole number from 1 to {LARGEST_COUNT:,}")
RATE = ColumnReader(
    read=_number(1e-9, LARGEST_AMOUNT), allowed=f"a number above 0 and below {LARGEST_AMOUNT:g}"
)
_TRUTH = ColumnReader(read=_TRUTHS.get, allowed="yes and no")
_ANY_TEXT = ColumnReader(read=str, allowed="any text")
_SHARE = ColumnReader(read=_number(0.0, 1.0), allowed="a number from 0 to 1")
_BYTES = ColumnReader(read=_number(0.25, 16.0), allowed="a number from 0.25 to 16")
_ALL_PRECISIONS = tuple(dict.fromkeys(name for known in PRECISIONS.values() for name in known))


def _words(words: Iterable[str]) -> ColumnReader:
    return ColumnReader(read=_one_of(words), allowed=", ".join(words))


COLUMNS: Mapping[str, ColumnReader] = {
    "table": _ANY_TEXT,
    "hardware": ColumnReader(
        read=lambda text: text if is_hardware(text) else None,
        allowed=f"types that `slipway instances` lists, and {', '.join(sorted(HARDWARE))}",
        is_required=True,
    ),
    "precision": _words(_ALL_PRECISIONS),
    "model": replace(_ANY_TEXT, is_required=True),
    **dict.fromkeys(("layers", "hidden_size", "heads", "feed_forward", "vocabulary"), _COUNT),
    "sequence_length": _COUNT,
    "causal": _TRUTH,
    "gated": _TRUTH,
    "key_value_heads": _COUNT,
    "head_share": _SHARE,
    "parameters": ColumnReader(read=_number(1.0, LARGEST_AMOUNT), allowed="a number of 1 or more"),
    "nodes": replace(_COUNT, is_required=True),
    "devices": _COUNT,
    "micro_batch": replace(_COUNT, is_required=True),
    **dict.fromkeys(("global_batch", "tensor", "pipeline"), _COUNT),
    "sharding": _words(SHARDINGS),
    "schedule": _words(SCHEDULES),
    "checkpointing": _words(CHECKPOINTING),
    "gradient_bytes": _BYTES,
    **dict.fromkeys(RATES, RATE),
    "own": _TRUTH,
}
