"""What a step computes, to say how much of the device it uses (MFU)."""

from __future__ import annotations

from slipway.containers.models.decoder import DecoderShape


def training_flops_per_token(shape: DecoderShape, length: int) -> float:
    """Return 3 × forward: 8H² + 4HI + 4SH for each layer, and 2HV for the head.

    Attention counts as if it saw the whole row, as in published figures; recomputed layers count once.
    """
    layer = 8 * shape.hidden**2 + 4 * shape.hidden * shape.intermediate + 4 * length * shape.hidden
    return 3.0 * (shape.layers * layer + 2 * shape.hidden * shape.vocabulary)
