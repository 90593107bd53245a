"""Train every recipe's model in every layout on the PyTorch that runs this, and write down the results.

PYTHON -m tests.containers.training.layout_table docs/lists/layouts.csv

Rows of other releases stay; `scripts/write_docs` makes docs/layouts.md of them. scripts/set_up_apart makes an
environment with another release. A layout is one row of LAYOUTS.
"""

from __future__ import annotations

import csv
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import torch
from torch import distributed

from scripts.trust_pages import RIGHT
from slipway.containers.training.layout import Layout
from tests.containers.forks import fork_each, free_port
from tests.containers.training.self_checks import Case, check

COLUMNS = ("torch", "recipe", "layout", "result")
# The names of the table, and the trials of self_checks.py.
RECIPES: Mapping[str, str] = {
    "bert_pretrain": "bert",
    "gpt_neox": "neox",
    "gpt_neox, tied embeddings": "tied",
    "gptj_finetune": "gptj",
    "gptj_finetune, LoRA": "lora",
}
LAYOUTS: Mapping[str, Case] = {
    "sharded 2": Case(Layout(sharded=2)),
    "sharded 2, state of the optimizer": Case(Layout(sharded=2), settings={"sharded_state": "optimizer"}),
    "tensor 2": Case(Layout(tensor=2)),
    "pipeline 2, 1f1b": Case(Layout(pipeline=2)),
    "pipeline 2, gpipe": Case(Layout(pipeline=2), settings={"pipeline_schedule": "gpipe"}),
    "pipeline 2, interleaved": Case(
        Layout(pipeline=2), settings={"pipeline_schedule": "interleaved", "stages_per_rank": 2}
    ),
    "data 2 × sharded 2": Case(Layout(data=2, sharded=2)),
    "data 2 × tensor 2": Case(Layout(data=2, tensor=2)),
    "data 2 × pipeline 2": Case(Layout(data=2, pipeline=2)),
    "sharded 2 × tensor 2": Case(Layout(sharded=2, tensor=2)),
    "sharded 2 × pipeline 2": Case(Layout(sharded=2, pipeline=2)),
    "tensor 2 × pipeline 2": Case(Layout(tensor=2, pipeline=2)),
    "data 2 × tensor 2 × pipeline 2": Case(Layout(data=2, tensor=2, pipeline=2)),
    "sharded 2 × tensor 2 × pipeline 2": Case(Layout(sharded=2, tensor=2, pipeline=2)),
}

Row = Mapping[str, str]
_PATIENCE = timedelta(seconds=60)


def rows() -> Iterator[Row]:
    """Yield the result of each recipe in each layout, in fp32 and in bf16."""
    for (recipe, trial), (layout, case) in product(RECIPES.items(), LAYOUTS.items()):
        result = outcome(replace(case, trial=trial, precision=torch.bfloat16))
        yield {"torch": release(), "recipe": recipe, "layout": layout, "result": result}


def outcome(case: Case) -> str:
    """Check on real ranks; return that all is right, or what the first rank found wrong."""
    port, world = free_port(), case.layout.world
    with tempfile.TemporaryDirectory() as folder:

        def be_rank(rank: int) -> None:
            torch.set_num_threads(1)
            distributed.init_process_group(
                "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, timeout=_PATIENCE
            )
            try:
                said = check(case, rank)
            except Exception as error:  # noqa: BLE001 - another PyTorch may fail in any way
                said = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
            (Path(folder) / str(rank)).write_text(said)

        codes = fork_each(world, be_rank)
        told = [path.read_text() for path in sorted(Path(folder).iterdir())]
    if not any(told) and not any(codes):
        return RIGHT
    return next(filter(None, told), f"ranks ended with {codes}")


def release() -> str:
    return str(torch.__version__).partition("+")[0]


def read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main(path: Path) -> None:
    found = [row for row in read(path) if row["torch"] != release()] if path.exists() else []
    for row in rows():
        print(*row.values(), sep="  ", flush=True)
        found.append(row)
    found.sort(key=lambda row: [int(number) for number in re.findall(r"\d+", row["torch"])])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
