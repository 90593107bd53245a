"""The settings of GPT-NeoX training, `--set key=value`; reports all mistakes at once. Standard library only.

A new setting is one field of GptNeoxConfig.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, ClassVar

from slipway.containers.training.config import TWO_CONFIGS, DecoderConfig, decoder_mistakes
from slipway.containers.training.layout import (
    Layout,
    sequences_of_tokens,
    share_batch,
    steps_of_sequences,
)
from slipway.containers.training.settings import (
    Compiling,
    Count,
    InvalidSettings,
    LearningRate,
    MaybePath,
    PathBelow,
    Seed,
    Share,
    choice,
    made,
    number,
    read_settings,
    whole,
)

# The size that an estimate takes by default.
ARTICLE: Mapping[str, str] = {"size": "neox-20b"}
# The defaults of each size: the numbers of AWS's article on Trainium.
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
class GptNeoxConfig(DecoderConfig):
    # Decides the model, unless a setting below names another, and always the schedule.
    size: Annotated[str, choice(tuple(BY_SIZE))] = "tiny"
    config: MaybePath = None  # a config.json below the data folder
    start_from_model: MaybePath = None  # a model folder below the data folder: its weights, and config.json
    start_from: MaybePath = None  # the job whose newest weights it begins with
    # Rows of the embeddings; None: the model's own.
    vocabulary: Annotated[int | None, whole(2, 1 << 24)] = None
    # The path of a .bin and .idx below the data folder, without these endings; or RANDOM. prepare_tokens
    # leaves them there.
    data: PathBelow = "tokens/tokens"
    held_out: MaybePath = None  # likewise, to measure on
    held_out_rows: Annotated[int, whole(1, 100_000_000)] = 256
    length: Annotated[int, whole(2, 1 << 20)] = 2048  # tokens of a row
    global_batch: Annotated[int, whole(1, 10_000_000)] = 256
    tokens: Annotated[int, whole(1, 999_999_999_999)] = 10_000 * 256 * 2048  # of the whole training
    # Compile so many steps and throw away what they give; None: train.
    steps: Annotated[int | None, whole(1, 100)] = None
    compiled: Annotated[str, choice(("same", "any"))] = "same"
    engine: Annotated[str, choice(("auto", "native", "neuron"))] = "auto"
    least_rate: LearningRate
    warmup: Share = 0.01
    beta2: Annotated[float, number(0.0, 0.99999)] = 0.95
    weight_decay: Share = 0.01
    # How heads are turned; auto: whole ones where NxD trains, as the article has it.
    rotary: Annotated[str, choice(("auto", "published", "whole"))] = "auto"
    device: Annotated[str, choice(("auto", "neuron", "cuda", "cpu"))] = "auto"
    compile_layers: Compiling = "auto"
    seed: Seed = 1234
    checkpoint_every: Count = 500
    keep: Annotated[int, whole(2, 1000)] = 3
    log_every: Count = 1

    def engine_on(self, accelerator: str | None) -> str:
        """Return the vendor's engine on Trainium where none is asked for."""
        is_neuron = self.engine == "auto" and "neuron" in (accelerator, self.device)
        return "neuron" if is_neuron else self.engine_name

    def resolved(self, accelerator: str | None) -> GptNeoxConfig:
        """Return the config with what follows from the nodes; raise InvalidSettings if it cannot."""
        if self.engine_on(accelerator) != "neuron":
            return replace(self, rotary="published") if self.rotary == "auto" else self
        if mistakes := list(neuron_mistakes(asdict(self))):
            raise InvalidSettings(mistakes)
        return replace(self, engine="neuron", rotary="whole" if self.rotary == "auto" else self.rotary)

    # start.py adds the steps; the model itself is compared, and the cursor knows the data.
    own_free: ClassVar[frozenset[str]] = frozenset(
        {
            *("config", "start_from", "start_from_model", "data", "held_out", "held_out_rows"),
            *("micro_batch", "tokens", "steps", "compiled"),
        }
    )

    @property
    def all_steps(self) -> int:
        """Return how many steps the tokens make, the last one whole."""
        sequences = sequences_of_tokens(self.tokens, self.length)
        return steps_of_sequences(sequences, self.global_batch)


def decode_arguments(arguments: Sequence[str]) -> GptNeoxConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    _, values, mistakes = read_settings(GptNeoxConfig, arguments, _defaults)
    return made(GptNeoxConfig, values, [*mistakes, *_contradictions(values), *decoder_mistakes(values)])


def decode(given: Mapping[str, str]) -> GptNeoxConfig:
    return decode_arguments([f"{key}={text}" for key, text in given.items()])


def _defaults(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the defaults for the size that was asked for, or for tiny if that is mistaken."""
    return BY_SIZE.get(given.get("size", "tiny"), BY_SIZE["tiny"])


def _contradictions(values: Mapping[str, object]) -> Iterator[str]:
    if values["config"] is not None and values["start_from_model"] is not None:
        yield TWO_CONFIGS
    if (values["held_out"] is None) != (values["evaluate_every"] is None):
        yield "held_out and evaluate_every belong together: rows to measure on, and how often; set both"
    if values["sequence_parallel"] == "yes":
        length, tensor = values["length"], values["tensor"]
        if isinstance(length, int) and isinstance(tensor, int) and length % tensor:
            yield (
                f"sequence_parallel=yes: tensor={tensor} does not divide a row of length={length}; "
                "set a length that it divides"
            )
    if "neuron" in (values["engine"], values["device"]):
        yield from neuron_mistakes(values)


def neuron_mistakes(values: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each setting that the Neuron engine cannot do."""
    if values["sharded"] not in (None, 1):
        yield "sharded with engine=neuron: NxD shards the optimizer over all data ranks; leave it out"
    if values["sequence_parallel"] == "yes":
        yield "sequence_parallel=yes with engine=neuron: only native does that; leave it out"
    if values["precision"] == "fp16":
        yield "precision=fp16 with engine=neuron: Trainium rounds bf16 stochastically; set precision=bf16"
    if values["on_nan"] == "skip":
        yield "on_nan=skip with engine=neuron: NxD cannot take back a step; set on_nan=stop"
    if values["held_out"] is not None and values["pipeline"] != 1:
        yield "held_out with engine=neuron and a pipeline: NxD measures whole steps only; leave it out"
    if values["pipeline_schedule"] != "1f1b":
        yield f"pipeline_schedule={values['pipeline_schedule']} with engine=neuron: NxD runs 1f1b; set that"


# GPT-NeoX pre-training as the planner and the submitters see it. Standard library only.
CONFIG = GptNeoxConfig
SUMMARY = "Pre-train GPT-NeoX or Pythia on prepared tokens"
MODULE = "slipway.containers.recipes.gpt_neox.train"
ACCELERATORS = ("neuron", "cuda", "cpu")
SIZES = ("neox-20b", "pythia-6.9b", "tiny")
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster


def refuse_ranks(arguments: Sequence[str], world: int, ranks_per_node: int) -> None:
    """Refuse ranks that the settings cannot be shared out to, before a machine is paid for."""
    config = decode_arguments(arguments)
    refuse_layout(config, config.layout_of(world, ranks_per_node))


def refuse_layout(config: GptNeoxConfig, layout: Layout) -> None:
    config.check_step(layout, share_batch(config.global_batch, config.micro_batch, layout.readers))
