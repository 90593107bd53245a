"""Describes a model that is no workload of ours: from a config.json, a folder with one, or sizes.

Two shapes that the estimate lacks become one that it has, with equal matrices: attention to an encoder, and
heads that are together wider or narrower than the layer, count as width of the block. Another architecture is
one row of FAMILIES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway.containers.runtime.named_files import MissingFile, UnusableFile, read_text
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.work.models import MODELS, length_name
from slipway.jobs.estimate.work.shapes import Layout, Model
from slipway.jobs.estimate.work.spread import unmeasured_words
from slipway.jobs.estimate.work.workloads import EAGER_WORDS, Workload
from slipway.jobs.words.given import shown
from slipway.jobs.words.text import decode_json

_MOST_BYTES = 1 << 20
_LARGEST = 1_000_000_000  # of any size of a model
USUAL_LENGTH = 4096  # of a model that could read more
MASKED_SHARE = 0.15  # of an encoder's positions, which masked-LM predicts (Devlin et al. 2019)
_GATED_MATRICES, _PLAIN_MATRICES = 3, 2


def is_model_file(name: str) -> bool:
    """Return True for a path: names of recipes and models have no slash and no such ending."""
    return "/" in name or name.endswith(".json") or name in (".", "..")


def model_from_file(name: str) -> Workload:
    """Read a config.json, or the one in a folder; refuse an architecture that has no row in FAMILIES."""
    path = Path(name).expanduser()
    path = path / "config.json" if path.is_dir() else path
    config = _decoded(path)
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None:
        raise CannotEstimate(
            f"{path}: nobody has counted the architecture {config.get('model_type')!r} (model_type)",
            hint=f"known are {', '.join(sorted(FAMILIES))}; or say the sizes: "
            "slipway estimate decoder --set layers=32 --set hidden=4096 --on TYPE",
        )
    return _workload(path, _Config(path=path, values=config, family=family))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Config:
    path: Path
    values: Mapping[str, Any]
    family: ModelFamily

    def whole(self, field: str, otherwise: int | None = None) -> int:
        """Return a size; `otherwise` is used if the architecture or this file leaves it out."""
        value = self.values.get(field) if field else None
        if value is None and otherwise is not None:
            return otherwise
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
            raise CannotEstimate(
                f"{self.path}: {field} is {shown(value)}; it must be a whole number from 1 to {_LARGEST:,}",
                hint="name a config.json as transformers writes it",
            )
        return value


def _workload(path: Path, config: _Config) -> Workload:
    for field, meaning in config.family.refused_if:
        if config.values.get(field):
            raise CannotEstimate(
                f"{path}: {field} is {config.values[field]!r}; nobody has counted {meaning} among experts",
                hint="say the sizes: slipway estimate decoder --set layers=32 --set hidden=4096 --on TYPE",
            )
    positions = config.whole(config.family.positions, USUAL_LENGTH)
    length = min(positions, USUAL_LENGTH)
    model = _model(config, length)
    assumed = [f"{length:,} tokens a sequence and one sequence at a time, where no --set says another"]
    if config.family.decoder_layers:
        assumed.append(f"as many tokens to read as to write; {unmeasured_words('encoder-decoder')}")
    if config.family.experts:
        assumed.append(
            "experts are where their tokens are, so what is sent to reach them is not counted; "
            + unmeasured_words("experts")
        )
    if model.gated:
        assumed.append(EAGER_WORDS)
    name = path.parent.resolve().name if path.name == "config.json" else path.stem
    return Workload(
        name=name or "model",
        model_name=_known_name(model) or f"{path.resolve()}",
        model=model,
        layout=Layout(micro_batch=1, fused=not model.gated),
        assumed="; ".join(assumed),
    )


def _model(config: _Config, length: int) -> Model:
    family = config.family
    hidden, heads = config.whole(family.hidden), config.whole(family.heads)
    encoder = config.whole(family.layers)
    decoder = config.whole(family.decoder_layers, encoder) if family.decoder_layers else 0
    key_value = config.whole(family.key_value_heads, heads)
    width = config.whole(family.head_size, hidden // heads or 1) * heads
    # T5's later configs say themselves that the block has three matrices.
    gated = family.gated or str(config.values.get("feed_forward_proj", "")).startswith("gated")
    matrices = _GATED_MATRICES if gated else _PLAIN_MATRICES
    block, all_blocks = _widths(config, hidden)
    attention = 2 + 2 * key_value / heads  # matrices of hidden by width
    beyond = attention * (width - hidden) / matrices
    across = (2 + 2) * width * decoder / (encoder + decoder) / matrices
    if hidden % heads:
        heads = key_value = 1  # the width of its heads is counted above
    return Model(
        layers=encoder + decoder,
        hidden_size=hidden,
        heads=heads,
        key_value_heads=None if key_value == heads else key_value,
        feed_forward=max(1, round(block + beyond + across)),
        vocabulary=config.whole("vocab_size"),
        sequence_length=length,
        causal=family.causal,
        kind="experts" if family.experts else "encoder-decoder" if family.decoder_layers else "dense",
        gated=gated,
        head_share=1.0 if family.causal else MASKED_SHARE,
        parameters=_parameters(config, attention * width, all_blocks + across, matrices, encoder + decoder),
    )


def _widths(config: _Config, hidden: int) -> tuple[float, float]:
    """Return the width of the block for one token, and the width of all blocks together."""
    family = config.family
    if not family.experts:
        width = config.whole(family.feed_forward, round(hidden * family.feed_forward_ratio))
        return width, width
    each = config.whole(family.expert_width)
    shared = config.whole(family.shared_width) if family.shared_width else 0
    used = config.whole(family.experts_used)
    return used * each + shared, config.whole(family.experts) * each + shared


def _parameters(config: _Config, attention: float, blocks: float, matrices: int, layers: int) -> float:
    family, hidden = config.family, config.whole(config.family.hidden)
    tied = config.values.get("tie_word_embeddings")
    tables = 1 if (family.is_tied if tied is None else tied) else 2
    norms = 4 * hidden * layers
    positions = config.whole(family.positions, 0) * hidden if family.learns_positions else 0
    return (
        layers * hidden * (attention + matrices * blocks)
        + norms
        + tables * config.whole("vocab_size") * hidden
        + positions
    )


def _known_name(model: Model) -> str | None:
    """Return the name of our model with these sizes, so that its measurements count."""
    for name, known in MODELS.items():
        if _sizes(known) == _sizes(model) and known.head_share == model.head_share:
            return length_name(name, model.sequence_length)
    return None


def _sizes(model: Model) -> tuple[object, ...]:
    return model.layers, model.hidden_size, model.heads, model.feed_forward, model.causal, model.gated


def _decoded(path: Path) -> Mapping[str, Any]:
    try:
        value = decode_json(read_text(path, _MOST_BYTES))
    except MissingFile:
        raise CannotEstimate(
            f"{path} is not there", hint="name a config.json or a folder that has one; or a model: bert-large"
        ) from None
    except UnusableFile as error:
        raise CannotEstimate(error.message, hint=error.hint) from None
    except ValueError as error:
        raise CannotEstimate(f"{path} is no JSON: {error}", hint="name the config.json of a model") from None
    if not isinstance(value, dict):
        raise CannotEstimate(f"{path} holds no settings of a model", hint="name the config.json of a model")
    return value


# The names of sizes in each architecture's config.json: one row of FAMILIES for each. An architecture without
# a row is refused by name: guessed sizes would make a guessed bill. Names are those of transformers'
# configurations; a test counts the parameters of rows with transformers' models.


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """Name the fields of one architecture's config.json; "" is a field that it does not have."""

    layers: str = "num_hidden_layers"
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    key_value_heads: str = "num_key_value_heads"
    head_size: str = "head_dim"
    feed_forward: str = "intermediate_size"
    feed_forward_ratio: float = 4  # of the hidden size, if the field above is missing or null
    positions: str = "max_position_embeddings"
    decoder_layers: str = ""  # of a decoder next to an encoder; `layers` are then the encoder's alone
    experts: str = ""
    experts_used: str = "num_experts_per_tok"
    expert_width: str = ""
    shared_width: str = ""  # of the expert that every token passes
    causal: bool = True
    gated: bool = True
    is_tied: bool = False  # unless the config says tie_word_embeddings
    learns_positions: bool = False
    refused_if: tuple[tuple[str, str], ...] = ()  # a field that must be false or null, and its meaning


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
    # An encoder, and a decoder that attends to itself and to the encoder.
    **dict.fromkeys(("t5", "mt5"), _T5),
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian"), _BART),
    # Decoders with a few of many experts for each token.
    "mixtral": _MIXTRAL,
    "olmoe": replace(_MIXTRAL, experts="num_experts"),
    "qwen3_moe": _QWEN_MOE,
    "qwen2_moe": replace(_QWEN_MOE, shared_width="shared_expert_intermediate_size"),
}
