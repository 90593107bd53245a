"""What a step computes, to say how much of the device it uses (MFU)."""

from __future__ import annotations

from containers.recipes.bert_pretrain.model import BertShape


def training_flops_per_token(shape: BertShape, row_tokens: int) -> float:
    """Three times forward: 24LH² + 4LSH for the encoder, 2HV + 2H² for the word head.

    The head is counted for every token, as in published figures, although ours computes it at masked words.
    """
    encoder = shape.layers * (24 * shape.hidden**2 + 4 * row_tokens * shape.hidden)
    head = 2 * shape.hidden * shape.vocabulary + 2 * shape.hidden**2
    return 3.0 * (encoder + head)
