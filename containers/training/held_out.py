"""What a training loses on rows that it does not train on, every so many steps: told, and recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.agreement import summed
from slipway.containers.training.engine import Engine, EngineParts, metric_sums
from slipway.containers.training.report import Say
from slipway.containers.training.task import Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Hold the rows that a training is measured on; every reader yields as many batches of as many rows."""

    every: int  # steps
    rows: int  # of all readers
    open: Callable[[], AbstractContextManager[Iterator[Inputs]]]  # this reader's
    perplexity_of: str  # the metric whose exponential is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    held_out: HeldOut
    engine: Engine
    parts: EngineParts
    telemetry: Telemetry
    say: Say
    steps: int  # of the whole training

    def after(self, step: int) -> None:
        """Measure if it is time, and after the last step."""
        if step % self.held_out.every == 0 or step == self.steps:
            self._tell(step, self._measure())

    def _measure(self) -> dict[str, float]:
        """Return the mean of each metric over all readers, the same on every rank."""
        layout, sums, count = self.parts.layout, metric_sums(self.parts), 0
        with self.held_out.open() as batches:
            for inputs in batches:
                sums += self.engine.evaluate(inputs)
                count += 1
                self.telemetry.beat(f"evaluating batch {count}")
        counted = sums if layout.speaks(self.parts.rank) else torch.zeros_like(sums)
        means = [total / (count * layout.readers) for total in summed(counted)]
        return dict(zip(self.parts.task.metrics, means, strict=True))

    def _tell(self, step: int, measures: dict[str, float]) -> None:
        loss = measures[self.held_out.perplexity_of]
        measures["perplexity"] = math.exp(loss) if loss < math.log(1e300) else math.inf
        told = "  ".join(f"{name} {value:.4g}" for name, value in measures.items())
        self.say(f"held out after step {step}: {told}  ({self.held_out.rows} rows)")
        self.telemetry.evaluated(step, measures)
