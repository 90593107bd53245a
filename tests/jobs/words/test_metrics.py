"""SageMaker reads the metrics from the very lines that a training prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.devices import Device
from slipway.containers.training.loop import Evaluation
from slipway.containers.training.report import Reporter, StepReport, Utilisation
from slipway.jobs.words.sagemaker import PATTERNS, metric_definitions

STEP = StepReport(
    step=20,
    rows=64,
    tokens=64 * 128,
    loss=8.0813,
    gradient_norm=1.95,
    learning_rate=6.25e-05,
    seconds=0.5,
    loss_scale=None,
    own_seconds=None,
)


PROCESSOR = Device(
    kind="cpu", place=torch.device("cpu"), precision=torch.float32, backend="gloo", has_fused_adam=True
)


class A100(Device):
    """Prints as a training on GPUs does, whose peak is published."""

    @property
    def peak_tflops(self) -> float:
        return 100.0


def printed(report: StepReport, device: Device = PROCESSOR) -> str:
    """Return the line as it stands in the log: the launcher puts the rank before it."""
    lines: list[str] = []
    Reporter(
        steps=20,
        log_every=1,
        device=device,
        telemetry=Telemetry(None, attempt=1),
        show=lines.append,
        utilisation=Utilisation(device, 1, 1e9),
    ).tell(report)
    return f"[0] {lines[0]}"


def metrics(line: str) -> Mapping[str, float]:
    found = {name: re.search(pattern, line) for name, pattern in PATTERNS.items()}
    return {name: float(match[1]) for name, match in found.items() if match}


def test_a_step_that_is_printed_is_six_metrics() -> None:
    gpu = A100(
        kind="cpu", place=torch.device("cpu"), precision=torch.bfloat16, backend="gloo", has_fused_adam=True
    )
    assert metrics(printed(STEP, gpu)) == {
        "train:step": 20,
        "train:loss": 8.0813,
        "train:learning_rate": 6.25e-05,
        "train:gradient_norm": 1.95,
        "train:sequences_per_second": 128.0,
        "train:mfu_percent": 16.4,
    }


def test_thousands_of_sequences_a_second_are_one_number() -> None:
    assert metrics(printed(replace(STEP, rows=64_000)))["train:sequences_per_second"] == 128_000.0


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_what_is_no_number_is_no_metric(loss: float) -> None:
    found = metrics(printed(replace(STEP, loss=loss, gradient_norm=loss)))
    assert "train:loss" not in found
    assert "train:gradient_norm" not in found
    assert found["train:sequences_per_second"] == 128.0


def test_what_is_measured_on_held_out_rows_is_read() -> None:
    lines: list[str] = []
    told = type("HeldOut", (), {"perplexity_of": "loss", "rows": 872, "every": 10})()
    evaluation = Evaluation(
        held_out=told,
        engine=None,  # type: ignore[arg-type]  # nothing is measured here, only told
        parts=None,  # type: ignore[arg-type]
        telemetry=Telemetry(None, attempt=1),
        say=lines.append,
        steps=20,
    )
    evaluation._tell(20, {"loss": 0.0000251, "accuracy": 0.9125})
    assert metrics(f"[0] {lines[0]}") == {
        "held_out:loss": 2.51e-05,
        "held_out:accuracy": 0.9125,
        "held_out:perplexity": 1.0,
    }


def test_sagemaker_takes_each_definition() -> None:
    definitions = metric_definitions()
    assert 0 < len(definitions) <= 40
    assert all(1 <= len(each["Regex"]) <= 500 for each in definitions)
    assert all(re.compile(each["Regex"]).groups == 1 for each in definitions)
