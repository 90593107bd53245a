"""What a person and a program see of a training: a progress line now and then, a record of every step.

`slipway curve` reads the progress line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from slipway.containers.runtime.contract.contract import LaunchContract
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
        """Return what prints on rank 0 and nothing elsewhere."""
        if contract.rank:
            return cls(say=_silent, show=_silent)
        return cls(say=lambda line: print(line, file=sys.stderr, flush=True), show=_print)


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


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Say how much of the device's peak a training uses (MFU)."""

    device: Device
    world: int
    flops_per_token: float | None  # None: nobody counted this model's

    def share(self, tokens_per_second: float) -> float | None:
        """Return model FLOPs over the peak of all ranks; None if either is not known."""
        if (peak := self.device.peak_tflops) is None or self.flops_per_token is None:
            return None
        return tokens_per_second * self.flops_per_token / (self.world * peak * 1e12)

    def in_words(self, tokens_per_second: float) -> str:
        share = self.share(tokens_per_second)
        return "" if share is None else f"  MFU {share:.1%}"


@dataclass(slots=True, kw_only=True)
class Reporter:
    steps: int
    log_every: int
    device: Device
    telemetry: Telemetry
    show: Say
    utilisation: Utilisation
    usd_per_hour: float | None = None  # of all nodes; None: nobody knows it
    _since: list[StepReport] = field(default_factory=list)

    def tell(self, report: StepReport) -> None:
        self.telemetry.record(
            StepRecord(
                step=report.step,
                loss=report.loss,
                learning_rate=report.learning_rate,
                seconds=report.seconds,
                own_seconds=report.own_seconds,
                gradient_norm=report.gradient_norm,
                loss_scale=report.loss_scale,
                sequences_per_second=report.rows / report.seconds,
                tokens_per_second=report.tokens / report.seconds,
                tokens_per_dollar=self._per_dollar(report.tokens / report.seconds),
                mfu=self.utilisation.share(report.tokens / report.seconds),
                memory_bytes=self.device.memory_bytes(),
            )
        )
        self._since.append(report)
        if report.step % self.log_every == 0 or report.step == self.steps:
            self.show(self._line())
            self._since.clear()

    def _per_dollar(self, tokens_per_second: float) -> float | None:
        return None if not self.usd_per_hour else tokens_per_second * 3600 / self.usd_per_hour

    def _line(self) -> str:
        last = self._since[-1]
        seconds = sum(report.seconds for report in self._since)
        rows = sum(report.rows for report in self._since)
        tokens = sum(report.tokens for report in self._since)
        loss = sum(report.loss * report.rows for report in self._since) / rows
        value = self._per_dollar(tokens / seconds)
        left = (self.steps - last.step) * seconds / len(self._since)
        return (
            f"step {last.step}/{self.steps}  loss {loss:.4f}  lr {last.learning_rate:.3g}  "
            f"|g| {last.gradient_norm:.3g}  {rows / seconds:.1f} sequences/s"
            f"{self.utilisation.in_words(tokens / seconds)}"
            f"{'' if value is None else f'  {value:,.0f} tokens/$'}  {_in_hours(left)} left"
        )


def _in_hours(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def _print(line: str) -> None:
    print(line, flush=True)


def _silent(line: str) -> None:
    """Print nothing: the first rank prints it."""
