"""Fine-tunings in real processes learn, agree on any number of ranks, and resume after a kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.recipes.glue_finetune import train
from tests.containers.recipes.glue_finetune.conftest import BASE, STEPS
from tests.containers.training.ranks import Ranks, Run

pytestmark = pytest.mark.slow

AGREE = 1e-4  # for losses near 0.7, which ranks add up in another order


def scores(run: Run) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads((run.logs / "scores.json").read_text())["scores"]
    return found


def final_weights(run: Run) -> dict[str, torch.Tensor]:
    library = pytest.importorskip("safetensors.torch")
    tensors: dict[str, torch.Tensor] = library.load_file(run.checkpoints / "model" / "model.safetensors")
    return tensors


Here = Callable[..., tuple[int, str]]


@pytest.fixture
def here(ranks: Ranks, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    """Run one rank in this process that ends before it trains; return its exit code and standard error."""

    def run(name: str, settings: dict[str, str]) -> tuple[int, str]:
        for key, value in ranks.environment(name, rank=0, world=1, port=1, attempt=2).items():
            monkeypatch.setenv(key, value)
        code = train.main([word for key, value in settings.items() for word in ("--set", f"{key}={value}")])
        return code, capsys.readouterr().err

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("kind", [pytest.param("bert", marks=pytest.mark.long), "distilbert"])
def test_a_tiny_model_learns_the_sample_far_better_than_the_majority(
    ranks: Ranks, data: Path, kind: str
) -> None:
    run = ranks.finish(
        f"learns-{kind}",
        world=1,
        settings={"task": "MRPC", "model": kind, "learning_rate": "2e-3", "epochs": "2", "precision": "fp32"},
    )
    assert run.codes == (0,), run.errors
    rows = (data / "mrpc" / "dev.tsv").read_text().splitlines()[1:]
    share = sum(row.startswith("1") for row in rows) / len(rows)
    assert scores(run)["dev"]["accuracy"] > max(share, 1 - share) + 0.2
    assert scores(run)["dev"]["f1"] > 0.8


def test_one_two_and_four_ranks_train_the_same(ranks: Ranks, alone: Run, pair: Run) -> None:
    """With dropout, and with a last batch in which two of four ranks have no row."""
    four = ranks.finish("four", world=4, settings=BASE)
    assert (alone.codes, pair.codes, four.codes) == ((0,), (0, 0), (0,) * 4)
    for other in (pair, four):
        assert other.losses() == pytest.approx(alone.losses(), abs=AGREE)
        for name, tensor in final_weights(alone).items():
            torch.testing.assert_close(final_weights(other)[name], tensor, rtol=1e-3, atol=1e-4)
        assert scores(other) == scores(alone)


def test_a_training_that_was_killed_ends_with_the_same_bits(ranks: Ranks, pair: Run) -> None:
    ranks.continue_from(pair, "killed", without=[STEPS])
    resumed = ranks.finish("killed", world=2, settings=BASE, attempt=2)
    assert f"resuming from step {STEPS - 2}" in resumed.errors
    assert resumed.losses() == pair.losses()
    assert resumed.saved(STEPS) == pair.saved(STEPS)


def test_it_resumes_on_another_number_of_ranks(ranks: Ranks, alone: Run, pair: Run) -> None:
    ranks.continue_from(pair, "fewer", without=[STEPS])
    resumed = ranks.finish("fewer", world=1, settings=BASE, attempt=2)
    assert resumed.codes == (0,), resumed.errors
    assert resumed.losses() == pytest.approx(alone.losses(), abs=AGREE)


@pytest.mark.parametrize(
    "changed", [{"seed": "7"}, {"data": "mrpc"}, {"model": "distilbert"}, {"epochs": "3"}]
)
def test_another_training_does_not_go_on_from_its_checkpoints(
    ranks: Ranks, here: Here, pair: Run, changed: dict[str, str]
) -> None:
    name = "other-" + "-".join(changed)
    ranks.continue_from(pair, name)
    code, errors = here(name, {**BASE, **changed})
    assert code == 2
    assert "belongs to another training: config." in errors


def test_every_step_says_how_long_the_rank_itself_worked(pair: Run) -> None:
    records = [json.loads(line) for line in (pair.logs / "steps.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert all(0 < record["own_seconds"] <= record["seconds"] for record in records)
    assert all(record["tokens_per_second"] > record["sequences_per_second"] for record in records)


def test_what_carries_the_gradients_is_said(pair: Run, alone: Run) -> None:
    assert "75 rows, 2 rank(s) in float32, over gloo" in pair.errors
    assert "over nothing, alone" in alone.errors


def test_bf16_trains_as_well(ranks: Ranks, alone: Run) -> None:
    run = ranks.finish("bf16", world=1, settings={**BASE, "precision": "bf16", "steps": "2"})
    assert run.codes == (0,), run.errors
    first, second = (run.losses()[step] for step in (1, 2))
    assert (first, second) == pytest.approx((alone.losses()[1], alone.losses()[2]), abs=0.05)


BAD: dict[str, tuple[dict[str, str], str]] = {
    "task": ({"task": "../mrpc"}, "error: task is '../mrpc', and must be one of cola"),
    "data": ({"data": "none"}, "none is no folder; give a task's folder"),
    "rows": ({"data": "broken"}, "error: train.tsv:3 has the label 'x'; mrpc has 0 or 1"),
    "model": ({"model": "bert-base-uncased"}, "nothing is fetched from a hub"),
    "length": ({"max_length": "512"}, "has 128 positions; set max_length=128 or less"),
    "backend": ({"backend": "ccl"}, "error: backend ccl is not here: none of oneccl_bindings_for_pytorch"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_line_and_exit_code_2(here: Here, data: Path, case: str) -> None:
    changed, told = BAD[case]
    (data / "broken").mkdir(exist_ok=True)
    good = (data / "small" / "train.tsv").read_text().splitlines()
    (data / "broken" / "train.tsv").write_text("\n".join([*good[:2], "x" + good[2][1:]]))
    code, errors = here(f"bad-{case}", {**BASE, **changed})
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    assert code == 2
    assert told in line
    assert (case == "backend") == ("set backend to one of" in errors)
