"""Which PyTorch an engine is proved on, asked where a job is submitted and where it starts. No torch here.

Proved is a release on which every layout had the losses, norms and checkpoints of one process, as
tests/containers/training/engines/native/test_layouts.py asks: 2.8.0, which SageMaker's image holds, and
2.13.0. 2.4.0 lacks what the engine is made of. An engine without a row takes what its vendor ships.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.config import TrainingConfig, asks_for_native

OLDEST: Mapping[str, str] = {"native": "2.8"}
_RELEASE = re.compile(r"(\d+)\.(\d+)")


class UnprovedTorch(Refusal):
    """Nobody has shown that this layout trains as one process does on this PyTorch."""


def refuse_unproved(config: TrainingConfig, torch: str, *, accelerator: str | None, holder: str) -> None:
    """Raise UnprovedTorch for a PyTorch older than the oldest that the config's engine is proved on."""
    engine = config.engine_on(accelerator)
    oldest = OLDEST.get(engine)
    if oldest is None or _release(torch) >= _release(oldest):
        return
    asked = " and ".join(asks_for_native(asdict(config)))
    raise UnprovedTorch(
        f"{asked or 'this training'}: its engine, {engine}, is proved on PyTorch {oldest} and newer, and "
        f"{holder} holds {torch}",
        hint=f"leave out what asks for it, or train in an image with PyTorch {oldest} or newer",
    )


def _release(version: str) -> tuple[int, ...]:
    found = _RELEASE.match(version)
    assert found, f"{version!r} is no version of PyTorch"
    return tuple(map(int, found.groups()))
