"""An encoder that has no memory yet is the one that has."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from slipway.containers.models.encoder import (  # noqa: E402
    BertForPreTraining,
    initialise,
)
from slipway.containers.models.shapes import EncoderShape  # noqa: E402

SHAPE = EncoderShape(layers=2, hidden=16, heads=2, intermediate=32, vocabulary=50, positions=8)


def test_a_model_built_on_the_meta_device_is_filled_as_one_built_in_memory() -> None:
    there = BertForPreTraining(SHAPE)
    torch.manual_seed(7)
    wanted = there.apply(initialise).state_dict()
    with torch.device("meta"):
        model = BertForPreTraining(SHAPE)
    assert all(parameter.is_meta for parameter in model.parameters())
    model.to_empty(device="cpu")
    torch.manual_seed(7)
    model.apply(initialise)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, wanted[name]), name
