"""Measure what each rank computes in layouts of two, beside this machine's own matrix products.

What counts is the processor time of the thread that computes, which neither waits nor sends: gloo has threads
of its own. So the transport is left out, and what a layout costs beside it is in. To add a layout: one entry
of LAYOUTS. `python -m scripts.benchmarks_layouts RANK PORT` is one rank.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping

import torch
from torch import distributed

from scripts.benchmark_rows import ROOT, Row
from scripts.benchmarks_decoder import (
    LENGTH,
    NEOX,
    ROWS,
    in_turns,
    product_flops,
    products,
    step_flops,
    training_step,
)
from slipway.containers.training.layout import Layout

LAYOUTS: Mapping[str, Layout] = {
    "dp2": Layout(data=2),
    "fsdp2": Layout(sharded=2),
    "tp2": Layout(tensor=2),
    "pp2": Layout(pipeline=2),
}
MICRO_BATCHES = 2  # of a step, of all readers
STEPS = 5


def measure_layouts() -> list[Row]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "scripts.benchmarks_layouts"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    other = subprocess.Popen([*command, "1", port], cwd=ROOT, env=environment)
    try:
        told = subprocess.run(
            [*command, "0", port], cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    finally:
        other.kill()
        other.wait()
    return [_row(name, *rates) for name, rates in json.loads(told).items()]


def _row(name: str, done: float, reached: float) -> Row:
    return Row(
        what=f"neox {NEOX.layers}×{NEOX.hidden} step, {name}, {MICRO_BATCHES}×{ROWS} rows of {LENGTH}",
        measured=f"{done:.1f} GFLOP/s",
        beside=f"products alone {reached:.1f}",
        ratio=f"ratio {done / reached:.2f}",
        goal="at least 0.70 a rank, transport left out",
    )


def _rates(layout: Layout, rank: int) -> tuple[float, float]:
    """Return GFLOP in a rank's second of a step, and of products alone: the mean over both ranks."""
    step = training_step(NEOX, layout, rank, micro_batches=MICRO_BATCHES // layout.readers)
    medians = in_turns(step, products(NEOX), clock=time.thread_time, steps=STEPS)
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
