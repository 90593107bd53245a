"""Gives a folder to one plan: what decides its content is written first, and another plan is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.text.documents import read_json, write_json

MADE = ".made"  # holds the plan, and a record of each part that is made


def plan_path(folder: Path) -> Path:
    return folder / MADE / "plan.json"


def claim(folder: Path, plan: Mapping[str, object], what: str) -> None:
    """Write the plan into the folder; refuse a folder that holds `what` of other settings or input."""
    path = plan_path(folder)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if others := [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]:
            raise DataError(f"{folder} holds {min(others)!r} and no plan", hint="set another output")
        try:
            write_json(path, plan)
        except DataError:
            if not path.exists():  # else another job of the same array was quicker
                raise
    theirs = read_json(path)
    differing = [name for name, ours in plan.items() if theirs.get(name) != ours]
    if differing:
        name = differing[0]
        raise DataError(
            f"{folder} holds {what} with {name} {theirs.get(name)}, not {plan[name]}",
            hint="set another output, or remove that folder",
        )
