"""What a person may set of this engine beside what all trainings share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from slipway.containers.training.engines.native.activations import Keeping


class EngineChoices(Protocol):
    """Name what this engine needs of a training's config."""

    @property
    def pipeline_schedule(self) -> str: ...
    @property
    def stages_per_rank(self) -> int: ...
    @property
    def checkpoint_activations(self) -> str: ...
    @property
    def offload_activations(self) -> str: ...
    @property
    def sharded_state(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    schedule: str = "1f1b"
    stages_per_rank: int = 1
    keeping: Keeping = field(default_factory=Keeping)
    # Sharded ranks have whole weights during a step, gathered once, and share out gradients and moments only.
    keeps_weights: bool = False

    @classmethod
    def of(cls, config: EngineChoices) -> NativeSettings:
        return cls(
            schedule=config.pipeline_schedule,
            stages_per_rank=config.stages_per_rank,
            keeping=Keeping.of(config.checkpoint_activations, offloads=config.offload_activations == "yes"),
            keeps_weights=config.sharded_state == "optimizer",
        )
