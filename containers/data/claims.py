"""Gives a folder to one plan: what decides its content is written first, and another plan is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.text.documents import read_json, write_json


def claim(folder: Path, at: Path, plan: Mapping[str, object], what: str) -> None:
    """Write the plan to `at`; refuse a folder that holds `what` of other settings or input."""
    if not at.exists():
        folder.mkdir(parents=True, exist_ok=True)
        others = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
        if others and not at.exists():
            raise DataError(f"{folder} holds {min(others)!r} and no {at.name}", hint="set another output")
        try:
            write_json(at, plan)
        except DataError:
            if not at.exists():  # else another job of the same array was quicker
                raise
    theirs = read_json(at)
    differing = [name for name, ours in plan.items() if theirs.get(name) != ours]
    if differing:
        name = differing[0]
        raise DataError(
            f"{folder} holds {what} with {name} {theirs.get(name)}, and this run has {plan[name]}",
            hint="set another output, or remove that folder",
        )
