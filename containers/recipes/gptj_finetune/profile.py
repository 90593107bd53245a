"""What a micro-batch takes in the parts of a model, measured on this device: stages are cut by it."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.decoder import DecoderLayer, DecoderShape
from slipway.containers.models.rotary import rotation
from slipway.containers.training.devices import Device
from slipway.containers.training.partition import Costs

TURNS, WARM_UP_TURNS = 5, 2
Measure = Callable[[Callable[[], None]], float]


def profile(
    shape: DecoderShape, device: Device, tokens: tuple[int, int], *, recomputes: bool, measure: Measure
) -> Costs:
    """Run words, one layer and the head forward and backward; all layers are alike.

    `tokens` are rows and their length. A layer that is recomputed goes forward twice.
    """
    rows, length = tokens
    words = torch.zeros(rows, length, dtype=torch.int64, device=device.place)
    hidden = torch.zeros(rows, length, shape.hidden, dtype=device.precision, device=device.place)
    hidden.requires_grad_()
    turned = rotation(shape, length, hidden)

    def cost(part: nn.Module, forward: Callable[[], Tensor]) -> float:
        def both_ways() -> None:
            forward().sum().backward()

        found = measure(both_ways)
        if recomputes and isinstance(part, DecoderLayer):
            with torch.no_grad():
                found += measure(lambda: _drop(forward()))
        return found

    with torch.device(device.place):
        embeddings = nn.Embedding(shape.vocabulary, shape.hidden).to(device.precision)
        layer = DecoderLayer(shape).to(device.precision)
        head = nn.Linear(shape.hidden, shape.vocabulary, bias=shape.has_head_bias).to(device.precision)
    of_layer = cost(layer, lambda: layer(hidden, turned))
    return Costs(
        first=cost(embeddings, lambda: embeddings(words)),
        layers=[of_layer] * shape.layers,
        last=cost(head, lambda: F.cross_entropy(head(hidden).flatten(0, 1).float(), words.flatten())),
    )


def seconds(device: Device) -> Measure:
    """Return what times a piece of work on the device: the fastest of some turns."""

    def measure(work: Callable[[], None]) -> float:
        found = []
        for _ in range(WARM_UP_TURNS + TURNS):
            began = time.perf_counter()
            work()
            if device.kind == "cuda":
                torch.cuda.synchronize(device.place)
            found.append(time.perf_counter() - began)
        return min(found[WARM_UP_TURNS:])

    return measure


def _drop(_: Tensor) -> None:
    """Keep nothing of a result."""
