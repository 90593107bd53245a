"""What a person may set, `--set key=value`: read strictly, all mistakes told at once. Standard library only.

A new setting is one field of GptjConfig, one row of SETTINGS, and one default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.recipes.gptj_finetune.defaults import BY_SIZE, DRAWN, EVERY_SIZE, SIZES
from slipway.containers.training.config import FREE_TO_CHANGE, TRAINING_SETTINGS, TrainingConfig
from slipway.containers.training.engine_settings import ENGINE_DEFAULTS, ENGINE_SETTINGS, engine_mistakes
from slipway.containers.training.schedules import DECAYS
from slipway.containers.training.settings import InvalidSettings, read_values, split_arguments
from slipway.containers.training.text_location import S3OrFolder
from slipway.containers.training.value_kinds import (
    LEARNING_RATE,
    Choice,
    Number,
    RelativePath,
    ValueKind,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjConfig(TrainingConfig):
    size: str  # what it is tuned with; of tiny, the model too where `model` says no other
    model: str | None  # a published folder, below the data folder or in S3
    task: str  # sst2, or text: any text, to go on writing
    data: str | None  # below the data folder or in S3; None: the folder of the task's name
    held_out: str | None  # of text: likewise, to measure on
    field: str  # of JSON lines: what holds the text
    length: int  # tokens of a row at most
    loss_on: str  # of sst2: the label's words alone, or the whole row
    rows: str  # laid end to end without padding, or padded to the longest beside them
    epochs: int
    steps: int | None  # fewer than the epochs have
    global_batch: int
    micro_batch: int
    rate: float
    least_rate: float
    warmup: float  # share of the steps
    schedule: str
    beta1: float
    beta2: float
    epsilon: float
    partition: str  # of the layers over a pipeline's stages
    lora_rank: int  # 0: all weights are trained
    lora_alpha: float
    evaluate: str

    @property
    def engine_name(self) -> str:
        return "native" if self.engine == "auto" else self.engine

    @property
    def free_to_change(self) -> frozenset[str]:
        return FREE_TO_CHANGE | _OWN_FREE_TO_CHANGE

    @property
    def stages(self) -> int:
        return self.pipeline * self.stages_per_rank


# start.py adds the rows and the weights as they turn out, and the steps.
_OWN_FREE_TO_CHANGE = frozenset(
    {
        *("model", "data", "held_out", "field", "rows", "micro_batch", "epochs", "steps"),
        *("partition", "evaluate"),
    }
)


SETTINGS: Mapping[str, ValueKind] = {
    "size": Choice(tuple(SIZES)),
    "model": S3OrFolder(),
    "task": Choice(("sst2", "text")),
    "data": S3OrFolder(),
    "held_out": S3OrFolder(),
    "field": RelativePath(),
    "length": Whole(8, 1 << 16),
    "loss_on": Choice(("label", "row")),
    "rows": Choice(("packed", "padded")),
    "epochs": Whole(1, 1000),
    "steps": Whole(1, 100_000_000),
    "global_batch": Whole(1, 1_000_000),
    "micro_batch": Whole(1, 65_536),
    **TRAINING_SETTINGS,
    **ENGINE_SETTINGS,
    "engine": Choice(("auto", "native", "smp")),
    "zero": Whole(0, 0),
    "optimizer": Choice(("adamw",)),
    "rate": LEARNING_RATE,
    "least_rate": Number(0.0, 1.0),
    "warmup": Number(0.0, 1.0),
    "schedule": Choice(tuple(DECAYS)),
    "beta1": Number(0.0, 0.9999),
    "beta2": Number(0.0, 0.99999),
    "epsilon": Number(1e-12, 1e-2),
    "partition": Choice(("profiled", "even")),
    "lora_rank": Whole(0, 4096),
    "lora_alpha": Number(1e-3, 1e5),
    "evaluate": Choice(("epoch", "end")),
    "device": Choice(("auto", "cuda", "cpu")),
}
_KNOWN = {name: kind for name, kind in SETTINGS.items() if name != "zero"}  # which is DeepSpeed's


def decode_arguments(arguments: Sequence[str]) -> GptjConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, _KNOWN)
    values, more = read_values({**_defaults(given), **given}, SETTINGS)
    mistakes += [*more, *_contradictions(values), *engine_mistakes({**values, "engine": "native"})]
    if mistakes:
        raise InvalidSettings(mistakes)
    return GptjConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


def decode(given: Mapping[str, str]) -> GptjConfig:
    return decode_arguments([f"{key}={text}" for key, text in given.items()])


def _defaults(given: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults for the size that was asked for, or for tiny if that is mistaken."""
    size = given.get("size", DRAWN) if given.get("size", DRAWN) in SIZES else DRAWN
    return {**ENGINE_DEFAULTS, **EVERY_SIZE, "size": size, **BY_SIZE[size]}


def _contradictions(values: Mapping[str, object]) -> Iterator[str]:
    rate, least = values["rate"], values["least_rate"]
    if isinstance(rate, float) and isinstance(least, float) and least > rate:
        yield f"least_rate={least:g} is above rate={rate:g}; set least_rate to that at most"
    if values["size"] != DRAWN and values["model"] is None:
        yield f"size={values['size']} begins with published weights; set model to their folder, here or in S3"
    if values["offload_activations"] == "yes" and values["checkpoint_activations"] == "none":
        yield (
            "offload_activations=yes and checkpoint_activations=none: all that layers keep would be moved; "
            "set checkpoint_activations=layer, so that only their inputs are"
        )
    if values["held_out"] is not None and values["task"] == "sst2":
        yield "held_out and task=sst2: its validation set is measured on; leave held_out out"
    if values["evaluate_every"] is not None:
        yield "evaluate_every: this recipe measures by epochs; set evaluate=epoch instead"
    if values["engine"] == "smp":
        yield from _smp_mistakes(values)
    if values["model"] is None and values["size"] == DRAWN:
        yield from _cut_mistakes(values, DRAWN)


def _smp_mistakes(values: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each setting that SageMaker's model-parallel library v2 cannot do."""
    if values["tensor"] not in (None, 1):
        yield f"tensor={values['tensor']} with engine=smp: SMP v2 cuts no layers of a GPT-J; set tensor=1"
    if values["pipeline"] not in (None, 1):
        yield f"pipeline={values['pipeline']} with engine=smp: SMP v2 has no pipelines; set engine=native"
    if values["sharded"] == 1:
        yield "sharded=1 with engine=smp: it only shards; set sharded to the ranks of a group"
    if values["precision"] == "fp16":
        yield "precision=fp16 with engine=smp: losses are not scaled there; set precision=bf16"
    keeps = values["checkpoint_activations"]
    if keeps not in (None, "none", "layer"):
        yield f"checkpoint_activations={keeps} with engine=smp: it measures no memory; set layer"


def _cut_mistakes(values: Mapping[str, object], size: str) -> Iterator[str]:
    """Yield what a laptop can tell of a layout: of published weights, config.json decides, where they lie."""
    known, tensor, length = SIZES[size], values["tensor"], values["length"]
    if isinstance(tensor, int) and known.heads % tensor:
        yield f"tensor={tensor} does not divide the {known.heads} heads of size={size}; set a divisor of them"
    if isinstance(length, int) and length > known.positions:
        yield f"length={length} is above the {known.positions} positions of size={size}; set that at most"
