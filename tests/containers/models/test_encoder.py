"""An encoder computes the same if its weights come later, and answers packed rows as padded ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from slipway.containers.models.configs import config_of, shape_of_config  # noqa: E402
from slipway.containers.models.encoder import (  # noqa: E402
    BertForPreTraining,
    Classifier,
    initialise,
)
from slipway.containers.models.shapes import EncoderShape, PackedRows  # noqa: E402

SHAPE = EncoderShape(layers=2, hidden=32, heads=4, intermediate=48, vocabulary=101, positions=32)


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


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_new_weights_are_spread_as_config_json_says(family: str) -> None:
    config = {**config_of(replace(SHAPE, family=family), "any"), "initializer_range": 0.05}
    shape = shape_of_config("there", config)
    assert isinstance(shape, EncoderShape)
    model = Classifier(shape, 2)
    assert float(model.layers[0].up.weight.detach().std()) == pytest.approx(0.05, rel=0.05)
    assert config_of(model.shape, "any")["initializer_range"] == 0.05


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize("lengths", [[3, 3, 7, 7, 7, 20], [20, 1, 5, 1], [9]])
@pytest.mark.parametrize("at_once", [False, True], ids=["run-by-run", "at-once-as-on-a-gpu"])
def test_packed_rows_are_the_padded_ones(family: str, lengths: list[int], *, at_once: bool) -> None:
    torch.manual_seed(3)
    model = Classifier(replace(SHAPE, family=family), 2).eval()
    counts = torch.tensor(lengths)
    used = torch.arange(int(counts.max())) < counts[:, None]
    words = torch.randint(1, 101, used.shape) * used
    segments = (torch.arange(used.shape[1]) >= counts[:, None] // 2).long() * used
    padded = model.encode(words, segments, used)[used]
    rows = PackedRows.of(counts).at_once() if at_once else PackedRows.of(counts)
    together = model.encode_packed(words[used], segments[used], rows)
    torch.testing.assert_close(together, padded, rtol=1e-5, atol=1e-6)
    gradients = []
    for hidden in (padded, together):
        model.zero_grad()
        hidden.square().sum().backward()
        gradients.append(model.layers[0].query_key_value.weight.grad.clone())
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", [[3, 3, 7, 7, 7, 20], [20, 1, 5, 1], [9]])
def test_rows_that_attend_backwards_at_once_are_those_that_do_it_run_by_run(lengths: list[int]) -> None:
    """Decoders do so, too: no token sees the next row or the padding of its own."""
    torch.manual_seed(3)
    rows = PackedRows.of(torch.tensor(lengths))
    query, key, value = (torch.randn(sum(lengths), 2, 8, requires_grad=True) for _ in range(3))
    found = []
    for each in (rows, rows.at_once()):
        mixed = each.attend(query, key, value, 0.0, is_causal=True)
        found.append((mixed.detach(), *torch.autograd.grad(mixed.square().sum(), (query, key, value))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
