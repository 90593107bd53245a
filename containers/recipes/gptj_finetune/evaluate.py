"""Measure a model of any layout on held-out rows, and time its parts; all ranks take part in each batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.decoder import DecoderLayer, DecoderShape
from slipway.containers.models.rotary import rotation
from slipway.containers.recipes.gptj_finetune.data import RowLayout, TuningData, candidate_inputs
from slipway.containers.training.devices import Device
from slipway.containers.training.engine import Engine
from slipway.containers.training.layout import Costs, Layout
from slipway.containers.training.report import Say
from slipway.containers.training.saving import summed


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutScores:
    """Measure the loss of held-out text; of labelled sentences also how often their label is likelier."""

    data: TuningData
    rows: RowLayout
    micro_batch: int
    layout: Layout
    rank: int
    device: Device
    beat: Callable[[str], None]
    say: Say

    @property
    def count(self) -> int:
        """Return how many sentences, or rows of text, are measured on."""
        if self.data.wanted is not None:
            return len(self.data.wanted)
        return 0 if self.data.held_out is None else len(self.data.held_out)

    def run(self, engine: Engine, after: str) -> dict[str, float]:
        """Return the measures, the same on every rank."""
        if not self.count:
            return {}
        loss, right, count = self._sums(engine)
        found = {"loss": loss / count}
        if self.data.wanted is not None:
            found["accuracy"] = right / count
        told = "  ".join(f"{name} {value:.4f}" for name, value in found.items())
        self.say(f"held out after {after}: {told}  ({self.count} rows)")
        return found

    def _sums(self, engine: Engine) -> list[float]:
        """Return the sums of loss and right answers over what is held out, and how many they are."""
        readers, reader = self.layout.readers, self.layout.reader(self.rank)
        order = np.arange(self.count)
        if self.data.held_out is not None and self.data.wanted is not None:
            order = np.argsort(self.data.held_out.lengths[::2], kind="stable")
        batches = [order[at : at + self.micro_batch] for at in range(0, self.count, self.micro_batch)]
        sums = torch.zeros(3, dtype=torch.float64)
        for at in range(0, len(batches), readers):
            is_mine = at + reader < len(batches)  # else it goes along, since all ranks must
            chosen = batches[at + reader] if is_mine else batches[at]
            means = engine.evaluate(candidate_inputs(self.data, chosen, self.rows, self.device))
            self.beat(f"evaluating batch {at}")
            if is_mine and self.layout.speaks(self.rank):
                values = [float(value) for value in means]
                sums += torch.tensor([*values, 1.0], dtype=torch.float64) * len(chosen)
        return summed(sums.to(self.device.place, torch.float32 if self.device.kind != "cpu" else None))


# Time a micro-batch in each part of a model on this device; the times decide the cut into stages.
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

        def only_forward() -> None:
            forward()

        found = measure(both_ways)
        if recomputes and isinstance(part, DecoderLayer):
            with torch.no_grad():
                found += measure(only_forward)
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
