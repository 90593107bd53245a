"""Measure a decoder's training step as a share of the speed of this machine's matrix products.

Both take turns in one process with one thread, in processor seconds: a step's share can be compared between
machines, seconds cannot. In the same way rotating whole heads is compared with rotating a quarter of each,
alone and in a step. Two ranks are two processes: `python -m scripts.benchmarks_decoder RANK PORT` is one.
There only the processor time of the computing thread counts, which neither waits nor sends: gloo has its own
threads. So the transport is left out; the other costs of a layout are included.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from scripts.benchmark_rows import ROOT, Row, medians, seconds_of, take_turns
from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.rotary import rotated, rotation
from slipway.containers.recipes.bert_pretrain.config import decode
from slipway.containers.training.devices import Device
from slipway.containers.training.engine import EngineParts, StepWatch
from slipway.containers.training.engines.native.engine import NativeSettings, build_native
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.task import Inputs, MicroBatch

NEOX = DecoderShape(
    family="neox",
    layers=4,
    hidden=512,
    heads=8,
    intermediate=2048,
    vocabulary=8192,
    rotary_dimensions=16,
    has_attention_bias=True,
    gelu="tanh",
)
GPTJ = replace(NEOX, family="gptj", rotary_dimensions=32, has_attention_bias=False, has_head_bias=True)
# An eighth of the heads of GPT-NeoX-20B, as many as each tensor rank of the article holds.
HEADS = replace(NEOX, layers=2, hidden=768, heads=8, rotary_dimensions=24)
ROWS, LENGTH, STEPS, WARM_UP_STEPS = 2, 256, 8, 2
RATE = 1e-4
ROTATIONS = 8  # per measurement: a single one is too short for the clock

LAYOUTS: Mapping[str, Layout] = {  # of two ranks; to measure another, add an entry
    "dp2": Layout(data=2),
    "fsdp2": Layout(sharded=2),
    "tp2": Layout(tensor=2),
    "pp2": Layout(pipeline=2),
}
MICRO_BATCHES = 2  # in a step of two ranks, over all readers
LAYOUT_STEPS = 5


class NextWords:
    metrics = ("loss",)

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(model(_words(inputs)), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> Tensor:
        found: Tensor = stage(_words(inputs) if hidden is None else hidden)
        return found

    def metrics_of(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        wanted = _words(inputs)[:, 1:].flatten()
        return torch.stack([F.cross_entropy(outputs[:, :-1].flatten(0, 1), wanted)])


def _words(inputs: Inputs) -> Tensor:
    words = inputs["words"]
    assert words is not None, "a decoder reads words"
    return words


def decoder() -> Iterator[Row]:
    torch.set_num_threads(1)
    for shape in (NEOX, GPTJ):
        ours, theirs = in_turns(_step_alone(shape), products(shape))
        done, reached = step_flops(shape) / ours / 1e9, product_flops(shape) / theirs / 1e9
        yield _row(shape, f"{ROWS} rows of {LENGTH}", done, reached, goal="at least 0.80")
    yield from _rotations()
    yield from _two_processes()


def _row(shape: DecoderShape, what: str, done: float, reached: float, *, goal: str) -> Row:
    return Row(
        what=f"{shape.family} {shape.layers}×{shape.hidden} step, {what}",
        measured=f"{done:.1f} GFLOP/s",
        beside=f"products alone {reached:.1f}",
        ratio=f"ratio {done / reached:.2f}",
        goal=goal,
    )


def _step_alone(shape: DecoderShape) -> Callable[[], None]:
    return training_step(shape, Layout(), 0, micro_batches=1)


def _rotations() -> list[Row]:
    """Compare rotating whole heads with rotating a quarter of each, as published."""
    whole = replace(HEADS, rotates_whole_heads=True)
    alone = in_turns(_rotation(HEADS), _rotation(whole))
    in_step = in_turns(_step_alone(HEADS), _step_alone(whole))
    return [
        Row(
            what=what,
            measured=f"{theirs * 1e3:.1f} ms CPU",
            beside=f"a quarter {ours * 1e3:.1f} ms",
            ratio=f"ratio {theirs / ours:.2f}",
        )
        for what, (ours, theirs) in (
            ("rotation of whole heads, both ways", alone),
            ("neox step with whole heads", in_step),
        )
    ]


def _rotation(shape: DecoderShape) -> Callable[[], None]:
    """Return the rotation of a layer's queries and keys, forward and backward."""
    draws = torch.Generator().manual_seed(0)
    heads = torch.randn(ROWS, LENGTH, shape.heads, 2, shape.head_width, generator=draws).requires_grad_()
    upper = torch.randn(heads.shape, generator=draws)
    turned = rotation(shape, LENGTH, heads)

    def rotate() -> None:
        heads.grad = None
        for _ in range(ROTATIONS):
            rotated(heads, turned, neighbours=shape.rotates_neighbours).backward(upper)

    return rotate


def step_flops(shape: DecoderShape) -> float:
    """Return the FLOPs of a step: matrix products, and attention, half of which a causal kernel skips."""
    return product_flops(shape) + 6.0 * shape.layers * shape.hidden * LENGTH * ROWS * LENGTH


def product_flops(shape: DecoderShape) -> float:
    """Return the FLOPs of a step's matrix products: forward, and twice as many backward."""
    per_layer = 4 * shape.hidden**2 + 2 * shape.hidden * shape.intermediate
    weights = shape.layers * per_layer + shape.hidden * shape.vocabulary
    return 6.0 * weights * ROWS * LENGTH


def training_step(
    shape: DecoderShape, layout: Layout, rank: int, *, micro_batches: int
) -> Callable[[], None]:
    """Return a function that trains one step on a rank, with this many micro-batches per reader."""
    with torch.device("meta"):
        model = Decoder(shape)
    processor = Device(
        kind="cpu", place=torch.device("cpu"), precision=torch.float32, backend="gloo", has_fused_adam=True
    )
    parts = EngineParts(
        config=decode({"optimizer": "adamw", "learning_rate": "1e-4", "precision": "fp32"}),
        task=NextWords(),
        model=model,
        device=processor,
        layout=layout,
        rank=rank,
        plan=BatchPlan(micro_batch=ROWS, accumulation_steps=micro_batches, readers=layout.readers),
        watch=StepWatch(),
    )
    engine = build_native(parts, NativeSettings())
    words = torch.randint(shape.vocabulary, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
    batch = [MicroBatch(inputs={"words": words}, seed=1, weight=1 / micro_batches)] * micro_batches

    def step() -> None:
        engine.accumulate(batch)
        engine.step(RATE)

    return step


def products(shape: DecoderShape) -> Callable[[], None]:
    """Return a function that computes only a step's matrix products, in their real sizes."""
    tokens, hidden, wide = ROWS * LENGTH, shape.hidden, shape.intermediate
    sides = [(hidden, 3 * hidden), (hidden, hidden), (hidden, wide), (wide, hidden)] * shape.layers
    sides.append((hidden, shape.vocabulary))
    drawn = {side: (torch.randn(tokens, side[0]), torch.randn(side[1], side[0])) for side in set(sides)}
    gradients = {side: torch.randn(tokens, side[1]) for side in set(sides)}

    def multiply() -> None:
        for side in sides:
            (inputs, weights), gradient = drawn[side], gradients[side]
            F.linear(inputs, weights)
            gradient @ weights
            gradient.t() @ inputs

    return multiply


def in_turns(
    *works: Callable[[], None], clock: Callable[[], float] = time.process_time, steps: int = STEPS
) -> tuple[float, ...]:
    """Return the median processor seconds of each function; each runs once per turn."""
    runs = (partial(seconds_of, work, clock) for work in works)
    return medians(take_turns(*runs, turns=steps, uncounted=WARM_UP_STEPS))


def _two_processes() -> list[Row]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "scripts.benchmarks_decoder"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    other = subprocess.Popen([*command, "1", port], cwd=ROOT, env=environment)
    try:
        told = subprocess.run(
            [*command, "0", port], cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    finally:
        other.kill()
        other.wait()
    sizes, goal = f"{MICRO_BATCHES}×{ROWS} rows of {LENGTH}", "at least 0.70 a rank, transport left out"
    return [_row(NEOX, f"{name}, {sizes}", *rates, goal=goal) for name, rates in json.loads(told).items()]


def _rates(layout: Layout, rank: int) -> tuple[float, float]:
    """Return the GFLOP/s of a step and of products alone, as the mean of both ranks."""
    step = training_step(NEOX, layout, rank, micro_batches=MICRO_BATCHES // layout.readers)
    medians = in_turns(step, products(NEOX), clock=time.thread_time, steps=LAYOUT_STEPS)
    seconds = torch.tensor(medians, dtype=torch.float64)
    distributed.all_reduce(seconds)
    done = MICRO_BATCHES * step_flops(NEOX) / float(seconds[0])
    reached = distributed.get_world_size() * product_flops(NEOX) / float(seconds[1])
    return done / 1e9, reached / 1e9


def main(rank: int, port: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    told = {name: _rates(layout, rank) for name, layout in LAYOUTS.items()}
    if rank == 0:
        print(json.dumps(told))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
