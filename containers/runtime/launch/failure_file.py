"""The file in which a launcher looks for the reason of a failure: one row per launcher that has one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from slipway.containers.runtime.contract import launchers

# SageMaker shows the first 1024 characters as FailureReason
# (SageMaker AI Developer Guide, "How Amazon SageMaker AI Processes Training Output").
_FILES: Mapping[str, str] = {"sagemaker": "opt/ml/output/failure"}
_MOST_CHARACTERS = 1024


def write_failure(environment: Mapping[str, str], root: Path, reason: str) -> None:
    """Write the reason where the launcher looks for it, if it looks anywhere; the log has the reason in
    any case."""
    for launcher, name in _FILES.items():
        if not launchers.LAUNCHERS[launcher].recognises(environment):
            continue
        with suppress(OSError):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(reason[:_MOST_CHARACTERS], encoding="utf-8", errors="backslashreplace")
