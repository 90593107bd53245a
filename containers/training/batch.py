"""How a global batch is shared: its micro-batches are the same whatever the number of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.counting import micro_batches


class IndivisibleBatch(Refusal):
    """The global batch is no whole number of micro-batches on every rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    micro_batch: int
    accumulation_steps: int
    readers: int  # ranks that read rows of their own: see layout.py

    @property
    def global_batch(self) -> int:
        return self.micro_batch * self.accumulation_steps * self.readers

    @property
    def micro_batches(self) -> int:
        """Return the number of micro-batches in one step, over all readers."""
        return self.accumulation_steps * self.readers

    def number(self, step: int, reader: int, position: int) -> int:
        """Number a micro-batch since training began: reader 0 takes the first of a step, as the loader
        deals."""
        return step * self.micro_batches + reader * self.accumulation_steps + position


def share_batch(
    global_batch: int, micro_batch: int, readers: int, *, called: str = "copies of the model"
) -> BatchPlan:
    """Share a global batch among readers, which errors call by this name; refuse one that is no multiple."""
    each = micro_batch * readers
    accumulation_steps = micro_batches(global_batch, micro_batch, readers)
    if accumulation_steps is None:
        below = global_batch // each * each
        nearest = f"{below} or {below + each}" if below else f"{each}"
        raise IndivisibleBatch(
            f"a global batch of {global_batch} is not a multiple of {each} "
            f"(micro_batch {micro_batch} × {readers} {called})",
            hint=f"set global_batch={nearest}, or another micro_batch",
        )
    return BatchPlan(micro_batch=micro_batch, accumulation_steps=accumulation_steps, readers=readers)
