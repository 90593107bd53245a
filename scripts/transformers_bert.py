"""Convert our BERT and its rows to those of transformers, for benchmarks and tests that compare them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from slipway.containers.models.encoder import BertForPreTraining

NO_LABEL = -100  # transformers' own

_OUTSIDE: Mapping[str, str] = {
    "embeddings.words": "bert.embeddings.word_embeddings",
    "embeddings.places": "bert.embeddings.position_embeddings",
    "embeddings.segments": "bert.embeddings.token_type_embeddings",
    "embeddings.norm": "bert.embeddings.LayerNorm",
    "pooler": "bert.pooler.dense",
    "next_sentence": "cls.seq_relationship",
    "words.transform": "cls.predictions.transform.dense",
    "words.norm": "cls.predictions.transform.LayerNorm",
    "words": "cls.predictions",
}
_IN_LAYER: Mapping[str, str] = {
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "output_norm": "output.LayerNorm",
}
_TOGETHER = ("query", "key", "value")


def build_reference(ours: BertForPreTraining) -> Any:
    """Return a BERT of transformers with the same weights, tied as ours are."""
    import transformers

    shape = ours.shape
    config = transformers.BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.intermediate,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=shape.dropout,
    )
    theirs = transformers.BertForPreTraining(config)
    with torch.no_grad():
        for name, tensor in reference_weights(ours):
            theirs.get_parameter(name).copy_(tensor)
    return theirs


def reference_weights(ours: BertForPreTraining) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in ours.named_parameters():
        module, _, leaf = name.rpartition(".")
        if not module.startswith("layers."):
            yield f"{_OUTSIDE[module]}.{leaf}", tensor
            continue
        _, number, inner = module.split(".")
        layer = f"bert.encoder.layer.{number}"
        if inner == "query_key_value":
            for part, share in zip(_TOGETHER, tensor.chunk(3), strict=True):
                yield f"{layer}.attention.self.{part}.{leaf}", share
        else:
            yield f"{layer}.{_IN_LAYER[inner]}.{leaf}", tensor


def reference_rows(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return one label per token, as transformers takes them: NO_LABEL unless the token is masked."""
    labels = torch.full(rows["words"].shape, NO_LABEL, dtype=torch.int64)
    # Empty places point at the first token, which is never masked.
    positions, masked = rows["positions"].long(), rows["labels"].long()
    labels.scatter_(1, positions, torch.where(masked > 0, masked, NO_LABEL))
    return {
        "input_ids": rows["words"].long(),
        "token_type_ids": rows["segments"].long(),
        "attention_mask": rows["mask"].long(),
        "labels": labels,
        "next_sentence_label": rows["follows"].long(),
    }
