"""Write a tiny BERT or DistilBERT with random weights, in Hugging Face's layout, for demos and tests."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipway.containers.data.errors import DataError, unwritable
from slipway.containers.data.samples.texts import make_words
from slipway.containers.data.tokens.engine import SPECIAL, Vocabulary, write_vocabulary
from slipway.containers.runtime.checkpoint.tensor_file import TensorData, write_tensors

PLACES = 128
SPREAD = 0.02
_SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"-()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    layers: int = 2
    hidden: int = 64
    heads: int = 2


def write_model(folder: Path, kind: str = "bert", *, seed: int = 1, size: Size | None = None) -> None:
    """Write config.json, vocab.txt and model.safetensors, for tasks that `write_task` made with this seed."""
    if kind not in _NAMES:
        raise DataError(f"there is no sample of a {kind!r}", hint=f"choose from {', '.join(_NAMES)}")
    vocabulary = sample_vocabulary(seed)
    size = size or Size()
    shapes = dict(_shapes(kind, len(vocabulary.entries), size))
    draw = np.random.default_rng(seed)
    tensors = {name: _drawn(draw, name, shape) for name, shape in shapes.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(vocabulary, folder / "vocab.txt")
        config = _config(kind, len(vocabulary.entries), size)
        (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        (folder / "model.safetensors").unlink(missing_ok=True)
        write_tensors(folder / "model.safetensors", tensors)
    except OSError as error:
        raise unwritable(folder, error) from error


def sample_vocabulary(seed: int = 1) -> Vocabulary:
    words = make_words(random.Random(seed))  # noqa: S311  # words, not secrets
    pieces = [prefix + sign for prefix in ("", "##") for sign in _SIGNS]
    return Vocabulary(entries=tuple(dict.fromkeys([*SPECIAL, *words, *pieces])))


def _config(kind: str, entries: int, size: Size) -> dict[str, object]:
    both = {"model_type": kind, "vocab_size": entries, "max_position_embeddings": PLACES}
    if kind == "distilbert":
        return both | {
            "dim": size.hidden,
            "n_layers": size.layers,
            "n_heads": size.heads,
            "hidden_dim": 4 * size.hidden,
        }
    return both | {
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": 4 * size.hidden,
    }


def _shapes(kind: str, entries: int, size: Size) -> Iterator[tuple[str, tuple[int, ...]]]:
    names, width = _NAMES[kind], size.hidden
    tables = {"word_embeddings": entries, "position_embeddings": PLACES}
    if kind == "bert":
        tables["token_type_embeddings"] = 2
        yield from _linear("bert.pooler.dense", width, width)
    for name, rows in tables.items():
        yield f"{kind}.embeddings.{name}.weight", (rows, width)
    yield from _norm(f"{kind}.embeddings.LayerNorm", width)
    for layer in range(size.layers):
        inside = f"{kind}.{names['layers']}.{layer}"
        for name in names["square"].split():
            yield from _linear(f"{inside}.{name}", width, width)
        yield from _linear(f"{inside}.{names['up']}", 4 * width, width)
        yield from _linear(f"{inside}.{names['down']}", width, 4 * width)
        for name in names["norms"].split():
            yield from _norm(f"{inside}.{name}", width)


_NAMES: Mapping[str, Mapping[str, str]] = {
    "bert": {
        "layers": "encoder.layer",
        "square": "attention.self.query attention.self.key attention.self.value attention.output.dense",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norms": "attention.output.LayerNorm output.LayerNorm",
    },
    "distilbert": {
        "layers": "transformer.layer",
        "square": "attention.q_lin attention.k_lin attention.v_lin attention.out_lin",
        "up": "ffn.lin1",
        "down": "ffn.lin2",
        "norms": "sa_layer_norm output_layer_norm",
    },
}


def _linear(name: str, out: int, into: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (out, into)
    yield f"{name}.bias", (out,)


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _drawn(draw: np.random.Generator, name: str, shape: tuple[int, ...]) -> TensorData:
    """Draw initial weights as BERT does: normal numbers for matrices, ones for norms, zeros for biases."""
    if name.endswith(".bias"):
        values = np.zeros(shape)
    else:
        values = draw.normal(0, SPREAD, shape) if len(shape) > 1 else np.ones(shape)
    return TensorData(dtype="F32", shape=shape, data=memoryview(values.astype("<f4").tobytes()))
