"""What each size is trained with where nobody says otherwise: the article's numbers, and published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.containers.training.config import CHECKPOINT_MINUTES

EVERY_SIZE: Mapping[str, str] = {
    "phase": "1",
    "micro_batch": "16",  # the article's
    "schedule": "habana",
    "constant_share": "0",
    "decay_power": "1",
    "weight_decay": "0.01",
    "clip_norm": "1",
    "dropout": "0.1",
    "device": "auto",
    "precision": "auto",
    "seed": "12345",
    "on_nan": "stop",
    "resume": "auto",
    "checkpoint_every": "200",
    "checkpoint_minutes": CHECKPOINT_MINUTES,
    "keep": "3",
    "log_every": "10",
    "held_out_rows": "4096",
}

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
