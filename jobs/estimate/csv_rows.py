"""Reads rows that people may write by hand: every mistake names the file and the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from slipway.jobs.estimate.errors import CannotEstimate

Row = TypeVar("Row")


def read_rows(
    text: str,
    where: str,
    columns: Sequence[str],
    decode: Callable[[Mapping[str, str | None], str], Row],
    *,
    most: int,
) -> tuple[Row, ...]:
    """Decode every line of a CSV text. `decode` gets a line's values, and the words that say where it
    stands."""
    reader = csv.DictReader(io.StringIO(text))
    if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
        raise CannotEstimate(
            f"{where} lacks the column {', '.join(missing)}",
            hint=f"its first line must be {','.join(columns)}",
        )
    rows: list[Row] = []
    for row in reader:
        if len(rows) >= most:
            raise CannotEstimate(f"{where} has more than {most} rows", hint="is it the right file?")
        rows.append(decode(row, f"{where}, line {reader.line_num}"))
    return tuple(rows)
