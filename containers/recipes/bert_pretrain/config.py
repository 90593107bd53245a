"""What a person may set, `--set key=value`: read strictly, all mistakes told at once. Standard library only.

A new setting is one field of BertConfig, one row of SETTINGS, and one default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.recipes.bert_pretrain.defaults import (
    ARTICLE_ACCUMULATION_STEPS,
    BY_SIZE,
    EVERY_SIZE,
    PEAKS,
    SECOND_PHASE,
)
from slipway.containers.training.config import FREE_TO_CHANGE, TRAINING_SETTINGS, TrainingConfig
from slipway.containers.training.counting import steps_of_sequences
from slipway.containers.training.engine_settings import (
    ENGINE_DEFAULTS,
    ENGINE_SETTINGS,
    engine_mistakes,
    keeps_no_zero,
)
from slipway.containers.training.schedules import DECAYS
from slipway.containers.training.settings import InvalidSettings, read_values, split_arguments
from slipway.containers.training.value_kinds import (
    LEARNING_RATE,
    Choice,
    Number,
    RelativePath,
    ValueKind,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig(TrainingConfig):
    size: str  # of the model, where nothing below says another; its schedule counts in any case
    config: str | None  # a config.json below the data folder
    start_from_model: str | None  # a model folder below the data folder: its weights, and its config.json
    phase: int
    dataset: str | None  # below the data folder; None: that folder, or phase1 or phase2 in it
    held_out: str | None  # a dataset to measure on, likewise
    held_out_share: float | None  # or a share of this one's shards, which are then not trained on
    held_out_rows: int  # at most, of a measurement
    start_from: str | None  # the job whose newest weights phase 2 begins with
    micro_batch: int
    accumulation_steps: int | None  # one of these two: the other follows from the number of ranks
    global_batch: int | None
    steps: int | None  # one of these two: how long the training is
    sequences: int | None
    learning_rate: float | None  # None: PEAKS, scaled to the global batch
    schedule: str
    warmup_share: float
    constant_share: float
    decay_power: float
    dropout: float | None  # None: what config.json says

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

_TWO_CONFIGS = "config and start_from_model: a model folder has its own config.json; set one of them"
_NO_LEVEL_WITH_NVIDIA = (
    "schedule=nvidia and constant_share: NVIDIA's schedule has no constant phase; "
    "set constant_share=0 or schedule=habana"
)

_SIZE = Choice(tuple(BY_SIZE))
_BATCH = Whole(1, 10_000_000)

SETTINGS: Mapping[str, ValueKind] = {
    "size": _SIZE,
    "config": RelativePath(),
    "start_from_model": RelativePath(),
    "phase": Whole(1, 2),
    "dataset": RelativePath(),
    "held_out": RelativePath(),
    "held_out_share": Number(1e-6, 0.5),
    "held_out_rows": Whole(1, 100_000_000),
    "start_from": RelativePath(),
    "micro_batch": Whole(1, 65_536),
    "accumulation_steps": Whole(1, 65_536),
    "global_batch": _BATCH,
    "steps": Whole(1, 100_000_000),
    "sequences": Whole(1, 1_000_000_000_000),
    **TRAINING_SETTINGS,
    **ENGINE_SETTINGS,
    "optimizer": Choice(("lamb", "lans", "adamw")),
    "learning_rate": LEARNING_RATE,
    "schedule": Choice(tuple(DECAYS)),
    "warmup_share": Number(0.0, 1.0),
    "constant_share": Number(0.0, 1.0),
    "decay_power": Number(0.0, 4.0),
    "dropout": Number(0.0, 0.9),
    "device": Choice(("auto", "hpu", "cuda", "cpu")),
}


def decode_arguments(arguments: Sequence[str]) -> BertConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS)
    values, more = read_values({**_defaults(given), **given}, SETTINGS)
    mistakes += [*more, *(reason for is_so, reason in _contradictions(values) if is_so)]
    mistakes += [*engine_mistakes(values), *_no_rate(values)]
    if mistakes:
        raise InvalidSettings(mistakes)
    return BertConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


def decode(given: Mapping[str, str]) -> BertConfig:
    return decode_arguments([f"{key}={text}" for key, text in given.items()])


def _defaults(given: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults for the size and phase that were asked for, or for tiny if those are mistaken."""
    size = given.get("size", "tiny") if given.get("size", "tiny") in BY_SIZE else "tiny"
    defaults = {**ENGINE_DEFAULTS, **EVERY_SIZE, "size": size, **BY_SIZE[size]}
    if keeps_no_zero(given):
        defaults["zero"] = "0"
    if given.get("phase") == "2":
        defaults |= SECOND_PHASE[size]
    if "config" in given or "start_from_model" in given:
        defaults.pop("dropout")
    if "global_batch" not in defaults:
        defaults.setdefault("accumulation_steps", ARTICLE_ACCUMULATION_STEPS)
    # Where one of two is given, the default of the other gives way; both given is a contradiction.
    for pair in (("global_batch", "accumulation_steps"), ("steps", "sequences")):
        for one, other in (pair, pair[::-1]):
            if one in given:
                defaults.pop(other, None)
    return defaults


def _no_rate(values: Mapping[str, object]) -> list[str]:
    """Refuse to train with one optimizer at the rate that was published for another."""
    peak = PEAKS.get((str(values["size"]), values["phase"] if isinstance(values["phase"], int) else 0))
    if peak is None or values["learning_rate"] is not None or values["optimizer"] in (None, peak.optimizer):
        return []
    asked = f"optimizer={values['optimizer']} and no learning_rate"
    fix = f"set learning_rate, or optimizer={peak.optimizer}"
    return [f"{asked}: the published one of size={values['size']} is for {peak.optimizer}; {fix}"]


def _contradictions(values: Mapping[str, object]) -> list[tuple[bool, str]]:
    both_batches = values["global_batch"] is not None and values["accumulation_steps"] is not None
    both_lengths = values["steps"] is not None and values["sequences"] is not None
    shares = [
        value for name in ("warmup_share", "constant_share") if isinstance(value := values[name], float)
    ]
    return [
        *_held_out_contradictions(values),
        (values["config"] is not None and values["start_from_model"] is not None, _TWO_CONFIGS),
        (both_batches, "global_batch and accumulation_steps: one follows from the other; set one of them"),
        (both_lengths, "steps and sequences: one follows from the other; set one of them"),
        (sum(shares) > 1, "warmup_share and constant_share make more than 1: nothing is left; set less"),
        (values["schedule"] == "nvidia" and values["constant_share"] != 0, _NO_LEVEL_WITH_NVIDIA),
    ]


def _held_out_contradictions(values: Mapping[str, object]) -> list[tuple[bool, str]]:
    places = [name for name in ("held_out", "held_out_share") if values[name] is not None]
    is_asked = values["evaluate_every"] is not None
    return [
        (
            is_asked and not places,
            "evaluate_every and no rows to measure on; set held_out=DATASET or held_out_share=0.01",
        ),
        (
            bool(places) and not is_asked,
            f"{' and '.join(places)} and no evaluate_every: nothing would be measured; set evaluate_every",
        ),
        (len(places) == 2, "held_out and held_out_share: rows come from one of them; set one of them"),
    ]
