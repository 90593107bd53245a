"""A job's hyper-parameters: what AWS's toolkit reads in the container, and the recipe's settings beside it.

The toolkit decodes each value as JSON and passes it to a shell unquoted, so that a setting travels with
everything but plain characters as %XX. containers/runtime/launch/sagemaker_entry.py decodes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from slipway.jobs.words.errors import Problem
from slipway.jobs.words.job import InvalidJob
from slipway.jobs.words.sagemaker.places import ENTRY_POINT

# SageMaker API Reference, CreateTrainingJob; jobs/platforms/sagemaker holds them against botocore's model.
MOST_HYPERPARAMETERS = 100
LONGEST_VALUE = 2500
MOST_VARIABLES = 100
LONGEST_VARIABLE = 512
# The toolkit repeats all settings in one variable and one command line, and Linux takes 128 KiB of each.
MOST_BYTES = 64 * 1024

# The toolkit keeps what begins so for itself, and the program hears nothing of it.
RESERVED = "sagemaker_"
_PLAIN = "/:,.=+@-_"
_LOG_LEVEL = 20  # logging.INFO
_LONG_HINT = "put it into a file that the recipe reads"


def toolkit_hyperparameters(name: str, code: str, region: str) -> dict[str, str]:
    """Return what the toolkit needs to start our entry point; `code` is the URL of the archive."""
    read = {
        "sagemaker_program": ENTRY_POINT,
        "sagemaker_submit_directory": code,
        "sagemaker_region": region,
        "sagemaker_job_name": name,
        "sagemaker_container_log_level": _LOG_LEVEL,
    }
    return {key: json.dumps(value) for key, value in read.items()}


def setting_hyperparameters(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: json.dumps(quote(value, safe=_PLAIN)) for key, value in sorted(settings.items())}


def refuse_too_many(hyperparameters: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """Refuse what SageMaker would not take, all at once."""
    problems = [*_hyperparameter_problems(hyperparameters), *_variable_problems(variables)]
    if problems:
        raise InvalidJob(problems)


def _hyperparameter_problems(hyperparameters: Mapping[str, str]) -> Iterator[Problem]:
    own = sum(name.startswith(RESERVED) for name in hyperparameters)
    if len(hyperparameters) > MOST_HYPERPARAMETERS:
        yield Problem(
            where="--set",
            message=f"{len(hyperparameters) - own} settings; SageMaker takes {MOST_HYPERPARAMETERS} "
            f"hyper-parameters, and {own} of them are its toolkit's",
            hint=f"set at most {MOST_HYPERPARAMETERS - own}",
        )
    for name, value in hyperparameters.items():
        if len(value) > LONGEST_VALUE:
            yield Problem(
                where=f"--set {name}",
                message=f"has {len(value)} characters as a hyper-parameter; SageMaker takes {LONGEST_VALUE}",
                hint=_LONG_HINT,
            )
    size = sum(len(name) + len(value) for name, value in hyperparameters.items())
    if size > MOST_BYTES:
        yield Problem(
            where="--set",
            message=f"all settings together have {size} bytes; a training container takes {MOST_BYTES}",
            hint=_LONG_HINT,
        )


def _variable_problems(variables: Mapping[str, str]) -> Iterator[Problem]:
    assert len(variables) <= MOST_VARIABLES, f"{len(variables)} variables, all of them ours"
    for name, value in variables.items():
        if len(value) > LONGEST_VARIABLE:
            yield Problem(
                where=name,
                message=f"has {len(value)} characters; SageMaker takes {LONGEST_VARIABLE} in a variable",
                hint="name a shorter place",
            )
