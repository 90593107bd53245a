"""Print the size of the house: lines and files of each room, and the tests. `python -m scripts.house`.

A file of one or two lines is an empty package. To count another room, add a row with its goal to GOALS.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slipway.jobs.output import Column, print_table

ROOT = Path(__file__).resolve().parent.parent
# The goal for the lines of each room; a room without a goal is counted, too.
GOALS: Mapping[str, int | None] = {
    "jobs": 37_000,
    "yard": 38_500,
    "containers": 22_500,
    "infra": 10_000,
    "scripts": 5_000,
    "slipway": None,
    "tests": 58_000,
}
MOST_PRODUCT_FILES = 800
_COLUMNS = [
    Column(name="room"),
    Column(name="files", align="right"),
    Column(name="lines", align="right"),
    Column(name="goal", align="right", absent="-"),
    Column(name="median", title="median file", align="right"),
    Column(name="p90", title="nine in ten files", align="right"),
    Column(name="longest", title="longest file", align="right"),
]


def sizes(rooms: Sequence[str]) -> list[int]:
    """Return the lines of each Python file of the rooms, sorted, without files of one or two lines."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *rooms], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name.endswith(".py")]
    counts = [path.read_text(encoding="utf-8").count("\n") for path in paths]
    return sorted(count for count in counts if count > 2)


def rows() -> Iterator[dict[str, object]]:
    for room, goal in GOALS.items():
        yield _row(room, sizes([room]), goal)
    product = [room for room in GOALS if room != "tests"]
    yield _row("product", sizes(product), sum(GOALS[room] or 0 for room in product))


def _row(room: str, counts: Sequence[int], goal: int | None) -> dict[str, object]:
    return {
        "room": room,
        "files": len(counts),
        "lines": sum(counts),
        "goal": goal,
        "median": counts[len(counts) // 2],
        "p90": counts[len(counts) * 9 // 10],
        "longest": counts[-1],
    }


if __name__ == "__main__":
    print_table("", _COLUMNS, list(rows()), as_json=False)
