"""A small prepared dataset and a few trainings that several tests look at, each run once."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from slipway.containers.training.config import is_proved
from tests.containers.training.ranks import Ranks, Run

NEEDED = ("torch", "deepspeed", "h5py", "isal", "numpy")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
REASON = f"not installed here: {', '.join(MISSING)}"
NEEDS_LAYOUTS = pytest.mark.skipif(
    "torch" not in MISSING and not is_proved("native", version("torch")),
    reason="layouts are refused on this PyTorch",
)

# Eight micro-batches a step divide among one, two and four ranks.
BASE = {"precision": "fp32", "steps": "6", "micro_batch": "4", "global_batch": "32", "checkpoint_every": "2"}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if MISSING:
        pytest.skip(REASON)
    from slipway.containers.data.rows.prepare import Share, prepare
    from slipway.containers.data.rows.train_vocabulary import train
    from slipway.containers.data.samples.texts import write_sample
    from slipway.containers.data.sources.sources import local_source
    from slipway.containers.data.tokens.engine import TokenSettings

    root = tmp_path_factory.mktemp("data")
    write_sample(root / "corpus.txt", seed=1, size_bytes=200_000)
    source = local_source(root / "corpus.txt")
    settings = TokenSettings(phase=1, vocabulary=train(source, 800), seed=7, duplicates=1)
    prepare(source, settings, root / "prepared" / "phase1", Share())
    return root / "prepared"


@pytest.fixture(scope="session")
def ranks(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(data, tmp_path_factory.mktemp("runs")) as started:
        yield started


@pytest.fixture(scope="session")
def alone(ranks: Ranks) -> Run:
    """Train on one rank without ZeRO, which also measures itself on held-out rows, and traces two steps."""
    watched = {"evaluate_every": "4", "held_out": "phase1", "held_out_rows": "64", "profile": "2:3"}
    return ranks.finish("alone", world=1, settings={**BASE, "zero": "0", **watched})


@pytest.fixture(scope="session")
def pair(ranks: Ranks) -> Run:
    """Train on two ranks without ZeRO."""
    return ranks.finish("pair", world=2, settings={**BASE, "zero": "0"})


@pytest.fixture(scope="session")
def zero_pair(ranks: Ranks) -> Run:
    """Train on two ranks with ZeRO-1."""
    return ranks.finish("zero-pair", world=2, settings={**BASE, "zero": "1"})
