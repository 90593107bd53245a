"""What the config.json of each architecture calls its sizes: one row of FAMILIES is one architecture.

An architecture without a row is refused by name: sizes that are guessed make a bill that is guessed. Names
are those of transformers' configurations; a test counts the parameters of rows against transformers' models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """Name the fields of one architecture's config.json; "" is a field that it does not have."""

    layers: str = "num_hidden_layers"
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    key_value_heads: str = "num_key_value_heads"
    head_size: str = "head_dim"
    feed_forward: str = "intermediate_size"
    feed_forward_ratio: float = 4  # of the hidden size, where the field above is missing or null
    positions: str = "max_position_embeddings"
    decoder_layers: str = ""  # of a decoder beside the encoder: `layers` are the encoder's alone
    experts: str = ""
    experts_used: str = "num_experts_per_tok"
    expert_width: str = ""
    shared_width: str = ""  # of the expert that every token passes
    causal: bool = True
    gated: bool = True
    is_tied: bool = False  # unless the config says tie_word_embeddings
    learns_positions: bool = False
    refused_if: tuple[tuple[str, str], ...] = ()  # a field that is not false or null, and what it means


_LLAMA = ModelFamily()
_NARROW = ModelFamily(gated=False)
_ENCODER = ModelFamily(
    key_value_heads="", head_size="", causal=False, gated=False, is_tied=True, learns_positions=True
)
_GPT_2 = ModelFamily(
    layers="n_layer",
    hidden="n_embd",
    heads="n_head",
    key_value_heads="",
    head_size="",
    feed_forward="n_inner",
    positions="n_positions",
    gated=False,
)
_BART = ModelFamily(
    layers="encoder_layers",
    decoder_layers="decoder_layers",
    hidden="d_model",
    heads="encoder_attention_heads",
    key_value_heads="",
    head_size="",
    feed_forward="encoder_ffn_dim",
    gated=False,
    is_tied=True,
    learns_positions=True,
)
_T5 = replace(
    _BART,
    layers="num_layers",
    decoder_layers="num_decoder_layers",
    heads="num_heads",
    head_size="d_kv",
    feed_forward="d_ff",
    positions="n_positions",
    learns_positions=False,
)
_MIXTRAL = ModelFamily(experts="num_local_experts", expert_width="intermediate_size")
_QWEN_MOE = ModelFamily(
    experts="num_experts",
    expert_width="moe_intermediate_size",
    refused_if=(("mlp_only_layers", "dense layers"),),
)

FAMILIES: Mapping[str, ModelFamily] = {
    # Decoders with a gated block and rotated positions.
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "granite", "olmo", "olmo2", "phi3", "smollm3"), _LLAMA
    ),
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text"), replace(_LLAMA, is_tied=True)),
    # Decoders whose block has two matrices.
    "gpt_neox": replace(_NARROW, key_value_heads="", head_size=""),
    "phi": _NARROW,
    "starcoder2": replace(_NARROW, is_tied=True),
    "gptj": _GPT_2,
    "gpt2": replace(_GPT_2, is_tied=True, learns_positions=True),
    "opt": replace(_NARROW, feed_forward="ffn_dim", key_value_heads="", is_tied=True, learns_positions=True),
    "bloom": replace(_GPT_2, hidden="hidden_size", feed_forward="", positions="seq_length", is_tied=True),
    # Encoders.
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert"), _ENCODER),
    "distilbert": replace(
        _ENCODER, layers="n_layers", hidden="dim", heads="n_heads", feed_forward="hidden_dim"
    ),
    # An encoder beside a decoder, which attends to itself and to the encoder.
    **dict.fromkeys(("t5", "mt5"), _T5),
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian"), _BART),
    # A few of many experts for each token.
    "mixtral": _MIXTRAL,
    "olmoe": replace(_MIXTRAL, experts="num_experts"),
    "qwen3_moe": _QWEN_MOE,
    "qwen2_moe": replace(_QWEN_MOE, shared_width="shared_expert_intermediate_size"),
}
