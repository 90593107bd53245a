"""The settings of BERT pre-training, `--set key=value`; reports all mistakes at once. Standard library only.

A new setting is one field of BertConfig.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from slipway.containers.training.config import (
    FREE_TO_CHANGE,
    TWO_CONFIGS,
    SpreadConfig,
    engine_mistakes,
    keeps_no_zero,
)
from slipway.containers.training.layout import BatchPlan, share_batch, steps_of_sequences
from slipway.containers.training.schedules import DECAYS
from slipway.containers.training.settings import (
    RATE,
    Compiling,
    Count,
    Device,
    MaybePath,
    MicroBatch,
    Seed,
    Share,
    choice,
    made,
    number,
    read_settings,
    whole,
)

# The size that an estimate takes by default.
ARTICLE: Mapping[str, str] = {"size": "large"}
# The defaults of each size: the article's numbers, and published ones.
# base: Devlin et al. 2018, A.2: Adam, 256 sequences a step, a million steps, the last tenth of 512 tokens.
# large: LAMB's published phases (NVIDIA DeepLearningExamples, PyTorch/LanguageModeling/BERT).
# 1.5b: Habana's own script for this model (Model-References, deepspeed-bert/scripts/run_bert_1.5b_32x.sh:
# LANS on ZeRO-1's shares, warm-up 0.05, constant 0.25, then in a line to zero), whose rate of 0.0015 is the
# article's. The article trains on 64 devices for 25 h at 1,883 sequences/s: 6,900 steps of 24,576.
BY_SIZE: Mapping[str, Mapping[str, str]] = {
    "base": {
        "optimizer": "adamw",
        "zero": "0",
        "global_batch": "256",
        "sequences": str(900_000 * 256),
        "warmup_share": "0.0111",
    },
    "large": {
        "optimizer": "lamb",
        "zero": "0",
        "sequences": str(7038 * 65_536),
        "schedule": "nvidia",
        "warmup_share": "0.2843",
        "decay_power": "0.5",
    },
    "1.5b": {
        "optimizer": "lans",
        "zero": "1",
        "sequences": str(6900 * 24_576),
        "warmup_share": "0.05",
        "constant_share": "0.25",
    },
    "tiny": {
        "optimizer": "adamw",
        "zero": "1",
        "steps": "60",
        "warmup_share": "0.1",
        "checkpoint_every": "10",
        "log_every": "1",
        "accumulation_steps": "1",
    },
}
_PHASE_2 = {"sequences": str(1563 * 32_768), "warmup_share": "0.128"}  # NVIDIA's second phase
SECOND_PHASE: Mapping[str, Mapping[str, str]] = {
    "base": {"sequences": str(100_000 * 256), "warmup_share": "0"},
    "large": _PHASE_2,
    "1.5b": {**_PHASE_2, "constant_share": "0"},
    "tiny": {},
}
ARTICLE_ACCUMULATION_STEPS = "24"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Scale a learning rate published for one optimizer and global batch to another batch: batch ** power."""

    optimizer: str
    rate: float
    global_batch: int
    power: float

    def at(self, global_batch: int) -> float:
        return self.rate * math.pow(global_batch / self.global_batch, self.power)


# base: the paper's 1e-4, of which a tenth is left for phase 2; for another batch by its root, which is ours.
# large: NVIDIA's, for LAMB. 1.5b: the article's 0.0015 on 8 nodes and 0.003 on 16 (8 devices × 16 × 24) is
# a line through zero; the article names no optimizer, and Habana's script has 0.0015 for LANS. tiny: ours.
PEAKS: Mapping[tuple[str, int], Peak] = {
    ("base", 1): Peak(optimizer="adamw", rate=1e-4, global_batch=256, power=0.5),
    ("base", 2): Peak(optimizer="adamw", rate=1e-5, global_batch=256, power=0.5),
    ("large", 1): Peak(optimizer="lamb", rate=6e-3, global_batch=65_536, power=0.5),
    ("large", 2): Peak(optimizer="lamb", rate=4e-3, global_batch=32_768, power=0.5),
    ("1.5b", 1): Peak(optimizer="lans", rate=1.5e-3, global_batch=24_576, power=1.0),
    ("1.5b", 2): Peak(optimizer="lans", rate=1.5e-3, global_batch=24_576, power=1.0),
    ("tiny", 1): Peak(optimizer="adamw", rate=1e-3, global_batch=32, power=0.0),
    ("tiny", 2): Peak(optimizer="adamw", rate=1e-3, global_batch=32, power=0.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig(SpreadConfig):
    # Decides the model, unless a setting below names another, and always the schedule.
    size: Annotated[str, choice(tuple(BY_SIZE))] = "tiny"
    config: MaybePath = None  # a config.json below the data folder
    start_from_model: MaybePath = None  # a model folder below the data folder: its weights, and config.json
    phase: Annotated[int, whole(1, 2)] = 1
    dataset: MaybePath = None  # below the data folder; None: that folder, or phase1 or phase2 in it
    held_out: MaybePath = None  # a dataset to measure on, likewise
    # Or a share of this one's shards, which are then not trained on.
    held_out_share: Annotated[float | None, number(1e-6, 0.5)] = None
    held_out_rows: Annotated[int, whole(1, 100_000_000)] = 4096  # at most, of a measurement
    start_from: MaybePath = None  # the job whose newest weights phase 2 begins with
    micro_batch: MicroBatch = 16  # the article's
    # One of these two: the other follows from the number of ranks.
    accumulation_steps: Annotated[int | None, whole(1, 65_536)] = None
    global_batch: Annotated[int | None, whole(1, 10_000_000)] = None
    # One of these two: how long the training is.
    steps: Annotated[int | None, whole(1, 100_000_000)] = None
    sequences: Annotated[int | None, whole(1, 1_000_000_000_000)] = None
    optimizer: Annotated[str, choice(("lamb", "lans", "adamw"))]
    learning_rate: Annotated[float | None, RATE] = None  # None: PEAKS, scaled to the global batch
    schedule: Annotated[str, choice(tuple(DECAYS))] = "habana"
    warmup_share: Share
    constant_share: Share = 0.0
    decay_power: Annotated[float, number(0.0, 4.0)] = 1.0
    weight_decay: Share = 0.01
    dropout: Annotated[float | None, number(0.0, 0.9)] = None  # None: what config.json says
    device: Device = "auto"
    compile_layers: Compiling = "auto"
    seed: Seed = 12345
    checkpoint_every: Count = 200
    keep: Annotated[int, whole(2, 1000)] = 3

    @property
    def free_to_change(self) -> frozenset[str]:
        # LANS divides by the norm of what it is given, which ZeRO changes.
        free = FREE_TO_CHANGE - {"zero"} if self.optimizer == "lans" else FREE_TO_CHANGE
        return free | _OWN_FREE_TO_CHANGE

    def steps_of(self, global_batch: int) -> int:
        """Return how many steps of so many sequences the training takes."""
        if self.steps is not None:
            return self.steps
        assert self.sequences is not None, "the config has one of both"
        return steps_of_sequences(self.sequences, global_batch)


# start.py adds steps, batch and what is held out as they turn out; the cursor knows the dataset.
_OWN_FREE_TO_CHANGE = frozenset(
    {
        *("steps", "sequences", "dataset", "accumulation_steps", "global_batch"),
        *("config", "start_from", "start_from_model"),  # the model itself is compared
        *("held_out", "held_out_share", "held_out_rows"),
    }
)


def decode_arguments(arguments: Sequence[str]) -> BertConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    _, values, mistakes = read_settings(BertConfig, arguments, _defaults)
    mistakes += [*_contradictions(values), *engine_mistakes(values)]
    peak = PEAKS.get((str(values["size"]), values["phase"] if isinstance(values["phase"], int) else 0))
    has_rate = values["learning_rate"] is not None
    if peak is not None and not has_rate and values["optimizer"] not in (None, peak.optimizer):
        # Refuse to train with one optimizer at the rate that was published for another.
        asked = f"optimizer={values['optimizer']} and no learning_rate"
        fix = f"set learning_rate, or optimizer={peak.optimizer}"
        mistakes.append(f"{asked}: the published one of size={values['size']} is for {peak.optimizer}; {fix}")
    return made(BertConfig, values, mistakes)


def decode(given: Mapping[str, str]) -> BertConfig:
    return decode_arguments([f"{key}={text}" for key, text in given.items()])


def _defaults(given: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults for the size and phase that were asked for, or for tiny if those are mistaken."""
    size = given.get("size", "tiny") if given.get("size", "tiny") in BY_SIZE else "tiny"
    defaults = {**BY_SIZE[size]}
    if keeps_no_zero(given):
        defaults["zero"] = "0"
    if given.get("phase") == "2":
        defaults |= SECOND_PHASE[size]
    if "config" not in given and "start_from_model" not in given:
        defaults["dropout"] = "0.1"
    if "global_batch" not in defaults:
        defaults.setdefault("accumulation_steps", ARTICLE_ACCUMULATION_STEPS)
    # If one of a pair is set, the default of the other does not count; to set both is a contradiction.
    for pair in (("global_batch", "accumulation_steps"), ("steps", "sequences")):
        for one, other in (pair, pair[::-1]):
            if one in given:
                defaults.pop(other, None)
    return defaults


def _contradictions(values: Mapping[str, object]) -> Iterator[str]:
    places = [name for name in ("held_out", "held_out_share") if values[name] is not None]
    if values["evaluate_every"] is not None and not places:
        yield "evaluate_every and no rows to measure on; set held_out=DATASET or held_out_share=0.01"
    if places and values["evaluate_every"] is None:
        yield f"{' and '.join(places)} and no evaluate_every: nothing would be measured; set evaluate_every"
    if len(places) == 2:
        yield "held_out and held_out_share: rows come from one of them; set one of them"
    if values["config"] is not None and values["start_from_model"] is not None:
        yield TWO_CONFIGS
    if values["global_batch"] is not None and values["accumulation_steps"] is not None:
        yield "global_batch and accumulation_steps: one follows from the other; set one of them"
    if values["steps"] is not None and values["sequences"] is not None:
        yield "steps and sequences: one follows from the other; set one of them"
    shares = [values["warmup_share"], values["constant_share"]]
    if sum(share for share in shares if isinstance(share, float)) > 1:
        yield "warmup_share and constant_share make more than 1: nothing is left; set less"
    if values["schedule"] == "nvidia" and values["constant_share"] != 0:
        yield (
            "schedule=nvidia and constant_share: NVIDIA's schedule has no constant phase; "
            "set constant_share=0 or schedule=habana"
        )


def plan_batch(config: BertConfig, readers: int) -> BatchPlan:
    """Share the batch that the settings ask for among ranks that train on rows of their own."""
    if config.global_batch is not None:
        return share_batch(config.global_batch, config.micro_batch, readers, called="ranks")
    assert config.accumulation_steps is not None, "the config has one of both"
    return BatchPlan(
        micro_batch=config.micro_batch, accumulation_steps=config.accumulation_steps, readers=readers
    )


# BERT pre-training as the planner and the submitters see it. Standard library only: a laptop reads it.
CONFIG = BertConfig
SUMMARY = "Pre-train BERT on prepared rows"
MODULE = "slipway.containers.recipes.bert_pretrain.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")
SIZES = ("base", "large", "1.5b", "tiny")
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster
