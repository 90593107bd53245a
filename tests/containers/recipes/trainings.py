"""Runs tiny trainings of one recipe, each rank a fork; `Trained.make` runs a module's main."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.containers.forks import fork_each, free_port, run_module
from tests.containers.training.ranks import rank_variables


class Trainings:
    """Run trainings one after the other below one folder, and keep what they printed."""

    def __init__(self, folder: Path, main: Callable[[Sequence[str]], int], base: Mapping[str, str]) -> None:
        self.folder, self._main, self._base = folder, main, base
        self.codes: dict[str, list[int]] = {}

    def run(self, name: str, world: int, changes: Mapping[str, str], **variables: str | Path) -> None:
        port, settings = free_port(), {**self._base, **changes}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

        def be_rank(rank: int) -> int:
            import torch

            os.environ |= rank_variables(
                (rank, world, port),
                SLIPWAY_RUN=name,
                SLIPWAY_ATTEMPT=1,
                SLIPWAY_DATA=self.folder / "data",
                SLIPWAY_CHECKPOINTS=self.folder / "checkpoints" / name,
                SLIPWAY_LOGS=self.folder / "logs" / name,
                **variables,
            )
            with (self.folder / f"{name}.{rank}.txt").open("w") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            torch.set_num_threads(1)
            return self._main(words)

        self.codes[name] = fork_each(world, be_rank)

    def continue_from(self, other: str, name: str) -> None:
        """Give a run the checkpoint that another saved halfway."""
        there = self.folder / "checkpoints" / name
        shutil.copytree(self.folder / "checkpoints" / other, there)
        shutil.rmtree(max(there.glob("step-*")))
        shutil.rmtree(there / "model")

    def finish(self) -> None:
        """Leave the exit codes for `Trained`."""
        (self.folder / "codes.json").write_text(json.dumps(self.codes))


@dataclass(frozen=True, slots=True)
class Trained:
    """Reads what such trainings left, by their names."""

    folder: Path
    codes: Mapping[str, list[int]]

    @classmethod
    def make(cls, module: str, folder: Path, *names: str) -> Trained:
        ran = run_module(module, folder, *names)
        assert ran.returncode == 0, ran.stderr
        return cls(folder, json.loads((folder / "codes.json").read_text()))

    def records(self, name: str) -> dict[int, dict[str, float]]:
        lines = (self.folder / "logs" / name / "steps.jsonl").read_text().splitlines()
        return {record["step"]: record for record in map(json.loads, lines)}

    def numbers(self, name: str) -> list[tuple[float, float]]:
        return [(each["loss"], each["gradient_norm"]) for _, each in sorted(self.records(name).items())]

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.0.txt").read_text()

    def held_out(self, name: str) -> float:
        lines = (self.folder / "logs" / name / "held_out.jsonl").read_text().splitlines()
        return float(json.loads(lines[-1])["loss"])

    def scores(self, name: str) -> dict[str, float]:
        text = (self.folder / "logs" / name / "scores.json").read_text()
        return dict(json.loads(text)["scores"])

    def model(self, name: str) -> Path:
        return self.folder / "checkpoints" / name / "model"


def close(numbers: list[tuple[float, float]]) -> object:
    return [pytest.approx(pair, rel=1e-5, abs=1e-5) for pair in numbers]


def transformers_model(place: Path, kind: str) -> Any:
    """Return what transformers loads from a folder, which must be of this class."""
    transformers = pytest.importorskip("transformers", reason="the extra 'compare' is not installed")
    found = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    assert type(found).__name__ == kind
    return found


def check_scores(place: Path, kind: str, *, words: int, length: int) -> None:
    """Compare a model folder's answers to some words here and in transformers."""
    import torch

    from slipway.containers.models.decoder import build_decoder
    from slipway.containers.models.published import load_weights, open_model

    theirs, found = transformers_model(place, kind), open_model(str(place))
    ours = build_decoder(found.shape, seed=0)  # type: ignore[arg-type]  # a decoder's
    assert load_weights(ours, found.weights()) == []
    drawn = torch.randint(words, (2, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(drawn), theirs(drawn).logits, rtol=2e-5, atol=2e-5)
