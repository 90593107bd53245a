"""The batches of a user's own dataloader: shared by rows among readers, and cut into micro-batches.

A batch is a pair of inputs and targets, a mapping, or one tensor; the first dimension of its tensors is rows.
Each epoch seeds what a dataloader may draw from, and the training's own draws do not disturb it, so that all
ranks read the same batches, and a training resumes at its position in the data on any number of ranks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.devices import Device
from slipway.containers.training.layout import Layout
from slipway.containers.training.report import mixed
from slipway.containers.training.start import Beginning
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch

INPUTS, TARGETS, WHOLE = "inputs", "targets", "batch"
_MOST_SEEDS = 1 << 20  # more than the micro-batches of a step, so that no two steps share a seed


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShares:
    """Decide how a batch is cut into micro-batches."""

    layout: Layout
    reader: int
    stages: int  # of the pipeline, which needs at least as many micro-batches, all of one size
    micro_batch: int | None

    def pieces(self, rows: int) -> int:
        """Return the number of micro-batches of each reader."""
        reader_rows = math.ceil(rows / self.layout.readers)
        if self.stages == 1:
            return 1 if self.micro_batch is None else max(1, math.ceil(reader_rows / self.micro_batch))
        wanted = (
            self.stages if self.micro_batch is None else max(self.stages, reader_rows // self.micro_batch)
        )
        for count in range(wanted, rows + 1):
            if rows % (count * self.layout.readers) == 0 and count % self.layout.pipeline == 0:
                return count
        raise Refusal(
            f"a batch of {rows} rows cannot be cut evenly for {self.layout.readers} readers of a pipeline "
            f"of {self.stages} stages",
            hint=f"let the dataloader drop its last batch, and give it a multiple of {self.stages} rows",
        )

    def shares(self, rows: int) -> list[tuple[slice, float]]:
        """Return the rows of this reader's micro-batches, and their weights: 1 on average over readers."""
        count = self.pieces(rows)
        ends = [
            rows * number // (count * self.layout.readers)
            for number in range(count * self.layout.readers + 1)
        ]
        first = self.reader * count
        found = []
        for begin, end in zip(ends[first:], ends[first + 1 : first + count + 1], strict=False):
            weight = (end - begin) / rows * self.layout.readers
            found.append((slice(begin, max(end, begin + 1)) if begin < rows else slice(0, 1), weight))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedBatches:
    """Read a dataloader epoch after epoch."""

    load: Callable[[], object]
    cut: RowShares
    seed: int
    device: Device

    @contextmanager
    def open(self, beginning: Beginning) -> Iterator[Iterator[StepBatch]]:
        numbered = enumerate(self._batches(beginning.step), beginning.step)
        yield (self._step_batch(step, flat(batch)) for step, batch in numbered)

    def _batches(self, first: int) -> Iterator[object]:
        """Yield the batches from number `first` on; skip earlier ones, by epochs if these have a length."""
        loader = self.load()
        epoch, position = 0, 0
        if isinstance(loader, Sequence) or hasattr(loader, "__len__"):
            epoch, skipped = divmod(first, len_of(loader))
            position = first - skipped
        while True:
            before = position
            _seed(loader, mixed(self.seed, epoch))
            for batch in _undisturbed(cast(Iterable[object], loader)):
                if position >= first:
                    yield batch
                position += 1
            if position == before:
                raise Refusal("load_dataloader returns nothing to train on", hint="give it rows")
            epoch += 1

    def _step_batch(self, step: int, tensors: Mapping[str, Tensor]) -> StepBatch:
        rows = rows_of(tensors)
        shares = self.cut.shares(rows)
        first = self.cut.reader * len(shares)
        micro_batches = [
            MicroBatch(
                inputs={name: tensor[part].to(self.device.place) for name, tensor in tensors.items()},
                seed=mixed(self.seed, step * _MOST_SEEDS + first + number),
                weight=weight,
            )
            for number, (part, weight) in enumerate(shares)
        ]
        one = next(iter(tensors.values()))
        return StepBatch(
            micro_batches=micro_batches,
            rows=rows,
            tokens=one.numel() if one.ndim == 2 and not one.is_floating_point() else rows,
            cursor={"batches": step + 1},
        )


def seed_draws(number: int) -> None:
    """Seed the generators that a user's functions may draw from, so that all ranks draw the same."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % (1 << 32))


def _seed(loader: object, number: int) -> None:
    """Seed what a dataloader may draw from: it may have a generator of its own."""
    seed_draws(number)
    batches = getattr(loader, "batch_sampler", None)
    for holder in (loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)):
        if isinstance(own := getattr(holder, "generator", None), torch.Generator):
            own.manual_seed(number)


def _undisturbed(loader: Iterable[object]) -> Iterator[object]:
    """Yield the batches of an epoch; each draws from torch on from where the one before it ended. Between
    them dropout draws, too, other numbers on each rank."""
    batches, end = iter(loader), object()
    state = torch.get_rng_state()
    while True:
        torch.set_rng_state(state)
        if (batch := next(batches, end)) is end:
            return
        state = torch.get_rng_state()
        yield batch


def len_of(loader: object) -> int:
    """Return how many batches an epoch has; refuse a loader without a length."""
    try:
        count = len(loader)  # type: ignore[arg-type]  # TypeError is caught
    except TypeError:
        raise Refusal(
            "load_dataloader returns something without a length, so the length of an epoch is unknown",
            hint="set batch_count in place of epochs",
        ) from None
    if not count:
        raise Refusal("load_dataloader returns no batches", hint="give it rows")
    return count


def flat(batch: object) -> dict[str, Tensor]:
    """Name the tensors of a batch."""
    if isinstance(batch, Mapping):
        return _named(WHOLE, batch)
    if isinstance(batch, Sequence) and len(batch) == 2:
        return {**_named(INPUTS, batch[0]), **_named(TARGETS, batch[1])}
    return _named(WHOLE, batch)


def part_of(tensors: Inputs, name: str) -> object:
    """Rebuild the inputs, targets or whole batch in the form that the dataloader gave."""
    if name in tensors:
        return tensors[name]
    inside = {key.partition(".")[2]: value for key, value in tensors.items() if key.startswith(f"{name}.")}
    return inside or None


def rows_of(tensors: Mapping[str, Tensor]) -> int:
    sizes = {int(tensor.shape[0]) for tensor in tensors.values() if tensor.ndim}
    if len(sizes) != 1 or not all(tensor.ndim for tensor in tensors.values()):
        raise Refusal(
            f"the tensors of a batch have {sorted(sizes)} rows",
            hint="let the first dimension of every tensor be the rows",
        )
    return sizes.pop()


def _named(name: str, value: object) -> dict[str, Tensor]:
    if isinstance(value, Tensor):
        return {name: value}
    if isinstance(value, Mapping) and all(isinstance(each, Tensor) for each in value.values()):
        return {f"{name}.{key}": tensor for key, tensor in value.items()}
    raise Refusal(
        f"the dataloader gives {type(value).__name__} as {name}",
        hint="give tensors: a pair of inputs and targets, a mapping of them, or one alone",
    )


def _versions(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Return by name which tensor each buffer of the model's state is, and how often that was changed."""
    return {
        f"{prefix}.{name}".removeprefix("."): (id(buffer), buffer._version)
        for prefix, module in model.named_modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    }


@dataclass(frozen=True, slots=True)
class UserTask:
    """Compute a user's loss: `loss(model(inputs), targets)` for a pair, else `loss(model(batch), batch)`."""

    loss: Callable[..., object]
    metrics: ClassVar[tuple[str, ...]] = ("loss",)
    _looked: set[bool] = field(default_factory=set)  # whether a forward was watched: the first one

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        before = {} if self._looked else _versions(model)
        metrics = self.metrics_of(self.run_stage(model, None, inputs), inputs)
        after = {} if self._looked else _versions(model)
        self._looked.add(True)
        if changed := [name for name, version in before.items() if after[name] != version]:
            raise Refusal(
                f"the model changes its buffer {changed[0]}, which our checkpoints do not keep",
                hint="make it a parameter, or register it with persistent=False if it need not last",
            )
        return metrics

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> object:
        if hidden is not None:
            return stage(hidden)
        given = part_of(inputs, INPUTS)
        given = part_of(inputs, WHOLE) if given is None else given
        return stage(**given) if isinstance(given, Mapping) else stage(given)

    def metrics_of(self, outputs: object, inputs: Inputs) -> Tensor:
        targets = part_of(inputs, TARGETS)
        loss = self.loss(outputs, part_of(inputs, WHOLE) if targets is None else targets)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise Refusal(
                f"the loss returns {type(loss).__name__}, but must return one number",
                hint="return the mean over the rows, as a tensor",
            )
        return torch.atleast_1d(loss.squeeze())
