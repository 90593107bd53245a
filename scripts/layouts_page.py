"""The page that says on which PyTorch each recipe trains in each layout, from what tests have seen of it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from slipway.containers.training.config import OLDEST, is_proved
from slipway.infra.declare.machine_images import CONTAINERS
from slipway.jobs.words.images.containers import locked_torch

MEASURED = Path(__file__).resolve().parent.parent / "docs" / "lists" / "layouts.csv"
RIGHT = "as one rank"
_INTRODUCTION = f"""\
# Layouts

Which recipe trains in which layout (`sharded=`, `tensor=`, `pipeline=`), on the PyTorch of each image. All of
it is about the engine `native`, which is taken on PyTorch {OLDEST["native"]} and newer. What is refused is so
where a job is submitted, before a node starts, and once more by each rank. Data parallel BERT and GLUE,
DeepSpeed's ZeRO, NxD on Trainium and SMP are engines of their own, which no row is about.

| PyTorch | Images | Layouts |
|---|---|---|
"""
_CASES = """
"Run" was seen on 2 to 8 processors over gloo: a small model of the recipe's own kind took two steps in fp32
and two in bf16, and its losses and gradient norms were those of one rank that trained alone.
`tests/containers/training/layout_table.py` wrote it down, and `scripts/test --all` sees it again. No layout
ran on an accelerator: there each training in a layout first does the same by itself (`self_check=`), and
the recipe `smoke` does it in every layout that a cluster's ranks allow.

| Recipe | Layout | {columns} |
|---|---|{lines}|
"""
# Why a release that an image holds is not proved, as it was seen there.
_REASONS: Mapping[str, str] = {
    "2.4.0": "it has no `fully_shard`, which the engine is made of",
    "2.9.0": "gloo aborts in every pipeline, and shards of uneven rows are not all trained, without a word",
}


def layouts_page() -> str:
    images = images_by_torch()
    found = {(row["recipe"], row["layout"], row["torch"]): row["result"] for row in measured()}
    columns = " | ".join(images)
    page = _INTRODUCTION + "".join(
        f"| {torch} | {', '.join(names)} | {'run' if is_proved('native', torch) else _refused(torch)} |\n"
        for torch, names in images.items()
    )
    page += _CASES.format(columns=columns, lines="|".join("---" for _ in images))
    for recipe, layout in dict.fromkeys(key[:2] for key in found):
        cells = (_cell(torch, found.get((recipe, layout, torch))) for torch in images)
        page += f"| {recipe} | {layout} | {' | '.join(cells)} |\n"
    return page


def _refused(torch: str) -> str:
    return f"refused: {_REASONS.get(torch, 'not proved')}"


def _cell(torch: str, result: str | None) -> str:
    if not is_proved("native", torch):
        return "refused"
    return "run" if result == RIGHT else f"**{result or 'not measured'}**"


def measured() -> Iterator[dict[str, str]]:
    with MEASURED.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def images_by_torch() -> dict[str, list[str]]:
    """Return the images that hold each release for ranks, the oldest release first."""
    found: dict[str, list[str]] = {}
    for path in sorted((CONTAINERS / "images").iterdir()):
        if path.is_dir() and (torch := locked_torch(CONTAINERS, path.name)):
            found.setdefault(torch.version, []).append(path.name)
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))
