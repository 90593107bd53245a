"""The settings of GPT-J tuning, `--set key=value`; reports all mistakes at once. Standard library only.

A new setting is one field of GptjConfig.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from slipway.containers.training.config import DecoderConfig, decoder_mistakes
from slipway.containers.training.layout import ImpossibleLayout, Layout, share_batch
from slipway.containers.training.settings import (
    Compiling,
    Count,
    PathBelow,
    Seed,
    Share,
    choice,
    made,
    number,
    read_settings,
    whole,
)
from slipway.containers.training.text_location import S3_OR_FOLDER

# The size that an estimate takes by default.
ARTICLE: Mapping[str, str] = {"size": "gptj-6b", "model": "gpt-j-6b"}
# The sizes, and the defaults of their settings. Standard library only.


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSize:
    """Hold what decides how a published GPT-J can be cut."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    rotary_dimensions: int
    positions: int
    initial_spread: float = 0.02


# EleutherAI/gpt-j-6b as its config.json describes it; tiny is ours, for a processor.
KNOWN_SIZES: Mapping[str, KnownSize] = {
    "gptj-6b": KnownSize(
        layers=28, hidden=4096, heads=16, vocabulary=50400, rotary_dimensions=64, positions=2048
    ),
    "tiny": KnownSize(
        layers=4,
        hidden=64,
        heads=4,
        vocabulary=1280,
        rotary_dimensions=8,
        positions=256,
        initial_spread=0.05,
    ),
}
DRAWN = "tiny"  # the size that needs no published weights, and brings its own vocabulary

# Stages of a pipeline keep buffers for each size of inputs that they have met, and tensor ranks work out anew
# what each operation sends, which takes longer than a tiny step: so few sizes there are.
CUT_MULTIPLE = 64
KEEPS_REST = False  # what an epoch leaves of a batch waits for the next one

# The article tunes on ml.p4d.24xlarge: tensor parallel over its eight GPUs, layers recomputed. Its page gives
# no rate and no batch; these are ours.
BY_SIZE: Mapping[str, Mapping[str, str]] = {
    "gptj-6b": {
        "length": "512",
        "global_batch": "64",
        "micro_batch": "8",
        "rate": "5e-6",
        "least_rate": "0",
        "tensor": "8",
        "checkpoint_activations": "layer",
    },
    "tiny": {
        "length": "128",
        "global_batch": "32",
        "micro_batch": "8",
        "rate": "2e-3",
        "least_rate": "2e-4",
        "epochs": "2",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjConfig(DecoderConfig):
    # Decides the defaults; tiny is also the model, unless `model` names another.
    size: Annotated[str, choice(tuple(KNOWN_SIZES))] = DRAWN
    model: Annotated[str | None, S3_OR_FOLDER] = None  # a published folder, below the data folder or in S3
    task: Annotated[str, choice(("sst2", "text"))] = "sst2"  # text: any, to go on writing
    # Below the data folder or in S3; None: the folder of the task's name.
    data: Annotated[str | None, S3_OR_FOLDER] = None
    held_out: Annotated[str | None, S3_OR_FOLDER] = None  # of text: likewise, to measure on
    field: PathBelow = "text"  # of JSON lines: what holds the text
    length: Annotated[int, whole(8, 1 << 16)]  # tokens of a row at most
    loss_on: Annotated[str, choice(("label", "row"))] = "label"  # of sst2: its words alone, or the whole row
    # Laid end to end without padding, or padded to the longest beside them.
    rows: Annotated[str, choice(("packed", "padded"))] = "packed"
    epochs: Annotated[int, whole(1, 1000)] = 1
    steps: Annotated[int | None, whole(1, 100_000_000)] = None  # fewer than the epochs have
    global_batch: Count
    engine: Annotated[str, choice(("auto", "native", "smp"))] = "auto"
    warmup: Share = 0.03
    beta2: Annotated[float, number(0.0, 0.99999)] = 0.999
    weight_decay: Share = 0.0
    partition: Annotated[str, choice(("profiled", "even"))] = "profiled"  # of the layers over the stages
    lora_rank: Annotated[int, whole(0, 4096)] = 0  # 0: all weights are trained
    lora_alpha: Annotated[float, number(1e-3, 1e5)] = 16.0
    evaluate: Annotated[str, choice(("epoch", "end"))] = "end"
    device: Annotated[str, choice(("auto", "cuda", "cpu"))] = "auto"
    compile_layers: Compiling = "no"  # rows have other lengths at each step, and each would be a new graph
    seed: Seed = 42
    checkpoint_every: Count = 500
    keep: Annotated[int, whole(2, 1000)] = 2

    # start.py adds the rows and the weights as they turn out, and the steps.
    own_free: ClassVar[frozenset[str]] = frozenset(
        {
            *("model", "data", "held_out", "field", "rows", "micro_batch", "epochs", "steps"),
            *("partition", "evaluate"),
        }
    )

    @property
    def stages(self) -> int:
        return self.pipeline * self.stages_per_rank


def decode_arguments(arguments: Sequence[str]) -> GptjConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    _, values, mistakes = read_settings(GptjConfig, arguments, _defaults)
    return made(GptjConfig, values, [*mistakes, *_contradictions(values), *decoder_mistakes(values)])


def decode(given: Mapping[str, str]) -> GptjConfig:
    return decode_arguments([f"{key}={text}" for key, text in given.items()])


def _defaults(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the defaults for the size that was asked for, or for tiny if that is mistaken."""
    return BY_SIZE.get(given.get("size", DRAWN), BY_SIZE[DRAWN])


def _contradictions(values: Mapping[str, object]) -> Iterator[str]:
    if values["size"] != DRAWN and values["model"] is None:
        yield f"size={values['size']} begins with published weights; set model to their folder, here or in S3"
    if values["offload_activations"] == "yes" and values["checkpoint_activations"] == "none":
        yield (
            "offload_activations=yes and checkpoint_activations=none: all that layers keep would be moved; "
            "set checkpoint_activations=layer, so that only their inputs are"
        )
    if values["held_out"] is not None and values["task"] == "sst2":
        yield "held_out and task=sst2: its validation set is measured on; leave held_out out"
    if values["sequence_parallel"] == "yes":
        tensor = values["tensor"]
        if isinstance(tensor, int) and CUT_MULTIPLE % tensor:
            yield (
                f"sequence_parallel=yes: tensor={tensor} does not divide {CUT_MULTIPLE}, of which rows are "
                "made multiples; set a divisor of it"
            )
        if values["lora_rank"]:
            yield "sequence_parallel=yes and lora_rank: adapters see whole rows; leave sequence_parallel out"
    if values["evaluate_every"] is not None:
        yield "evaluate_every: this recipe measures by epochs; set evaluate=epoch instead"
    if values["engine"] == "smp":
        yield from _smp_mistakes(values)
    if values["model"] is None and values["size"] == DRAWN:
        # What a laptop can tell of a layout: of published weights, config.json decides, where they lie.
        known, tensor, length = KNOWN_SIZES[DRAWN], values["tensor"], values["length"]
        if isinstance(tensor, int) and known.heads % tensor:
            heads = f"the {known.heads} heads of size={DRAWN}"
            yield f"tensor={tensor} does not divide {heads}; set a divisor of them"
        if isinstance(length, int) and length > known.positions:
            places = f"the {known.positions} positions of size={DRAWN}"
            yield f"length={length} is above {places}; set that at most"


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


# Fine-tuning of GPT-J as the planner and the submitters see it. Standard library only: a laptop reads it.
CONFIG = GptjConfig
SUMMARY = "Fine-tune GPT-J on SST-2"
MODULE = "slipway.containers.recipes.gptj_finetune.train"
ACCELERATORS = ("cuda", "cpu")
INPUT_SETTINGS = ("data", "held_out", "model")  # each may name a folder in S3


def refuse_ranks(arguments: Sequence[str], world: int, ranks_per_node: int) -> None:
    """Refuse ranks that the settings cannot be shared out to, before a machine is paid for."""
    config = decode_arguments(arguments)
    refuse_layout(config, config.layout_of(world, ranks_per_node))


# Which ranks a tuning can have: told where it is submitted, and again where it starts. No torch here.


def refuse_layout(config: GptjConfig, layout: Layout) -> None:
    refuse_spanning(layout)
    config.check_step(layout, share_batch(config.global_batch, config.micro_batch, layout.readers))


def refuse_spanning(layout: Layout) -> None:
    """Raise ImpossibleLayout where ranks that cut one layer would talk over the nodes' network."""
    if layout.spans_nodes:
        raise ImpossibleLayout(
            f"tensor={layout.tensor} exceeds a node, which has {layout.ranks_per_node} ranks, or does not "
            "divide them",
            hint=f"set tensor to a divisor of {layout.ranks_per_node}, and pipeline for the rest",
        )
