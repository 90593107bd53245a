"""A sample task, tiny models, and a few trainings that several tests look at, each run once."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.training.ranks import Ranks, Run

# With real dropout. 75 rows are two batches of 32 and one of 11, in which some of four ranks have no row.
BASE = {
    "task": "mrpc",
    "data": "small",
    "model": "bert",
    "precision": "fp32",
    "learning_rate": "1e-3",
    "epochs": "2",
    "global_batch": "32",
    "micro_batch": "8",
    "checkpoint_every": "2",
    "log_every": "1",
}
STEPS = 6


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed here")
    from slipway.containers.data.samples.model_sample import write_model
    from slipway.containers.data.samples.texts import write_task

    root = tmp_path_factory.mktemp("glue")
    write_task(root / "mrpc", "mrpc")
    write_task(root / "small", "mrpc", train_rows=75)
    for kind in ("bert", "distilbert"):
        write_model(root / kind, kind)
    return root


@pytest.fixture(scope="session")
def ranks(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(data, tmp_path_factory.mktemp("runs"), "glue_finetune") as started:
        yield started


@pytest.fixture(scope="session")
def alone(ranks: Ranks) -> Run:
    return ranks.finish("alone", world=1, settings=BASE)


@pytest.fixture(scope="session")
def pair(ranks: Ranks) -> Run:
    return ranks.finish("pair", world=2, settings=BASE)
