"""Throughput that other people published: other_rows.csv.

Estimates stand on the nearest of these rows (nearest.py), and are judged by other tables' (trials.py). A
further row is one line of the file, with the columns of published_rows.py.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from slipway.jobs.estimate.evidence.published_rows import Published, decode_published


@lru_cache(maxsize=1)
def other_rows() -> tuple[Published, ...]:
    text = Path(__file__).with_name("other_rows.csv").read_text(encoding="utf-8")
    return decode_published(text, "other_rows.csv")
