"""Lines of common libraries become numbers by step; every other line is ignored."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.submit.curve import points
from slipway.jobs.submit.metrics import LoggedStep, read

# Printed by the Trainer of transformers 5.23.0 under our launcher, which ends a line when a bar is drawn
# again.
TRAINER = """\
[0]   0%|          | 0/40 [00:00<?, ?it/s]
[0] [transformers] `loss_type=None` was set in the config but it is unrecognized.
[0]  22%|██▎       | 9/40 [00:05<00:15,  2.04it/s]
[0] {'loss': '3.839', 'grad_norm': '1.13', 'learning_rate': '0.002325', 'epoch': '0.07812'}
[0]                                                \n\
[0] \n\
[0]  25%|██▌       | 10/40 [00:05<00:16,  1.83it/s]
[0]  50%|█████     | 20/40 [00:09<00:08,  2.34it/s]
[0] {'loss': '3.595', 'grad_norm': '1.371', 'learning_rate': '0.001575', 'epoch': '0.1562'}
[0] \n\
[0]  50%|█████     | 20/40 [00:09<00:08,  2.34it/s]
[0]   5%|▍         | 3/64 [00:00<00:07,  8.01it/s]\\x1b[A
[0] 100%|██████████| 64/64 [00:04<00:00, 14.62it/s]\\x1b[A
[0] {'eval_loss': '3.483', 'eval_runtime': '7.173', 'eval_samples_per_second': '71.38', 'epoch': '0.1562'}
[0] \n\
[0]  50%|█████     | 20/40 [00:16<00:08,  2.34it/s]
[0]  75%|███████▌  | 30/40 [00:18<00:04,  2.15it/s]
[0] {'loss': '3.408', 'grad_norm': '1.096', 'learning_rate': '0.000825', 'epoch': '0.2344'}
[0] {'train_runtime': '24.95', 'train_samples_per_second': '6.413', 'train_loss': '3.537', 'epoch': '0.2344'}
""".splitlines()


def only(*lines: str) -> LoggedStep:
    (found,) = read(lines)
    return found


def test_the_trainer_s_records_have_the_step_of_its_progress_bar() -> None:
    found = read(TRAINER)
    assert [(each.step, each.steps, each.attempt) for each in found] == [
        (10, 40, 1),
        (20, 40, 1),
        (30, 40, 1),
    ]
    assert found[0].metrics == {"loss": 3.839, "gradient_norm": 1.13, "learning_rate": 0.002325}
    assert found[1].metrics["eval_loss"] == 3.483
    assert found[2].metrics["loss"] == 3.408  # not the mean of the whole training
    assert found[2].metrics["train_samples_per_second"] == 6.413


def test_without_a_bar_reports_are_counted_and_a_resumption_takes_back_what_came_after_it() -> None:
    """These are the numbers of an older release, which prints no texts."""
    first = [f"{{'loss': {9 - n}, 'learning_rate': 5e-05, 'epoch': {n / 4}}}" for n in (1, 2, 3)]
    again = ["{'loss': 6.5, 'epoch': 0.75}", "{'loss': 6.0, 'epoch': 1.0}"]
    found = points([*first, "resuming from step 20", *again])
    assert [(each.step, each.loss, each.attempt) for each in found] == [
        (1, 8, 1),
        (2, 7, 1),
        (3, 6.5, 2),
        (4, 6, 2),
    ]
    assert not any(each.has_step for each in found)
    assert [each.epoch for each in found] == [0.25, 0.5, 0.75, 1.0]


def test_trl_s_further_metrics_are_kept_under_their_names() -> None:
    line = "{'loss': 2.1, 'rewards/chosen': '-0.5', 'mean_token_accuracy': 0.61, 'epoch': 1}"
    assert only(line).metrics == {
        "loss": 2.1,
        "rewards/chosen": -0.5,
        "mean_token_accuracy": 0.61,
    }


def test_lightning_s_progress_counts_the_steps_of_all_epochs() -> None:
    lines = [
        "[0] Epoch 0:   0%|          | 0/32 [00:00<?, ?it/s]",
        "[0] Epoch 0:  50%|█████     | 16/32 [00:01<00:01, 10.00it/s, v_num=0, train_loss=0.512]",
        "[0] Validation DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 99.1it/s]",
        "[0] Epoch 1: 100%|██████████| 32/32 [00:01<00:00, 20it/s, v_num=0, loss_step=0.4, val_loss=0.7]",
    ]
    found = read(lines)
    assert [(each.step, each.metrics) for each in found] == [
        (16, {"loss": 0.512}),
        (64, {"loss": 0.4, "eval_loss": 0.7}),
    ]


def test_deepspeed_s_lines_are_one_step_with_the_loss_that_follows() -> None:
    lines = [
        "[0] [2026-11-26 06:28:43,774] [logging.py:96] [Rank 0] step=10, skipped=0, lr=[0.001], mom=[0.9]",
        "[0] [timer.py:264] epoch=0/micro_step=10/global_step=10, CurrSamplesPerSec=3.4, Mem",
        "[0] loss: 0.75",
    ]
    found = only(*lines)
    assert (found.step, found.metrics) == (
        10,
        {"learning_rate": 0.001, "sequences_per_second": 3.4, "loss": 0.75},
    )
    assert read(lines[2:]) == []  # a loss without a step is no point of a curve
    pipeline = only("[0] steps: 10 loss: 8.9123 iter time (s): 0.512 samples/sec: 200.400")
    assert (pipeline.step, pipeline.metrics) == (10, {"loss": 8.9123, "sequences_per_second": 200.4})


@pytest.mark.parametrize(
    ("line", "step", "metrics"),
    [
        ("iter 100: loss 3.2140, time 20.10ms, mfu 1.20%", 100, {"loss": 3.214}),  # nanoGPT
        ("step 250: train loss 2.3012, val loss 2.5", 250, {"loss": 2.3012, "eval_loss": 2.5}),
        (
            " iteration 10/ 100 | learning rate: 1.0E-04 | lm loss: 9.123E+00 | grad norm: 1.2 |",  # Megatron
            10,
            {"loss": 9.123, "learning_rate": 1e-4, "gradient_norm": 1.2},
        ),
        ('{"step": 7, "loss": 0.5, "eval_loss": 0.6, "samples_per_second": 12.5, "note": "x"}', 7, {
            "loss": 0.5, "eval_loss": 0.6, "sequences_per_second": 12.5,
        }),
        ("2026-11-26 10:00:00 INFO step 10/200 | loss=nan | 1,117.5 tokens/s", 10, {
            "loss": math.nan, "tokens_per_second": 1117.5,
        }),
        ("held out after step 20: loss 3.1  perplexity 22.2  (512 rows)", 20, {"eval_loss": 3.1}),
    ],
)  # fmt: skip
def test_a_line_of_words_or_json_is_read(line: str, step: int, metrics: dict[str, float]) -> None:
    found = only(line)
    assert found.step == step
    assert found.metrics == pytest.approx(metrics, nan_ok=True)


def test_ranks_of_a_node_that_all_say_where_they_resume_are_one_attempt() -> None:
    lines = ["step 10/30  loss 3", *["resuming from step 10"] * 8, "step 20/30  loss 2"]
    assert [each.attempt for each in read(lines)] == [1, 2]


def test_epochs_that_count_their_own_steps_are_laid_end_to_end() -> None:
    lines = [f"Epoch [{epoch}/2], Step [{step}/600], Loss: 0.2" for epoch in (1, 2) for step in (300, 600)]
    assert [(each.step, each.attempt) for each in read(lines)] == [(300, 1), (600, 1), (900, 1), (1200, 1)]


def test_an_evaluation_at_the_end_of_an_epoch_belongs_to_the_last_step() -> None:
    found = read(["step 10/20  loss 0.5", "epoch 0: {'accuracy': 0.68, 'f1': 0.81}"])
    assert found[0].metrics == {"loss": 0.5, "accuracy": 0.68, "f1": 0.81}


@pytest.mark.parametrize(
    "line",
    [
        "best val loss 0.2 at step 100",
        "{'input_ids': 5}",
        '{"loss": 0.5}',
        "[3] step 10/20  loss 0.5",
        "[node 0] step 10/20  loss 0.5",
        "Map: 100%|██████████| 2000/2000 [00:00<00:00, 9000 examples/s]",
        "step 10/20  loss " + "9" * 9000,
    ],
)
def test_other_lines_are_no_readings(line: str) -> None:
    assert read([line]) == []


WORDS = st.sampled_from(
    ["step ", "epoch ", "loss", ": ", "=", "1" * 400, "nan", "-inf", "1e999", "{'", "'}", "'loss': ", "[",
     "/", "5", "| 1/0 [0, 1it/s, loss=1]", "'epoch': ",
     "'step': ", "global_step=", "%|", ",", " skipped=0, lr=[["]
)  # fmt: skip


@given(st.lists(st.lists(WORDS, max_size=12).map("".join), max_size=6))
def test_no_line_whatever_it_holds_breaks_the_reader(lines: list[str]) -> None:
    for each in read(lines):
        assert each.metrics
