"""GPT-NeoX trains the same in every layout, rotation and resume, and transformers loads its model."""

from __future__ import annotations

import json
import math

import pytest

pytest.importorskip("torch")

from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE
from tests.containers.recipes.trainings import Trained, check_scores, close

LENGTH, ROWS, STEPS, SAVED_AFTER = 16, 8, 6, 3

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained.make("tests.containers.recipes.gpt_neox.trained", tmp_path_factory.mktemp("trained"))


def test_the_loss_falls_and_the_title_says_how_many_tokens_that_takes(trained: Trained) -> None:
    assert trained.codes["alone"] == [0], trained.said("alone")
    losses = [loss for loss, _ in trained.numbers("alone")]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0] - 0.5
    assert f"GPT-NeoX tiny: {STEPS * ROWS * LENGTH} tokens in {STEPS} steps" in trained.said("alone")


def test_tensor_and_pipeline_ranks_have_the_losses_and_norms_of_one_process(trained: Trained) -> None:
    assert trained.codes["cut"] == [0, 0, 0, 0], trained.said("cut")
    assert trained.numbers("cut") == close(trained.numbers("alone"))


def test_a_layout_that_cuts_the_model_is_checked_before_it_trains_and_others_are_not(
    trained: Trained,
) -> None:
    assert "self-check: tensor=2 × pipeline=2 trains a small model as one rank does" in trained.said("cut")
    assert "self-check" not in trained.said("alone")


def test_ranks_that_carry_wrong_numbers_end_before_a_step_unless_they_are_not_to_be_checked(
    trained: Trained,
) -> None:
    assert trained.codes["lossy"] == [1, 1]
    assert trained.said("lossy").splitlines()[-1].startswith("error: the self-check of tensor=2 in float32")
    assert not (trained.folder / "logs" / "lossy" / "steps.jsonl").exists()
    assert trained.codes["lossy-unchecked"] == [0, 0], trained.said("lossy-unchecked")
    assert trained.numbers("lossy-unchecked") != close(trained.numbers("alone"))


def test_a_resumed_training_says_that_its_micro_batch_is_another(trained: Trained) -> None:
    assert "micro_batch was 2 and is 1: dropout" in trained.said("resumed")
    assert "micro_batch was" not in trained.said("alone")


def test_another_layout_goes_on_where_one_process_stopped(trained: Trained) -> None:
    assert trained.codes["resumed"] == [0, 0, 0, 0], trained.said("resumed")
    assert trained.numbers("resumed") == close(trained.numbers("alone")[SAVED_AFTER:])


def test_heads_that_rotate_whole_train_as_those_that_rotate_in_part(trained: Trained) -> None:
    assert trained.codes["whole"] == [0], trained.said("whole")
    assert trained.numbers("whole") == close(trained.numbers("alone"))


def test_a_training_does_not_resume_with_the_rows_of_the_other_rotation(trained: Trained) -> None:
    assert trained.codes["otherwise"] == [MISTAKE_EXIT_CODE]
    assert "rotary" in trained.said("otherwise").splitlines()[-1]


def test_the_model_folder_says_here_and_in_transformers_what_the_training_said(trained: Trained) -> None:
    check_scores(trained.model("alone"), "GPTNeoXForCausalLM", words=128, length=LENGTH)


def test_published_weights_begin_where_their_training_ended_whatever_the_rotation(trained: Trained) -> None:
    assert trained.codes["from-published"] == [0], trained.said("from-published")
    first = trained.numbers("from-published")[0][0]
    assert first < trained.numbers("alone")[-1][0] + 0.2
    assert trained.held_out("from-published") < trained.held_out("alone")


def test_steps_tell_norms_throughput_and_tokens_per_dollar(trained: Trained) -> None:
    for record in trained.records("alone").values():
        assert record["gradient_norm"] > 0
        per_dollar = record["tokens_per_second"] * 3600 / 21.5
        assert record["tokens_per_dollar"] == pytest.approx(per_dollar)
    assert "tokens/$" in trained.said("alone")
    events = b"".join(path.read_bytes() for path in (trained.folder / "logs" / "alone").glob("events.*"))
    for name in ("loss", "gradient_norm", "tokens_per_second", "tokens_per_dollar"):
        assert f"train/{name}".encode() in events
    assert math.isfinite(trained.held_out("alone"))


def test_a_compile_job_keeps_nothing_but_a_record_of_what_it_compiled(trained: Trained) -> None:
    assert trained.codes["compile"] == [0], trained.said("compile")
    assert "compiles 2 step(s), and keeps nothing" in trained.said("compile")
    assert not (trained.folder / "checkpoints" / "compile").exists()
    assert not (trained.folder / "logs" / "compile").exists()
    (record,) = (trained.folder / "cache" / "slipway-compiled").iterdir()
    assert json.loads(record.read_bytes())["micro_batch"] == 2


def test_a_run_that_differs_from_what_was_compiled_is_refused_by_name(trained: Trained) -> None:
    assert trained.codes["differs"] == [MISTAKE_EXIT_CODE]
    assert "differs from this run: micro_batch was 2, and is 4; compile with" in trained.said("differs")
    assert trained.codes["same"] == [0], trained.said("same")


def test_a_token_that_the_model_does_not_know_is_refused(trained: Trained) -> None:
    assert trained.codes["short-vocabulary"] == [MISTAKE_EXIT_CODE]
    assert "but the model knows 100 tokens; set vocabulary to" in trained.said("short-vocabulary")
