"""The settings of a fine-tuning, `--set key=value`; all mistakes are reported at once.

A new setting is one field of SftConfig. Standard library only: a laptop reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from slipway.containers.training.layout import BatchPlan, share_batch
from slipway.containers.training.settings import (
    Count,
    LearningRate,
    MicroBatch,
    Seed,
    Share,
    choice,
    made,
    number,
    read_settings,
    whole,
)
from slipway.containers.training.text_location import S3_OR_FOLDER

_YesOrNo = Annotated[str, choice(("no", "yes"))]
_LORA_RATE = "2e-4"  # adapters begin at zero, and take ten times the rate of whole weights


@dataclass(frozen=True, slots=True, kw_only=True)
class SftConfig:
    # A model folder as a hub has it, below the data folder or in S3: what transformers knows as a causal LM.
    model: Annotated[str, S3_OR_FOLDER] = "model"
    data: Annotated[str, S3_OR_FOLDER] = "train.jsonl"  # a file of JSON lines, or a folder of them, likewise
    method: Annotated[str, choice(("sft", "dpo"))] = "sft"  # TRL's SFTTrainer or DPOTrainer
    length: Annotated[int, whole(8, 1 << 20)] = 1024  # tokens of a row at most: the rest is cut off
    loss_on: Annotated[str, choice(("row", "assistant"))] = "row"  # assistant: its messages alone
    dpo_beta: Annotated[float, number(1e-4, 10.0)] = 0.1
    epochs: Annotated[int, whole(1, 1000)] = 1
    steps: Annotated[int | None, whole(1, 100_000_000)] = None  # instead of the epochs
    global_batch: Count = 64
    micro_batch: MicroBatch = 4
    rate: LearningRate = 2e-5
    warmup: Annotated[float, number(0.0, 0.99)] = 0.03  # of the steps
    schedule: Annotated[str, choice(("cosine", "linear", "constant"))] = "cosine"
    weight_decay: Share = 0.0
    clip_norm: Annotated[float, number(1e-6, 1e6)] = 1.0
    lora_rank: Annotated[int, whole(0, 4096)] = 0  # 0: all weights are trained
    lora_alpha: Annotated[float, number(1e-3, 1e5)] = 16.0
    lora_dropout: Annotated[float, number(0.0, 0.9)] = 0.0
    quantize: Annotated[str, choice(("no", "nf4"))] = "no"  # nf4: QLoRA, by bitsandbytes
    fsdp: _YesOrNo = "no"  # cut weights, gradients and optimizer over all ranks: FSDP2 of accelerate
    checkpoint_activations: Annotated[str, choice(("none", "layer"))] = "layer"
    compile_layers: _YesOrNo = "no"  # by torch.compile
    precision: Annotated[str, choice(("auto", "bf16", "fp32"))] = "auto"
    device: Annotated[str, choice(("auto", "cuda", "cpu"))] = "auto"
    seed: Seed = 42
    resume: Annotated[str, choice(("auto", "required", "never"))] = "auto"
    checkpoint_every: Count = 500
    # Save after so long, too, however long a step takes.
    checkpoint_minutes: Annotated[float, number(0.01, 100_000.0)] = 10.0
    keep: Annotated[int, whole(2, 1000)] = 2
    log_every: Count = 10

    def identity(self) -> dict[str, int | float | str | None]:
        """Return the settings that a resumed training must share with the saved one."""
        return {name: value for name, value in asdict(self).items() if name not in _FREE_TO_CHANGE}


# They leave the weights alone; train.py adds the model and the rows by digest, and the precision.
_FREE_TO_CHANGE = frozenset(
    {
        *("model", "data", "micro_batch", "checkpoint_activations", "compile_layers", "precision", "device"),
        *("resume", "checkpoint_every", "checkpoint_minutes", "keep", "log_every"),
    }
)


def decode_arguments(arguments: Sequence[str]) -> SftConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    _, values, mistakes = read_settings(SftConfig, arguments, _defaults)
    return made(SftConfig, values, [*mistakes, *_contradictions(values)])


def _defaults(given: Mapping[str, str]) -> Mapping[str, str]:
    return {"rate": _LORA_RATE} if given.get("lora_rank", "0") != "0" else {}


def _contradictions(values: Mapping[str, object]) -> Iterator[str]:
    if values["quantize"] == "nf4" and values["lora_rank"] == 0:
        yield "quantize=nf4 and lora_rank=0: weights of 4 bits cannot be trained; set lora_rank, such as 16"
    if values["quantize"] == "nf4" and values["fsdp"] == "yes":
        yield "quantize=nf4 and fsdp=yes: nobody has tried the two together; set fsdp=no"
    if values["fsdp"] == "yes" and values["device"] == "cpu":
        yield "fsdp=yes and device=cpu: accelerate cuts models over GPUs alone; set fsdp=no"
    if values["method"] == "dpo" and values["loss_on"] == "assistant":
        yield "method=dpo and loss_on=assistant: DPO compares whole answers; leave loss_on out"


# Fine-tuning by TRL as the planner and the submitters see it.
CONFIG = SftConfig
SUMMARY = "Fine-tune a model of transformers by SFT or DPO"
MODULE = "slipway.containers.recipes.sft.train"
ACCELERATORS = ("cuda", "cpu")
LIBRARY = "trl"  # as the locks of images that hold it name it
INPUT_SETTINGS = ("data", "model")  # each may name a folder in S3


def refuse_ranks(arguments: Sequence[str], world: int, _ranks_per_node: int) -> None:
    """Refuse ranks that cannot share the batch evenly, before a machine is paid for."""
    plan_of(decode_arguments(arguments), world)


def plan_of(config: SftConfig, world: int) -> BatchPlan:
    """Return how the ranks share a step; raise IndivisibleBatch if they cannot."""
    return share_batch(config.global_batch, config.micro_batch, world, called="ranks")
