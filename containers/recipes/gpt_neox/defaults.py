"""What each size is trained with where nobody says otherwise: the numbers of AWS's article on Trainium."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.containers.training.config import CHECKPOINT_MINUTES

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
