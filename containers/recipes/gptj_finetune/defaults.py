"""What each size is, and what it is tuned with where nobody says otherwise. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.containers.training.config import CHECKPOINT_MINUTES


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
SIZES: Mapping[str, KnownSize] = {
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

EVERY_SIZE: Mapping[str, str] = {
    "task": "sst2",
    "field": "text",
    "loss_on": "label",
    "rows": "packed",
    "epochs": "1",
    "partition": "profiled",
    "lora_rank": "0",
    "lora_alpha": "16",
    "optimizer": "adamw",
    "beta1": "0.9",
    "beta2": "0.999",
    "epsilon": "1e-8",
    "weight_decay": "0",
    "clip_norm": "1",
    "schedule": "cosine",
    "warmup": "0.03",
    "evaluate": "end",
    "device": "auto",
    "precision": "auto",
    "seed": "42",
    "on_nan": "stop",
    "resume": "auto",
    "checkpoint_every": "500",
    "checkpoint_minutes": CHECKPOINT_MINUTES,
    "keep": "2",
    "log_every": "10",
}

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
