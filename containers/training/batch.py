"""How a global batch is shared: its micro-batches are the same whatever the number of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.containers.runtime.errors import Refusal


class IndivisibleBatch(Refusal):
    """The global batch is no whole number of micro-batches on every rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    micro_batch: int
    accumulation_steps: int
    world: int

    @property
    def global_batch(self) -> int:
        return self.micro_batch * self.accumulation_steps * self.world

    @property
    def micro_batches(self) -> int:
        """Return the number of micro-batches in one step, over all ranks."""
        return self.accumulation_steps * self.world

    def number(self, step: int, rank: int, position: int) -> int:
        """Number a micro-batch since training began: rank 0 takes the first of a step, as the loader
        deals."""
        return step * self.micro_batches + rank * self.accumulation_steps + position
