"""What a person may set, `--set key=value`: read strictly, all mistakes told at once. Standard library only.

A new setting is one field of GptNeoxConfig, one row of SETTINGS, and one default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.training.config import (
    CHECKPOINT_MINUTES,
    ENGINE_DEFAULTS,
    ENGINE_SETTINGS,
    FREE_TO_CHANGE,
    TRAINING_SETTINGS,
    TrainingConfig,
    engine_mistakes,
)
from slipway.containers.training.layout import sequences_of_tokens, share_batch, steps_of_sequences
from slipway.containers.training.schedules import DECAYS
from slipway.containers.training.settings import (
    LEARNING_RATE,
    Choice,
    InvalidSettings,
    Number,
    RelativePath,
    ValueKind,
    Whole,
    read_values,
    split_arguments,
)

# What each size is trained with where nobody says otherwise: the numbers of AWS's article on Trainium.
EVERY_SIZE: Mapping[str, str] = {
    "data": "tokens/tokens",  # where prepare_tokens leaves them
    "length": "2048",
    "global_batch": "256",
    "tokens": str(10_000 * 256 * 2048),
    "optimizer": "adamw",
    "beta1": "0.9",
    "beta2": "0.95",
    "epsilon": "1e-8",
    "weight_decay": "0.01",
    "clip_norm": "1",
    "schedule": "cosine",
    "warmup": "0.01",
    "rotary": "published",
    "compiled": "same",
    "device": "auto",
    "precision": "auto",
    "seed": "1234",
    "on_nan": "stop",
    "resume": "auto",
    "checkpoint_every": "500",
    "checkpoint_minutes": CHECKPOINT_MINUTES,
    "keep": "3",
    "log_every": "1",
    "held_out_rows": "256",
}

# The article's scripts (aws-neuron/neuronx-nemo-megatron, nemo/examples/nlp/language_modeling:
# neoX_20B_slurm.sh and pythia_6.9B_slurm.sh): 10,000 steps of 256 rows, of which 100 warm up; a cosine to the
# least rate; TP 8 × PP 4 and TP 8; one and two rows at a time; layers recomputed. The article's table has a
# global batch of 16,384 for NeoX, which global_batch=16384 gives.
BY_SIZE: Mapping[str, Mapping[str, str]] = {
    "neox-20b": {
        "rate": "9.7e-5",
        "least_rate": "1e-5",
        "micro_batch": "1",
        "tensor": "8",
        "pipeline": "4",
        "checkpoint_activations": "layer",
    },
    "pythia-6.9b": {
        "rate": "1.2e-4",
        "least_rate": "1.2e-5",
        "micro_batch": "2",
        "tensor": "8",
        "checkpoint_activations": "layer",
    },
    # Ours, for a processor: a minute and a half on two nodes.
    "tiny": {
        "length": "64",
        "global_batch": "16",
        "micro_batch": "2",
        "tokens": str(60 * 16 * 64),
        "rate": "3e-3",
        "least_rate": "3e-4",
        "warmup": "0.1",
        "checkpoint_every": "10",
    },
}


RANDOM = "random"  # as data: tokens drawn from the seed, to compile and to measure speed with


@dataclass(frozen=True, slots=True, kw_only=True)
class GptNeoxConfig(TrainingConfig):
    size: str  # of the model, where nothing below says another; its schedule counts in any case
    config: str | None  # a config.json below the data folder
    start_from_model: str | None  # a model folder below the data folder: its weights, and its config.json
    start_from: str | None  # the job whose newest weights it begins with
    vocabulary: int | None  # rows of the embeddings; None: the model's own
    data: str  # the path of a .bin and .idx below the data folder, without these endings; or RANDOM
    held_out: str | None  # likewise, to measure on
    held_out_rows: int
    length: int  # tokens of a row
    micro_batch: int
    global_batch: int
    tokens: int  # of the whole training
    steps: int | None  # compile so many steps and throw away what they give; None: train
    compiled: str
    rate: float
    least_rate: float
    warmup: float  # share of the steps
    schedule: str
    beta1: float
    beta2: float
    epsilon: float
    rotary: str

    @property
    def engine_name(self) -> str:
        return "native" if self.engine == "auto" else self.engine

    def engine_on(self, accelerator: str | None) -> str:
        """Return the vendor's engine on Trainium where none is asked for."""
        is_neuron = self.engine == "auto" and "neuron" in (accelerator, self.device)
        return "neuron" if is_neuron else self.engine_name

    @property
    def free_to_change(self) -> frozenset[str]:
        return FREE_TO_CHANGE | _OWN_FREE_TO_CHANGE

    @property
    def all_steps(self) -> int:
        """Return how many steps the tokens make, the last one whole."""
        sequences = sequences_of_tokens(self.tokens, self.length)
        return steps_of_sequences(sequences, self.global_batch)


# start.py adds the steps; the model itself is compared, and the cursor knows the data.
_OWN_FREE_TO_CHANGE = frozenset(
    {
        *("config", "start_from", "start_from_model", "data", "held_out", "held_out_rows"),
        *("micro_batch", "tokens", "steps", "compiled"),
    }
)
_TWO_CONFIGS = "config and start_from_model: a model folder has its own config.json; set one of them"

SETTINGS: Mapping[str, ValueKind] = {
    "size": Choice(tuple(BY_SIZE)),
    "config": RelativePath(),
    "start_from_model": RelativePath(),
    "start_from": RelativePath(),
    "vocabulary": Whole(2, 1 << 24),
    "data": RelativePath(),
    "held_out": RelativePath(),
    "held_out_rows": Whole(1, 100_000_000),
    "length": Whole(2, 1 << 20),
    "micro_batch": Whole(1, 65_536),
    "global_batch": Whole(1, 10_000_000),
    "tokens": Whole(1, 999_999_999_999),
    "steps": Whole(1, 100),
    "compiled": Choice(("same", "any")),
    **TRAINING_SETTINGS,
    **ENGINE_SETTINGS,
    "engine": Choice(("auto", "native", "neuron")),
    "zero": Whole(0, 0),
    "optimizer": Choice(("adamw",)),
    "rate": LEARNING_RATE,
    "least_rate": LEARNING_RATE,
    "warmup": Number(0.0, 1.0),
    "schedule": Choice(tuple(DECAYS)),
    "beta1": Number(0.0, 0.9999),
    "beta2": Number(0.0, 0.99999),
    "epsilon": Number(1e-12, 1e-2),
    "rotary": Choice(("published", "whole")),
    "device": Choice(("auto", "neuron", "cuda", "cpu")),
}
_KNOWN = {name: kind for name, kind in SETTINGS.items() if name != "zero"}  # which is DeepSpeed's


def decode_arguments(arguments: Sequence[str]) -> GptNeoxConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, _KNOWN)
    values, more = read_values({**_defaults(given), **given}, SETTINGS)
    mistakes += [*more, *_contradictions(values)]
    # Rates, batches and precision are checked as with any engine; which one is this recipe's own affair.
    mistakes += engine_mistakes({**values, "engine": "native"})
    if mistakes:
        raise InvalidSettings(mistakes)
    return GptNeoxConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


def decode(given: Mapping[str, str]) -> GptNeoxConfig:
    return decode_arguments([f"{key}={text}" for key, text in given.items()])


def _defaults(given: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults for the size that was asked for, or for tiny if that is mistaken."""
    size = given.get("size", "tiny") if given.get("size", "tiny") in BY_SIZE else "tiny"
    return {**ENGINE_DEFAULTS, **EVERY_SIZE, "size": size, **BY_SIZE[size]}


def _contradictions(values: Mapping[str, object]) -> Iterator[str]:
    if values["config"] is not None and values["start_from_model"] is not None:
        yield _TWO_CONFIGS
    rate, least = values["rate"], values["least_rate"]
    if isinstance(rate, float) and isinstance(least, float) and least > rate:
        yield f"least_rate={least:g} is above rate={rate:g}; set least_rate to that at most"
    if (values["held_out"] is None) != (values["evaluate_every"] is None):
        yield "held_out and evaluate_every belong together: rows to measure on, and how often; set both"
    if "neuron" in (values["engine"], values["device"]):
        yield from neuron_mistakes(values)


def neuron_mistakes(values: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each setting that the Neuron engine cannot do."""
    if values["sharded"] not in (None, 1):
        yield "sharded with engine=neuron: NxD shards the optimizer over all data ranks; leave it out"
    if values["precision"] == "fp16":
        yield "precision=fp16 with engine=neuron: Trainium rounds bf16 stochastically; set precision=bf16"
    if values["on_nan"] == "skip":
        yield "on_nan=skip with engine=neuron: NxD cannot take back a step; set on_nan=stop"
    if values["held_out"] is not None and values["pipeline"] != 1:
        yield "held_out with engine=neuron and a pipeline: NxD measures whole steps only; leave it out"
    if values["pipeline_schedule"] != "1f1b":
        yield f"pipeline_schedule={values['pipeline_schedule']} with engine=neuron: NxD runs 1f1b; set that"


# GPT-NeoX pre-training as the planner and the submitters see it. Standard library only.
NAME = "gpt_neox"
SUMMARY = "Pre-train GPT-NeoX or Pythia on prepared tokens"
MODULE = "slipway.containers.recipes.gpt_neox.train"
ACCELERATORS = ("neuron", "cuda", "cpu")
PARALLELISMS = ("data", "sharded", "tensor", "pipeline")
SIZES = ("neox-20b", "pythia-6.9b", "tiny")
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster


def refuse_ranks(arguments: Sequence[str], world: int, ranks_per_node: int) -> None:
    """Refuse ranks that the settings cannot be shared out to, before a machine is paid for."""
    config = decode_arguments(arguments)
    share_batch(config.global_batch, config.micro_batch, config.layout_of(world, ranks_per_node).readers)
