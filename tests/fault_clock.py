"""Measures in a test how long after it struck a fault was detected and was over, for docs/faults.md."""

from __future__ import annotations

import time
from typing import Any


class FaultClock:
    """Tell pytest's report what docs/lists/faults-measured.csv keeps of a test (scripts/fault_results.py)."""

    def __init__(self, told: list[tuple[str, Any]]) -> None:
        self._told = told
        self._struck = time.monotonic()

    def strikes(self) -> None:
        """Begin to count: the fault is injected now."""
        self._struck = time.monotonic()

    def is_seen(self) -> None:
        self._told.append(("detected", f"{time.monotonic() - self._struck:.2f}"))

    def is_over(self) -> None:
        """Say that work goes on as before, or that the job ended as it should."""
        self._told.append(("recovered", f"{time.monotonic() - self._struck:.2f}"))
