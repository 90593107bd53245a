"""The settings that all trainings share, whatever the recipe. Standard library only: a laptop reads it too.

A new one is one field of TrainingConfig, one row of TRAINING_SETTINGS, and a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.engine_settings import ENGINE_SETTINGS, chosen_engine
from slipway.containers.training.layout import Layout
from slipway.containers.training.value_kinds import Choice, Number, StepRange, ValueKind, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """Hold what a person may set of any training; a recipe's config adds its own."""

    optimizer: str
    weight_decay: float
    clip_norm: float
    precision: str
    seed: int
    resume: str
    checkpoint_every: int
    keep: int
    log_every: int
    checkpoint_minutes: float  # save after so long, too, however long a step takes
    evaluate_every: int | None  # steps between measurements on rows that are not trained on
    profile: str | None  # first:last step to trace
    device: str = "cpu"
    backend: str = "auto"  # who carries gradients between processors
    on_nan: str = "stop"
    engine: str = "plain"  # from here on see engine_settings.py
    zero: int = 0
    sharded: int = 1
    sharded_state: str = "all"
    tensor: int = 1
    pipeline: int = 1
    pipeline_schedule: str = "1f1b"
    stages_per_rank: int = 1
    checkpoint_activations: str = "none"
    offload_activations: str = "no"

    @property
    def engine_name(self) -> str:
        return chosen_engine(asdict(self))

    def engine_on(self, accelerator: str | None) -> str:
        """Return the engine that trains on such nodes; a recipe may have one of an accelerator's own."""
        return self.engine_name

    def layout(self, contract: LaunchContract) -> Layout:
        """Return the layout of this training on the contract's ranks."""
        return self.layout_of(contract.world, contract.local_world)

    def layout_of(self, world: int, ranks_per_node: int) -> Layout:
        return Layout.of(
            world,
            sharded=self.sharded,
            tensor=self.tensor,
            pipeline=self.pipeline,
            ranks_per_node=ranks_per_node,
        )

    @property
    def free_to_change(self) -> frozenset[str]:
        """Return the settings that may differ when a training resumes: they leave its weights alone."""
        return FREE_TO_CHANGE

    def identity(self) -> dict[str, int | float | str | None]:
        """Return the settings that a resumed training must share with the saved one."""
        return {name: value for name, value in asdict(self).items() if name not in self.free_to_change}


# Engines make the same weights and the same checkpoints. The precision joins the identity as it turns out.
FREE_TO_CHANGE = frozenset(
    {
        *("device", "precision", "backend", *ENGINE_SETTINGS),
        *("on_nan", "resume", "checkpoint_every", "checkpoint_minutes", "keep", "log_every"),
        *("evaluate_every", "profile"),
    }
)


# On 16 nodes ten minutes cost about 35 USD: what is lost with a node.
CHECKPOINT_MINUTES = "10"

TRAINING_SETTINGS: Mapping[str, ValueKind] = {
    "weight_decay": Number(0.0, 1.0),
    "clip_norm": Number(1e-6, 1e6),
    "precision": Choice(("auto", "bf16", "fp16", "fp32")),
    "seed": Whole(0, 2**31 - 1),
    "on_nan": Choice(("stop", "skip")),
    "resume": Choice(("auto", "required", "never")),
    "checkpoint_every": Whole(1, 1_000_000),
    "keep": Whole(2, 1000),
    "log_every": Whole(1, 1_000_000),
    "checkpoint_minutes": Number(0.01, 100_000.0),
    "evaluate_every": Whole(1, 1_000_000),
    "profile": StepRange(),
}
