"""The settings that all trainings share, whatever the recipe. Standard library only: a laptop reads it too.

A new one is one field of TrainingConfig, one row of TRAINING_SETTINGS, and a default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.layout import Layout
from slipway.containers.training.settings import Choice, Number, StepRange, ValueKind, Whole

# The settings that spread one model over ranks, and which of them contradict each other. No torch here.
# A recipe that may be spread takes ENGINE_SETTINGS, ENGINE_DEFAULTS and `engine_mistakes` into its config.py.
_DEGREE = Whole(1, 65_536)
_GIB = re.compile(r"budget:[0-9]{1,4}(\.[0-9]{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ActivationKeeping:
    """Read what layers keep for their backward."""

    wanted: str = "none, layer, or budget: and the GiB that activations may take on a rank, such as budget:8"

    def read(self, text: str) -> str | None:
        return text if text in ("none", "layer") or _GIB.fullmatch(text) else None


ENGINE_SETTINGS: Mapping[str, ValueKind] = {
    "engine": Choice(("auto", "plain", "deepspeed", "native")),
    "zero": Whole(0, 3),
    "sharded": _DEGREE,
    "sharded_state": Choice(("all", "optimizer")),
    "tensor": _DEGREE,
    "pipeline": _DEGREE,
    "pipeline_schedule": Choice(("gpipe", "1f1b", "interleaved")),
    "stages_per_rank": Whole(1, 1024),
    "checkpoint_activations": ActivationKeeping(),
    "offload_activations": Choice(("no", "yes")),
}
ENGINE_DEFAULTS: Mapping[str, str] = {
    "engine": "auto",
    "zero": "0",
    "sharded": "1",
    "sharded_state": "all",
    "tensor": "1",
    "pipeline": "1",
    "pipeline_schedule": "1f1b",
    "stages_per_rank": "1",
    "checkpoint_activations": "none",
    "offload_activations": "no",
}
_DEGREES = ("sharded", "tensor", "pipeline")
# What only the native engine does, and the value that asks for nothing.
_NATIVE_ONLY: Mapping[str, object] = {
    **dict.fromkeys(_DEGREES, 1),
    "sharded_state": "all",
    "checkpoint_activations": "none",
    "offload_activations": "no",
}


def chosen_engine(values: Mapping[str, object]) -> str:
    """Return the engine that the settings mean."""
    if values["engine"] != "auto":
        return str(values["engine"])
    if values["zero"]:
        return "deepspeed"
    return "native" if values["precision"] == "fp16" or asks_for_native(values) else "plain"


def keeps_no_zero(given: Mapping[str, str]) -> bool:
    """Return True if what was given by hand asks for an engine without ZeRO, whose default then gives way."""
    return given.get("engine") in ("plain", "native") or any(
        given.get(name, str(nothing)) != str(nothing) for name, nothing in _NATIVE_ONLY.items()
    )


def engine_mistakes(values: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each contradiction; a value that could not be read (None) contradicts nothing."""
    if any(values[name] is None for name in (*ENGINE_SETTINGS, "precision", "optimizer", "on_nan")):
        return
    engine, zero = chosen_engine(values), values["zero"]
    if zero and engine != "deepspeed":
        yield f"engine={engine} and zero={zero}: ZeRO is DeepSpeed's; set zero=0"
    asked = asks_for_native(values)
    if asked and engine != "native":
        words = " and ".join(asked)
        yield f"{words} with engine={engine}: only native does that; set zero=0 and engine=native"
    if values["precision"] == "fp16" and engine != "native":
        yield f"precision=fp16 with engine={engine}: only native scales losses; set it, or precision=bf16"
    if engine == "deepspeed":
        yield from _deepspeed_mistakes(values)
    if values["sharded_state"] == "optimizer" and values["sharded"] == 1:
        yield "sharded_state=optimizer and sharded=1: nobody shares it; set sharded to as many ranks as shall"
    schedule, stages = values["pipeline_schedule"], values["stages_per_rank"]
    if (schedule == "interleaved") != (stages != 1):
        yield (
            f"pipeline_schedule={schedule} and stages_per_rank={stages}: several stages on a rank are what "
            "interleaved means; set both, or neither"
        )


def asks_for_native(values: Mapping[str, object]) -> list[str]:
    """Return the settings that only the native engine carries out, as `--set` has them."""
    return [f"{name}={values[name]}" for name, nothing in _NATIVE_ONLY.items() if values[name] != nothing]


def _deepspeed_mistakes(values: Mapping[str, object]) -> Iterator[str]:
    zero = values["zero"]
    if values["optimizer"] == "lamb" and zero:
        yield (
            f"optimizer=lamb and zero={zero}: LAMB has a trust ratio per tensor, and ZeRO cuts tensors into "
            "flat shares; set zero=0, or optimizer=lans, whose reference does without"
        )
    if values["optimizer"] == "lans" and zero == 3:
        yield (
            "optimizer=lans and zero=3: ZeRO-3 cuts every tensor, and its shares are no blocks of LANS's "
            "reference; set zero=1"
        )
    if not zero and values["precision"] != "fp32":
        yield (
            "engine=deepspeed and zero=0: DeepSpeed would sum bf16 gradients in bf16 there; "
            "set engine=plain, zero=1 or precision=fp32"
        )
    if values["on_nan"] == "skip":
        yield "on_nan=skip: DeepSpeed cannot take back a step; set on_nan=stop, or zero=0 and engine=plain"


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
    engine: str = "plain"  # from here on see ENGINE_SETTINGS
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
