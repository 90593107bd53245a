"""Where the files of a training job lie: in its container, and in the cluster's bucket. Infra allows these.

A bucket is one cluster's, so that the folders below jobs/ are the names of the cluster's jobs.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from slipway.jobs.words.errors import Problem, SlipwayError
from slipway.jobs.words.job import InvalidJob

# In the container (SageMaker AI Developer Guide, "Amazon SageMaker AI Training Storage Folders").
CODE = "/opt/ml/code"
CHANNELS = "/opt/ml/input/data"  # a folder a channel
CHECKPOINTS = "/opt/ml/checkpoints"  # each instance's own, which SageMaker copies to the bucket and back
TENSORBOARD = "/opt/ml/output/tensorboard"
MODEL = "/opt/ml/model"  # which SageMaker packs as model.tar.gz when the job ends

# The program at the root of a job's code: containers/runtime/launch/sagemaker_entry.py.
ENTRY_POINT = "slipway_start.py"

JOBS = "jobs/"


def job_prefix(name: str) -> str:
    return f"{JOBS}{name}/"


def job_url(bucket: str, name: str, part: str) -> str:
    """Return where one sort of a job's files lies: checkpoints, tensorboard, profile."""
    return f"s3://{bucket}/{job_prefix(name)}{part}"


def output_url(bucket: str) -> str:
    """Return the prefix below which SageMaker writes NAME/output/model.tar.gz itself."""
    return f"s3://{bucket}/{JOBS.rstrip('/')}"


def channel_folder(channel: str) -> str:
    return f"{CHANNELS}/{channel}"


# The images of AWS that jobs of SageMaker run in: which registry a region has, and which tag a lock names.
# A lock with a [registry] names an image that somebody else publishes: its repository, and a tag by device.
# Of AWS's Deep Learning Containers, as the SageMaker SDK 2.257.7 has them (image_uri_config/pytorch.json).
_REGISTRY = "763104351884"
_REGISTRIES: Mapping[str, str] = {
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-east-2": "975050140332",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ap-southeast-6": "633930458069",
    "ap-southeast-7": "590183813437",
    "ca-west-1": "204538143572",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "mx-central-1": "637423239942",
}
_SHARES_IT = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ca-central-1",
        "eu-central-1",
        "eu-north-1",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
    }
)


class NoTrainingImage(SlipwayError):
    """AWS publishes no image for this region or device, or the lock names none."""


def training_image(containers: Path, name: str, *, region: str, device: str) -> str:
    """Return the URI of the image of this name; `device` is what a recipe's ACCELERATORS calls it."""
    published = _published(containers, name)
    account = _REGISTRIES.get(region) or (_REGISTRY if region in _SHARES_IT else None)
    if account is None:
        raise NoTrainingImage(
            f"AWS's registry of training images in {region} is not known",
            hint="add it to jobs/words/sagemaker.py, or use another region",
        )
    if device not in published:
        held = ", ".join(sorted(published.keys() - _NO_DEVICE))
        raise NoTrainingImage(
            f"image '{name}' has no tag for {device}; it has {held}",
            hint=f"use another instance type, or add one to containers/images/{name}/lock.toml",
        )
    return f"{account}.dkr.ecr.{region}.amazonaws.com/{published['repository']}:{published[device]}"


_NO_DEVICE = {"repository"}


def _published(containers: Path, name: str) -> Mapping[str, str]:
    path = containers / "images" / name / "lock.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("registry") if path.is_file() else None
    if not isinstance(table, dict) or "repository" not in table:
        raise NoTrainingImage(
            f"containers/images/{name} is no image of a registry",
            hint="use sagemaker-pytorch, or write its [registry]",
        )
    return table


# A job's hyper-parameters: what AWS's toolkit reads in the container, and the recipe's settings beside it.
# The toolkit decodes each value as JSON and passes it to a shell unquoted, so that a setting travels with
# everything but plain characters as %XX. containers/runtime/launch/sagemaker_entry.py decodes it.
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


# The metrics that SageMaker reads from a training's own lines; a new one is one row of PATTERNS.
# SageMaker takes the first group as a number, so a pattern matches only what is one: no nan, no comma. The
# lines are those of containers/training/report.py and loop.py, which rank 0 alone prints.
_NUMBER = "(-?[0-9]+(?:[.][0-9]+)?(?:e[-+]?[0-9]+)?)"
_STEP = "step [0-9]+/[0-9]+  "
_HELD_OUT = "held out after step [0-9]+: (?:.*  )?"

PATTERNS: Mapping[str, str] = {
    "train:step": "step ([0-9]+)/[0-9]+  loss ",
    "train:loss": f"{_STEP}loss {_NUMBER}  ",
    "train:learning_rate": f"{_STEP}.*  lr {_NUMBER}  ",
    "train:gradient_norm": f"{_STEP}.*  [|]g[|] {_NUMBER}  ",
    "train:sequences_per_second": f"{_STEP}.*  {_NUMBER} sequences/s",
    "train:mfu_percent": f"{_STEP}.*  MFU {_NUMBER}%",
    "held_out:loss": f"{_HELD_OUT}loss {_NUMBER}  ",
    "held_out:accuracy": f"{_HELD_OUT}accuracy {_NUMBER}  ",
    "held_out:perplexity": f"{_HELD_OUT}perplexity {_NUMBER}  ",
}


def metric_definitions() -> list[dict[str, str]]:
    return [{"Name": name, "Regex": pattern} for name, pattern in PATTERNS.items()]


# The first process of a training job's containers: it starts what AWS's image would, and passes SIGTERM on.
# The images' own first process is a shell that keeps SIGTERM to itself, so that nothing is saved before a
# stop (ENTRYPOINT and start_with_right_hostname.sh of aws/deep-learning-containers; issue 125 of aws's
# toolkit). SIGTERM would end the toolkit and what is between it and our launcher, and the ranks' output with
# them: they are started deaf to it. The launcher listens for itself, perhaps not yet, so it is told until all
# is over.
_LINES = (
    "set -m",  # a process group for each command in the background, by whose number all of it is told
    "(trap '' TERM; exec bash start_with_right_hostname.sh train) & p=$!",
    "trap 'while kill -TERM -- -$p; do sleep 1; done 2>&- &' TERM",
    # A signal ends the wait, not the training.
    "while wait $p; c=$?; kill -0 $p 2>&-; do :; done",
    "exit $c",
)

# SageMaker takes 256 characters in an item and no end of line, so the lines are one.
FIRST_PROCESS = ("/bin/bash", "-c", "; ".join(_LINES))


# Where a training container finds the FSx for Lustre of its cluster: SageMaker mounts it as a channel.
SHARED_CHANNEL = "shared"
SHARED_FILES = channel_folder(SHARED_CHANNEL)
