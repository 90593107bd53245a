"""Report on a training: a progress line now and then, a record of every step, scores, and a profile.

`slipway report curve` reads the progress line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from slipway.containers.runtime import disk
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.observe.telemetry import StepRecord, Telemetry
from slipway.containers.training.devices import Device

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Print lines on the first rank only: the others would print the same."""

    say: Say  # stderr
    show: Say  # stdout

    @classmethod
    def of(cls, contract: LaunchContract) -> Words:
        """Return functions that print on rank 0 and do nothing on other ranks."""
        if contract.rank:
            return cls(say=lambda line: None, show=lambda line: None)
        return cls(
            say=lambda line: print(line, file=sys.stderr, flush=True),
            show=lambda line: print(line, flush=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    step: int  # done, counted from 1
    rows: int  # of all readers
    tokens: int  # of those rows
    loss: float
    gradient_norm: float
    learning_rate: float
    seconds: float
    loss_scale: float | None  # fp16's
    own_seconds: float | None  # before the first wait for another rank


@dataclass(slots=True, kw_only=True)
class Reporter:
    steps: int
    log_every: int
    device: Device
    world: int
    telemetry: Telemetry
    show: Say
    flops_per_token: float | None = None  # None: nobody counted this model's
    usd_per_hour: float | None = None  # of all nodes; None: nobody knows it
    _since: list[StepReport] = field(default_factory=list)

    def tell(self, report: StepReport) -> None:
        measured = asdict(report)
        rows, tokens = (measured.pop(name) / report.seconds for name in ("rows", "tokens"))
        self.telemetry.record(
            StepRecord(
                **measured,
                sequences_per_second=rows,
                tokens_per_second=tokens,
                tokens_per_dollar=self._per_dollar(tokens),
                mfu=self._utilisation(tokens),
                memory_bytes=self.device.memory_bytes(),
            )
        )
        self._since.append(report)
        if report.step % self.log_every == 0 or report.step == self.steps:
            self.show(self._line())
            self._since.clear()

    def _utilisation(self, tokens_per_second: float) -> float | None:
        """Return model FLOPs over the peak of all ranks (MFU); None if either is not known."""
        if (peak := self.device.peak_tflops) is None or self.flops_per_token is None:
            return None
        return tokens_per_second * self.flops_per_token / (self.world * peak * 1e12)

    def _per_dollar(self, tokens_per_second: float) -> float | None:
        return None if not self.usd_per_hour else tokens_per_second * 3600 / self.usd_per_hour

    def _line(self) -> str:
        last = self._since[-1]
        seconds = sum(report.seconds for report in self._since)
        rows = sum(report.rows for report in self._since)
        tokens = sum(report.tokens for report in self._since)
        loss = sum(report.loss * report.rows for report in self._since) / rows
        value, share = self._per_dollar(tokens / seconds), self._utilisation(tokens / seconds)
        minutes, left_seconds = divmod(int((self.steps - last.step) * seconds / len(self._since)), 60)
        hours, left_minutes = divmod(minutes, 60)
        return (
            f"step {last.step}/{self.steps}  loss {loss:.4f}  lr {last.learning_rate:.3g}  "
            f"|g| {last.gradient_norm:.3g}  {rows / seconds:.1f} sequences/s"
            f"{'' if share is None else f'  MFU {share:.1%}'}"
            f"{'' if value is None else f'  {value:,.0f} tokens/$'}  "
            f"{hours}:{left_minutes:02d}:{left_seconds:02d} left"
        )


# The scores that a fine-tuning ends with, as a file for programs.
SCORES_NAME = "scores.json"


def write_scores(folder: Path, task: str, scores: Mapping[str, Json]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"task": task, "scores": dict(scores)}, indent=1) + "\n"
    disk.replace_file(folder / SCORES_NAME, content.encode(), token=f"{os.getpid()}.new")


# A trace of a few steps with torch.profiler, as a file that a browser opens.


@dataclass(slots=True, kw_only=True)
class StepProfiler:
    """Record steps `first` to `last` of this rank. If that fails, print a warning and go on training."""

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
            self._running = torch.profiler.profile(activities=sorted({kinds.CPU, own}, key=str))
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


# The error for a loss that is not finite, and the seeds of dropout.


class NotFinite(Refusal):
    """The loss or the gradient is NaN or infinite; another attempt would fail alike."""


def mixed(seed: int, number: int) -> int:
    """Derive a seed from a seed and a number (SplitMix64's finaliser, Steele et al. 2014): neighbours must
    not share a stream."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number + 1) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ mixed >> 31) & 0x7FFFFFFFFFFFFFFF
