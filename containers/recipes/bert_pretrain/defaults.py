"""What each size is trained with where nobody says otherwise: the article's numbers, and published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

EVERY_SIZE: Mapping[str, str] = {
    "phase": "1",
    "micro_batch": "16",  # the article's
    "weight_decay": "0.01",
    "clip_norm": "1",
    "dropout": "0.1",
    "device": "auto",
    "precision": "auto",
    "engine": "auto",
    "seed": "12345",
    "on_nan": "stop",
    "resume": "auto",
    "checkpoint_every": "200",
    "keep": "3",
    "log_every": "10",
}

# large: LAMB's published phases (NVIDIA DeepLearningExamples, PyTorch/LanguageModeling/BERT).
# 1.5b: the article trains on 64 devices for 25 h at 1,883 sequences/s, which is 6,900 steps of 24,576.
BY_SIZE: Mapping[str, Mapping[str, str]] = {
    "large": {
        "optimizer": "lamb",
        "zero": "0",
        "steps": "7038",
        "warmup_share": "0.2843",
        "decay_power": "0.5",
    },
    "1.5b": {
        "optimizer": "adamw",
        "zero": "1",
        "steps": "6900",
        "warmup_share": "0.2843",
        "decay_power": "1",
    },
    "tiny": {
        "optimizer": "adamw",
        "zero": "1",
        "steps": "60",
        "warmup_share": "0.1",
        "decay_power": "1",
        "checkpoint_every": "10",
        "log_every": "1",
        "accumulation_steps": "1",
    },
}
SECOND_PHASE: Mapping[str, Mapping[str, str]] = {
    "large": {"steps": "1563", "warmup_share": "0.128"},
    "1.5b": {"steps": "1563", "warmup_share": "0.128"},
    "tiny": {},
}
ARTICLE_ACCUMULATION_STEPS = "24"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Scale a learning rate published for one global batch to another: batch ** power."""

    rate: float
    global_batch: int
    power: float

    def at(self, global_batch: int) -> float:
        return self.rate * math.pow(global_batch / self.global_batch, self.power)


# 1.5b: 0.0015 on 8 nodes and 0.003 on 16 (8 devices × 16 × 24 each) is a line through zero.
PEAKS: Mapping[tuple[str, int], Peak] = {
    ("large", 1): Peak(rate=6e-3, global_batch=65_536, power=0.5),
    ("large", 2): Peak(rate=4e-3, global_batch=32_768, power=0.5),
    ("1.5b", 1): Peak(rate=1.5e-3, global_batch=24_576, power=1.0),
    ("1.5b", 2): Peak(rate=1.5e-3, global_batch=24_576, power=1.0),
    ("tiny", 1): Peak(rate=1e-3, global_batch=32, power=0.0),
    ("tiny", 2): Peak(rate=1e-3, global_batch=32, power=0.0),
}
