"""A submission passes the rooms in order, and sends exactly what a dry run shows."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway

COMMAND = ("submit", "bert_pretrain", "--on", "dl1", "--nodes", "2", "--set", "size=large")
MOST_MODULES = 15
OURS = "slipway.jobs."
VOCABULARY = ("words", "output")  # every room uses these words
CHECKED = "words.given"  # only wraps a function to check its arguments
DOOR = "cloud.aws"  # every room calls AWS through this one


@dataclass(slots=True)
class Way:
    """Records the calls between our modules until a job is sent, and what was sent."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    sent: dict[str, Any] | None = None

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or self.sent is not None:
            return
        if frame.f_code.co_name == "_make_api_call" and frame.f_locals["operation_name"] == "SubmitJob":
            self.sent = frame.f_locals["api_params"]
        elif (callee := _module(frame)) and (caller := _caller(frame)) and caller != callee:
            self.calls.append((caller, callee))


def _module(frame: FrameType) -> str | None:
    name = str(frame.f_globals.get("__name__"))
    return name.removeprefix(OURS) if name.startswith(OURS) and name != OURS + CHECKED else None


def _caller(frame: FrameType) -> str | None:
    back = frame.f_back
    while back is not None and _module(back) is None:
        back = back.f_back
    return _module(back) if back else None


def rooms() -> list[str]:
    """Return the rooms of jobs in the order in which they may import each other."""
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(each["layers"] for each in contracts if each["id"] == "jobs-layers")
    return layers


def test_a_submission_passes_few_modules_comes_back_to_no_room_and_sends_what_a_dry_run_showed(
    target: BatchTarget, slipway: Slipway
) -> None:
    shown = slipway.json(*COMMAND, "--dry-run")["request"]["submit"]
    way = Way()
    sys.setprofile(way)
    try:
        code, _, err = slipway(*COMMAND)
    finally:
        sys.setprofile(None)
    assert code == 0, err
    assert way.sent == shown
    order = rooms()
    places = [
        (order.index(caller.split(".")[0]), order.index(callee.split(".")[0])) for caller, callee in way.calls
    ]
    back = [call for call, (room, next_room) in zip(way.calls, places, strict=True) if next_room < room]
    assert not back, "a room is left by a call into the next one, and not entered from there again"
    passed = {callee for _, callee in way.calls if callee != DOOR and callee.split(".")[0] not in VOCABULARY}
    assert len(passed) <= MOST_MODULES, sorted(passed)
