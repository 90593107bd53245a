"""The settings that the trainings of all recipes share. Standard library only: a laptop reads them, too.

A new setting is one field, annotated with its kind, with a default if it is the same for all recipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from inspect import get_annotations
from typing import Annotated, ClassVar

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.layout import CUTTING, BatchPlan, Layout
from slipway.containers.training.schedules import DECAYS
from slipway.containers.training.settings import (
    STEP_RANGE,
    Count,
    LearningRate,
    MicroBatch,
    Seed,
    Share,
    choice,
    matching,
    number,
    whole,
)

# What layers keep for their backward.
ACTIVATION_KEEPING = matching(
    r"none|layer|budget:[0-9]{1,4}(\.[0-9]{1,6})?",
    "none, layer, or budget: and the GiB that activations may take on a rank, such as budget:8",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """Hold what a person may set of any training; a recipe's config adds its own, and other defaults."""

    optimizer: str
    weight_decay: Share
    clip_norm: Annotated[float, number(1e-6, 1e6)] = 1.0
    precision: Annotated[str, choice(("auto", "bf16", "fp16", "fp32"))] = "auto"
    seed: Seed
    resume: Annotated[str, choice(("auto", "required", "never"))] = "auto"
    checkpoint_every: Count
    keep: Annotated[int, whole(2, 1000)]
    log_every: Count = 10
    # Save after so long, too, however long a step takes: on 16 nodes ten minutes cost about 35 USD, which is
    # what is lost with a node.
    checkpoint_minutes: Annotated[float, number(0.01, 100_000.0)] = 10.0
    # Steps between measurements on rows that are not trained on.
    evaluate_every: Annotated[int | None, whole(1, 1_000_000)] = None
    profile: Annotated[str | None, STEP_RANGE] = None  # first:last step to trace
    device: str = "cpu"
    backend: str = "auto"  # who carries gradients between processors
    compile_layers: str = "no"  # by torch.compile: of use where every step has the same form
    on_nan: Annotated[str, choice(("stop", "skip"))] = "stop"
    engine: str = "plain"  # from here on see SpreadConfig
    zero: int = 0
    sharded: int = 1
    sharded_state: str = "all"
    tensor: int = 1
    pipeline: int = 1
    pipeline_schedule: str = "1f1b"
    stages_per_rank: int = 1
    checkpoint_activations: str = "none"
    offload_activations: str = "no"
    sequence_parallel: str = "no"
    self_check: str = "yes"
    own_free: ClassVar[frozenset[str]] = frozenset()  # of a recipe's settings: see free_to_change

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

    def check_step(self, layout: Layout, plan: BatchPlan) -> None:
        """Raise ImpossibleLayout if the layout's pipeline cannot run a step of this plan."""
        layout.check_step(
            plan.accumulation_steps, stages_per_rank=self.stages_per_rank, schedule=self.pipeline_schedule
        )

    @property
    def free_to_change(self) -> frozenset[str]:
        """Return the settings that may differ when a training resumes: they leave its weights alone."""
        return FREE_TO_CHANGE | self.own_free

    def identity(self) -> dict[str, int | float | str | None]:
        """Return the settings that a resumed training must share with the saved one."""
        return {name: value for name, value in asdict(self).items() if name not in self.free_to_change}


_Degree = Annotated[int, whole(1, 65_536)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConfig(TrainingConfig):
    """Add what spreads one model over ranks; `engine_mistakes` tells which of it contradicts each other."""

    engine: Annotated[str, choice(("auto", "plain", "deepspeed", "native"))] = "auto"
    zero: Annotated[int, whole(0, 3)] = 0
    sharded: _Degree = 1
    sharded_state: Annotated[str, choice(("all", "optimizer"))] = "all"
    tensor: _Degree = 1
    pipeline: _Degree = 1
    pipeline_schedule: Annotated[str, choice(("gpipe", "1f1b", "interleaved"))] = "1f1b"
    stages_per_rank: Annotated[int, whole(1, 1024)] = 1
    checkpoint_activations: Annotated[str, ACTIVATION_KEEPING] = "none"
    offload_activations: Annotated[str, choice(("no", "yes"))] = "no"
    # Before training with a layout that cuts the model, compare a small one with one rank's.
    self_check: Annotated[str, choice(("yes", "no"))] = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig(SpreadConfig):
    """Add how decoders are trained: by AdamW, at a rate that warms up and falls, and never by DeepSpeed."""

    zero: int = 0
    optimizer: Annotated[str, choice(("adamw",))] = "adamw"
    micro_batch: MicroBatch
    rate: LearningRate
    least_rate: Share
    warmup: Share  # of the steps
    schedule: Annotated[str, choice(tuple(DECAYS))] = "cosine"
    beta1: Annotated[float, number(0.0, 0.9999)] = 0.9
    beta2: Annotated[float, number(0.0, 0.99999)]
    epsilon: Annotated[float, number(1e-12, 1e-2)] = 1e-8
    # Tensor ranks share each row's tokens where they cut no matrix: norms and residuals take less memory.
    sequence_parallel: Annotated[str, choice(("no", "yes"))] = "no"

    @property
    def engine_name(self) -> str:
        return "native" if self.engine == "auto" else self.engine


TWO_CONFIGS = "config and start_from_model: a model folder has its own config.json; set one of them"


def refuse_sharing_with_dropout(config: DecoderConfig, dropout: float, place: str) -> None:
    if config.sequence_parallel == "yes" and dropout:
        raise Refusal(
            f"sequence_parallel=yes: ranks would drop the same of their shares of rows, and {place} has a "
            f"dropout of {dropout:g}",
            hint="leave sequence_parallel out",
        )


def decoder_mistakes(values: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each contradiction of what decoders share."""
    rate, least = values["rate"], values["least_rate"]
    if isinstance(rate, float) and isinstance(least, float) and least > rate:
        yield f"least_rate={least:g} is above rate={rate:g}; set least_rate to that at most"
    if values["sequence_parallel"] == "yes" and values["tensor"] == 1:
        yield "sequence_parallel=yes and tensor=1: nobody shares a row; set tensor to as many ranks as shall"
    # Rates, batches and precision are checked as with any engine; which one is a recipe's own affair.
    yield from engine_mistakes({**values, "engine": "native"})


# Engines make the same weights and the same checkpoints. The precision joins the identity as it turns out.
_OF_ENGINE = tuple(get_annotations(SpreadConfig))
FREE_TO_CHANGE = frozenset(
    {
        *("device", "precision", "backend", "compile_layers", "sequence_parallel", *_OF_ENGINE),
        *("on_nan", "resume", "checkpoint_every", "checkpoint_minutes", "keep", "log_every"),
        *("evaluate_every", "profile"),
    }
)


# The settings that only the native engine carries out, and their values that ask for nothing.
_NATIVE_ONLY: Mapping[str, object] = {
    **dict.fromkeys(CUTTING, 1),
    "sharded_state": "all",
    "checkpoint_activations": "none",
    "offload_activations": "no",
    "sequence_parallel": "no",
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
    if any(values[name] is None for name in (*_OF_ENGINE, "precision", "optimizer", "on_nan")):
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


# The oldest PyTorch that an engine is proved on, checked when a job is submitted and when it starts. No torch
# here. A release is proved if every layout had the losses, norms and checkpoints of one process: 2.13.0, in
# images for CPUs and GPUs (docs/layouts.md). With 2.9.0, weights whose rows shards cannot share evenly are
# trained only in part, and gloo aborts in every pipeline. Engines without a row take what their vendor ships.
OLDEST: Mapping[str, str] = {"native": "2.13"}
_RELEASE = re.compile(r"(\d+)\.(\d+)")


class UnprovedTorch(Refusal):
    """This layout is not proved to train on this PyTorch as one process does."""


def refuse_unproved(config: TrainingConfig, torch: str, *, accelerator: str | None, holder: str) -> None:
    """Raise UnprovedTorch for a PyTorch older than the oldest that the config's engine is proved on."""
    engine = config.engine_on(accelerator)
    if is_proved(engine, torch):
        return
    oldest = OLDEST[engine]
    asked = " and ".join(asks_for_native(asdict(config)))
    raise UnprovedTorch(
        f"{asked or 'this training'}: its engine, {engine}, is proved on PyTorch {oldest} and newer, and "
        f"{holder} holds {torch}",
        hint=f"leave out what asks for it, or train in an image with PyTorch {oldest} or newer",
    )


def is_proved(engine: str, torch: str) -> bool:
    return engine not in OLDEST or _release(torch) >= _release(OLDEST[engine])


def _release(version: str) -> tuple[int, ...]:
    found = _RELEASE.match(version)
    assert found, f"{version!r} is no version of PyTorch"
    return tuple(map(int, found.groups()))
