"""Makes tiny models of transformers with random weights, saved as it saves them, and our equivalents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.encoder import BertForPreTraining, Classifier
from slipway.containers.models.names import Shape
from slipway.containers.models.published import ModelFolder, load_weights, open_model
from slipway.containers.models.shapes import EncoderShape

WORDS = 101
ENCODER = {"vocab_size": WORDS, "max_position_embeddings": 32}
BERT = {
    **ENCODER,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
NEOX = {**BERT, "hidden_dropout": 0.0, "attention_dropout": 0.0}


def _bert(**changes: object) -> Any:
    return transformers.BertForPreTraining(transformers.BertConfig(**{**BERT, **changes}))


def _distilbert() -> Any:
    config = transformers.DistilBertConfig(**ENCODER, dim=32, n_layers=2, n_heads=4, hidden_dim=48)
    return transformers.DistilBertForSequenceClassification(config)


def _gptj() -> Any:
    config = transformers.GPTJConfig(
        vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=4, n_inner=48, rotary_dim=4
    )
    return transformers.GPTJForCausalLM(config)


def _neox(**changes: object) -> Any:
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**{**NEOX, **changes}))


MAKERS: Mapping[str, Callable[[], Any]] = {
    "bert": _bert,
    "bert with another activation": lambda: _bert(hidden_act="gelu_new", layer_norm_eps=1e-5),
    "distilbert": _distilbert,
    "gptj": _gptj,
    "neox": _neox,
    "neox in series": lambda: _neox(use_parallel_residual=False, hidden_act="gelu_fast"),
    "neox tied": lambda: _neox(
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    ),
}


def make(kind: str) -> Any:
    """Return a model of transformers whose biases and norms differ too: an exchange of two would show."""
    torch.manual_seed(5)
    made = MAKERS[kind]()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return made.eval()


def save(kind: str, folder: Path, **options: object) -> Any:
    made = make(kind)
    made.save_pretrained(folder, **options)
    return made


def build(shape: Shape) -> nn.Module:
    """Build our model on the meta device, and give it empty memory."""
    with torch.device("meta"):
        if isinstance(shape, DecoderShape):
            model: nn.Module = Decoder(shape)
        elif shape.family == "bert":
            model = BertForPreTraining(shape)
        else:
            model = Classifier(shape, 2)
    model.to_empty(device="cpu")
    if isinstance(model, Decoder):
        model.tie()
    return model


def load(folder: Path) -> tuple[nn.Module, ModelFolder]:
    found = open_model(str(folder))
    model = build(found.shape)
    assert load_weights(model, found.weights()) == []
    return model.eval(), found


def answers(model: nn.Module) -> Tensor:
    """Return our model's answers to some words, in the form of `their_answers`."""
    words = some_words()
    if isinstance(model, Decoder):
        return model(words)
    assert isinstance(model, BertForPreTraining | Classifier)
    if isinstance(model, Classifier):
        lengths = torch.full((words.shape[0],), words.shape[1])
        return model(words.flatten(), torch.zeros_like(words).flatten(), lengths)
    hidden = model.encode(words, torch.zeros_like(words), None)
    scores = model.words(hidden, model.embeddings.words.weight)
    follows = model.next_sentence(torch.tanh(model.pooler(hidden[:, 0])))
    return torch.cat((scores.flatten(), follows.flatten()))


def their_answers(model: Any) -> Tensor:
    found = model(some_words())
    if hasattr(found, "prediction_logits"):
        return torch.cat((found.prediction_logits.flatten(), found.seq_relationship_logits.flatten()))
    return found.logits


def some_words() -> Tensor:
    return torch.randint(WORDS, (2, 17), generator=torch.Generator().manual_seed(3))


def sizes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def small_bert() -> EncoderShape:
    return EncoderShape(layers=2, hidden=32, heads=4, intermediate=48, vocabulary=WORDS, positions=32)


def change(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
