"""Gives the folder of a corpus, or of its tokens, to one plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slipway.containers.data import claims

MADE = ".made"  # holds the plan, and a record of each part that is made


def plan_path(folder: Path) -> Path:
    return folder / MADE / "plan.json"


def claim(folder: Path, plan: Mapping[str, object], what: str) -> None:
    claims.claim(folder, plan_path(folder), plan, what)
