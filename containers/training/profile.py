"""A trace of a few steps with torch.profiler, as a file that a browser opens."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from slipway.containers.training.devices import Device
from slipway.containers.training.report import Say


@dataclass(slots=True, kw_only=True)
class StepProfiler:
    """Record steps `first` to `last` of this rank. What fails here is said, and the training goes on."""

    first: int
    last: int
    folder: Path
    rank: int
    device: Device
    say: Say
    _running: Any = field(default=None)

    def before(self, step: int) -> None:
        """Begin if this step, counted from 1, is to be recorded and nothing is yet."""
        if self._running is None and self.first <= step <= self.last:
            kinds = torch.profiler.ProfilerActivity
            own = getattr(kinds, self.device.kind.upper(), kinds.CPU)
            self._running = torch.profiler.profile(
                activities=sorted({kinds.CPU, own}, key=str), acc_events=True
            )
            self._running.start()

    def after(self, step: int) -> None:
        if self._running is not None and step >= self.last:
            self.close()

    def close(self) -> None:
        """Write what was recorded, if anything was."""
        if self._running is None:
            return
        found, self._running = self._running, None
        path = self.folder / f"steps-{self.first}-{self.last}.rank-{self.rank}.trace.json.gz"
        try:
            found.stop()
            self.folder.mkdir(parents=True, exist_ok=True)
            found.export_chrome_trace(str(path))
        except (OSError, RuntimeError) as error:
            self.say(f"warning: the profile is not written: {error}; training continues")
        else:
            self.say(f"the profile is in {path}: open it in chrome://tracing or ui.perfetto.dev")
