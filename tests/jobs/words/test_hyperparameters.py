"""What is written as hyper-parameters is what the recipe reads, although a shell sees it on the way."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.launch.sagemaker_entry import launcher_words
from slipway.jobs.words.job import InvalidJob
from slipway.jobs.words.sagemaker import (
    LONGEST_VALUE,
    LONGEST_VARIABLE,
    MOST_BYTES,
    MOST_HYPERPARAMETERS,
    refuse_too_many,
    setting_hyperparameters,
    toolkit_hyperparameters,
)

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
