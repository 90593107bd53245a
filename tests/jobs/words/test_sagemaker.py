"""SageMaker gets images that AWS publishes, hyperparameters, and metrics that match a training's lines."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.launch.sagemaker_entry import launcher_words
from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.devices import Device
from slipway.containers.training.loop import Evaluation
from slipway.containers.training.report import Reporter, StepReport
from slipway.infra.declare.machine_images import CONTAINERS
from slipway.jobs.words.images.aws_images import NoPublishedImage, published_image
from slipway.jobs.words.job import InvalidJob
from slipway.jobs.words.names import OTHER_PARTITIONS, REGIONS
from slipway.jobs.words.sagemaker import (
    LONGEST_VALUE,
    LONGEST_VARIABLE,
    MOST_BYTES,
    MOST_HYPERPARAMETERS,
    PATTERNS,
    metric_definitions,
    refuse_too_many,
    setting_hyperparameters,
    toolkit_hyperparameters,
)

OUR_IMAGE = "sagemaker-pytorch"


def test_every_region_has_the_registry_that_the_sdk_names() -> None:
    found = find_spec("sagemaker")
    if found is None or found.origin is None:
        pytest.skip("the SageMaker SDK is not installed")
    table = Path(found.origin).parent / "image_uri_config" / "pytorch.json"
    versions = json.loads(table.read_text(encoding="utf-8"))["training"]["versions"]
    registries = versions["2.8.0"]["registries"]
    for region in set(REGIONS) & set(registries):
        if region.startswith(OTHER_PARTITIONS):
            continue
        uri = published_image(CONTAINERS, OUR_IMAGE, region=region, device="cuda")
        assert uri.startswith(f"{registries[region]}.dkr.ecr.{region}.amazonaws.com/pytorch:2.13-cu133-")


def test_a_type_without_accelerators_gets_the_small_image() -> None:
    assert ":2.13-cpu-" in published_image(CONTAINERS, OUR_IMAGE, region="us-east-1", device="cpu")


@pytest.mark.parametrize(
    ("image", "region", "device", "said"),
    [
        (OUR_IMAGE, "us-iso-east-1", "cuda", "registry of containers in us-iso-east-1 is not known"),
        (OUR_IMAGE, "us-east-1", "neuron", "has no tag for neuron; it has cpu, cuda"),
        ("gaudi", "us-east-1", "cuda", "containers/images/gaudi is no image of a registry"),
        ("nothing", "us-east-1", "cuda", "containers/images/nothing is no image of a registry"),
    ],
)
def test_an_image_that_aws_does_not_publish_is_refused(
    image: str, region: str, device: str, said: str
) -> None:
    with pytest.raises(NoPublishedImage, match=said):
        published_image(CONTAINERS, image, region=region, device=device)


# The recipe reads the hyperparameters that were written, although a shell sees them on the way.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=60)
TOOLKIT = toolkit_hyperparameters("gptj-0123456789ab", "s3://bucket/code/c.tar.gz", "us-east-1")


def as_toolkit_reads(hyperparameters: dict[str, str]) -> dict[str, object]:
    """Decode each value as JSON, as sagemaker_training.environment.read_hyperparameters does."""
    return {name: json.loads(value) for name, value in hyperparameters.items()}


@given(value=TEXT)
def test_any_text_reaches_the_recipe_as_it_was_typed(value: str) -> None:
    read = as_toolkit_reads(setting_hyperparameters({"prompt": value, "size": "tiny"}))
    words = launcher_words({variables.MODULE: "gptj.train", "SM_HPS": json.dumps(read)})
    assert words == ["--module", "gptj.train", "--", "--set", f"prompt={value}", "--set", "size=tiny"]


@given(value=TEXT)
def test_no_text_means_anything_to_the_shell_that_the_toolkit_starts(value: str) -> None:
    read = as_toolkit_reads(setting_hyperparameters({"prompt": value}))["prompt"]
    command = f"python slipway_start.py --prompt {read}"  # the toolkit joins the words without quotes
    assert re.fullmatch(r"[A-Za-z0-9/:,.=+@%_~ -]*", command)
    assert shlex.split(command) == ["python", "slipway_start.py", "--prompt", *([read] if read else [])]


def test_plain_settings_are_readable_in_the_console() -> None:
    assert setting_hyperparameters({"data": "s3://b/sst2", "rate": "1e-05"}) == {
        "data": '"s3://b/sst2"',
        "rate": '"1e-05"',
    }


def test_numbers_and_truths_of_an_sdk_are_settings_too_and_its_libraries_own_are_not() -> None:
    hps = json.dumps({"steps": 4, "lora": True, "mp_parameters": {"tensor_parallel_degree": 2}})
    assert launcher_words({variables.MODULE: "m", "SM_HPS": hps})[3:] == [
        *("--set", "lora=true"),
        *("--set", "steps=4"),
    ]


def test_the_toolkit_finds_our_entry_point_in_the_archive() -> None:
    read = as_toolkit_reads(TOOLKIT)
    assert read["sagemaker_program"] == "slipway_start.py"
    assert read["sagemaker_submit_directory"] == "s3://bucket/code/c.tar.gz"
    assert all(name.startswith("sagemaker_") for name in read), "or they would be words of the program"


def refused(settings: dict[str, str], told: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(InvalidJob) as refusal:
        refuse_too_many(TOOLKIT | setting_hyperparameters(settings), told or {})
    return [str(problem) for problem in refusal.value.problems]


def test_the_hundred_and_first_hyperparameter_is_refused_with_how_many_may_be_set() -> None:
    left = MOST_HYPERPARAMETERS - len(TOOLKIT)
    refuse_too_many(TOOLKIT | setting_hyperparameters({f"k{n}": "v" for n in range(left)}), {})
    (said,) = refused({f"k{n}": "v" for n in range(left + 1)})
    assert f"{left + 1} settings; SageMaker takes 100 hyper-parameters" in said
    assert f"set at most {left}" in said


def test_a_value_that_is_too_long_is_refused_by_name() -> None:
    refuse_too_many(setting_hyperparameters({"prompt": "x" * (LONGEST_VALUE - 2)}), {})
    (said,) = refused({"prompt": "x" * (LONGEST_VALUE - 1)})
    assert said.startswith("--set prompt: has 2501 characters as a hyper-parameter; SageMaker takes 2500")


def test_settings_that_no_command_line_holds_are_refused_together() -> None:
    said = refused({f"k{n}": "x" * 2400 for n in range(28)})
    assert f"takes {MOST_BYTES}" in said[-1]


def test_a_place_that_no_variable_holds_is_refused() -> None:
    (said,) = refused({}, {"SLIPWAY_DATA": "/" + "d" * LONGEST_VARIABLE})
    assert "SLIPWAY_DATA: has 513 characters; SageMaker takes 512 in a variable" in said


# SageMaker finds the metrics in the lines that a training prints.
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
    """Return the line as it is in the log, where the launcher puts the rank before it."""
    lines: list[str] = []
    Reporter(
        steps=20,
        log_every=1,
        device=device,
        telemetry=Telemetry(None, attempt=1),
        show=lines.append,
        world=1,
        flops_per_token=1e9,
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
