"""Map our parameters to Hugging Face's names of published weights, and our rows to theirs.

Another family is one row of FAMILIES. We keep queries, keys and values in one matrix. BERT and GPT-J publish
three: in ours, BERT's lie one below the other, and GPT-J's alternate head by head. GPT-NeoX publishes one
matrix that alternates head by head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.models.rotary import is_rearranged, spans_between
from slipway.containers.models.shapes import EncoderShape

Shape = EncoderShape | DecoderShape
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyNames:
    """Map our modules to the names in one family's published checkpoints."""

    base: str  # prefix of each name except those in `beside`; checkpoints of the bare model lack it
    beside: tuple[str, ...]
    outside: Mapping[str, str]  # our modules to theirs
    layers: str
    in_layer: Mapping[str, str]
    fused: str  # our matrix of queries, keys and values
    together: tuple[str, ...]  # the published matrices that it holds
    takes_turns: bool = False  # they alternate head by head
    of_words: frozenset[str] = frozenset({"embeddings.weight", "head.weight", "head.bias"})
    old_names: Mapping[str, str] = field(default_factory=dict)


_EMBEDDINGS: Mapping[str, str] = {
    "embeddings.words": "embeddings.word_embeddings",
    "embeddings.places": "embeddings.position_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
}
_OF_WORDS = frozenset({"embeddings.words.weight", "words.bias"})
_OF_TENSORFLOW: Mapping[str, str] = {
    "LayerNorm.gamma": "LayerNorm.weight",
    "LayerNorm.beta": "LayerNorm.bias",
}

FAMILIES: Mapping[str, FamilyNames] = {
    "bert": FamilyNames(
        base="bert",
        beside=("cls.", "classifier."),
        outside={
            **_EMBEDDINGS,
            "embeddings.segments": "embeddings.token_type_embeddings",
            "pooler": "pooler.dense",
            "classifier": "classifier",
            "words": "cls.predictions",
            "words.transform": "cls.predictions.transform.dense",
            "words.norm": "cls.predictions.transform.LayerNorm",
            "next_sentence": "cls.seq_relationship",
        },
        layers="encoder.layer",
        in_layer={
            "attention_output": "attention.output.dense",
            "attention_norm": "attention.output.LayerNorm",
            "up": "intermediate.dense",
            "down": "output.dense",
            "output_norm": "output.LayerNorm",
        },
        fused="query_key_value",
        together=("attention.self.query", "attention.self.key", "attention.self.value"),
        of_words=_OF_WORDS,
        old_names=_OF_TENSORFLOW,
    ),
    "distilbert": FamilyNames(
        base="distilbert",
        beside=("pre_classifier.", "classifier."),
        outside={**_EMBEDDINGS, "pooler": "pre_classifier", "classifier": "classifier"},
        layers="transformer.layer",
        in_layer={
            "attention_output": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "up": "ffn.lin1",
            "down": "ffn.lin2",
            "output_norm": "output_layer_norm",
        },
        fused="query_key_value",
        together=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        of_words=_OF_WORDS,
        old_names=_OF_TENSORFLOW,
    ),
    "gptj": FamilyNames(
        base="transformer",
        beside=("lm_head.",),
        outside={"embeddings": "wte", "norm": "ln_f", "head": "lm_head"},
        layers="h",
        in_layer={
            "attention_norm": "ln_1",
            "attention.output": "attn.out_proj",
            "mlp.up": "mlp.fc_in",
            "mlp.down": "mlp.fc_out",
        },
        fused="attention.query_key_value",
        together=("attn.q_proj", "attn.k_proj", "attn.v_proj"),
        takes_turns=True,
    ),
    "neox": FamilyNames(
        base="gpt_neox",
        beside=("embed_out.",),
        outside={"embeddings": "embed_in", "norm": "final_layer_norm", "head": "embed_out"},
        layers="layers",
        in_layer={
            "attention_norm": "input_layernorm",
            "mlp_norm": "post_attention_layernorm",
            "attention.output": "attention.dense",
            "mlp.up": "mlp.dense_h_to_4h",
            "mlp.down": "mlp.dense_4h_to_h",
        },
        fused="attention.query_key_value",
        together=("attention.query_key_value",),
        old_names={
            "lm_head.": "embed_out."
        },  # transformers 5 writes the new one, and reads both as 4 does not
    ),
}


@dataclass(frozen=True, slots=True)
class RowRun:
    """Locate neighbouring rows of a published tensor that are neighbours in our parameter, too."""

    name: str  # without the base
    begin: int  # the first row in the published tensor
    at: int  # the first row in our parameter
    rows: int


def published_names(family_name: str, parameter: str) -> tuple[str, ...]:
    """Return the published names of our parameter, without the base; several if ours holds several."""
    family = FAMILIES[family_name]
    module, _, leaf = parameter.rpartition(".")
    if not module.startswith("layers."):
        return (f"{family.outside[module]}.{leaf}",)
    _, number, inner = module.split(".", 2)
    inside = family.together if inner == family.fused else (family.in_layer[inner],)
    return tuple(f"{family.layers}.{number}.{part}.{leaf}" for part in inside)


def row_runs(shape: Shape, parameter: str, sizes: Sizes, begin: int, end: int) -> Iterator[RowRun]:
    """Yield where rows `begin` to `end` of our parameter are published; padding of the vocabulary is not."""
    names = published_names(shape.family, parameter)
    rows = _rows(shape, parameter, sizes)
    if isinstance(shape, DecoderShape) and is_rearranged(shape, parameter):
        for at, (first, count) in spans_between(shape, begin, end):
            yield RowRun(names[0], first, at, count)
        return
    takes_turns = len(names) > 1 and FAMILIES[shape.family].takes_turns
    width = rows // (len(names) * (shape.heads if takes_turns else 1))
    at = begin
    while at < min(end, rows):
        turn, inside = divmod(at, width * len(names))
        part, offset = divmod(inside, width)
        count = min(min(end, rows) - at, width - offset)
        yield RowRun(names[part], turn * width + offset, at, count)
        at += count


def published_sizes(shape: Shape, parameter: str, sizes: Sizes) -> Sizes:
    """Return the sizes of each published tensor of our parameter, which has the sizes `sizes`."""
    return (_rows(shape, parameter, sizes) // len(published_names(shape.family, parameter)), *sizes[1:])


def plain_name(family: str, name: str) -> str:
    """Strip the base, and translate names of old versions."""
    known = FAMILIES[family]
    plain = name.removeprefix(f"{known.base}.")
    for old, new in known.old_names.items():
        plain = plain.replace(old, new)
    return plain


def full_name(family: str, plain: str) -> str:
    """Return the name of a tensor in the file of a model with its heads."""
    known = FAMILIES[family]
    return plain if plain.startswith(known.beside) else f"{known.base}.{plain}"


def _rows(shape: Shape, parameter: str, sizes: Sizes) -> int:
    return min(sizes[0], shape.vocabulary) if parameter in FAMILIES[shape.family].of_words else sizes[0]
