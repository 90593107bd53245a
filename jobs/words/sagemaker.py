"""Where the files of a training job are, in its container and in the cluster's bucket, and how it starts.

Infra allows these places. A bucket belongs to one cluster, so the folders under jobs/ are named as the
cluster's jobs. Another metric is a row of PATTERNS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import quote

from slipway.jobs.words.errors import Problem
from slipway.jobs.words.job import InvalidJob

# In the container (SageMaker AI Developer Guide, "Amazon SageMaker AI Training Storage Folders").
CHANNELS = "/opt/ml/input/data"  # one folder for each channel
CHECKPOINTS = "/opt/ml/checkpoints"  # of each instance; SageMaker copies it to the bucket and back
TENSORBOARD = "/opt/ml/output/tensorboard"
MODEL = "/opt/ml/model"  # SageMaker packs it as model.tar.gz when the job ends

# The program at the root of a job's code: containers/runtime/launch/sagemaker_entry.py.
ENTRY_POINT = "slipway_start.py"

JOBS = "jobs/"


def job_url(bucket: str, name: str, part: str) -> str:
    """Return the URL of one part of a job's files: checkpoints, tensorboard."""
    return f"s3://{bucket}/{JOBS}{name}/{part}"


def output_url(bucket: str) -> str:
    """Return the prefix under which SageMaker itself writes NAME/output/model.tar.gz."""
    return f"s3://{bucket}/{JOBS.rstrip('/')}"


def channel_folder(channel: str) -> str:
    return f"{CHANNELS}/{channel}"


# A job's hyperparameters: what AWS's toolkit reads in the container, and the recipe's settings. The toolkit
# decodes each value as JSON and passes it to a shell unquoted, so all but plain characters of a setting are
# sent as %XX. containers/runtime/launch/sagemaker_entry.py decodes it. SageMaker API Reference,
# CreateTrainingJob; jobs/platforms/sagemaker checks them with botocore's model.
MOST_HYPERPARAMETERS = 100
LONGEST_VALUE = 2500
MOST_VARIABLES = 100
LONGEST_VARIABLE = 512
# The toolkit repeats all settings in one variable and one command line, and Linux takes 128 KiB of each.
MOST_BYTES = 64 * 1024

# The toolkit keeps names with this prefix for itself, and does not pass them to the program.
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
    """Refuse all that SageMaker would not accept, in one error."""
    problems = []
    own = sum(name.startswith(RESERVED) for name in hyperparameters)
    if len(hyperparameters) > MOST_HYPERPARAMETERS:
        message = (
            f"{len(hyperparameters) - own} settings; SageMaker takes {MOST_HYPERPARAMETERS} "
            f"hyper-parameters, and {own} of them are its toolkit's"
        )
        hint = f"set at most {MOST_HYPERPARAMETERS - own}"
        problems.append(Problem(where="--set", message=message, hint=hint))
    for name, value in hyperparameters.items():
        if len(value) > LONGEST_VALUE:
            message = f"has {len(value)} characters as a hyper-parameter; SageMaker takes {LONGEST_VALUE}"
            problems.append(Problem(where=f"--set {name}", message=message, hint=_LONG_HINT))
    size = sum(len(name) + len(value) for name, value in hyperparameters.items())
    if size > MOST_BYTES:
        message = f"all settings together have {size} bytes; a training container takes {MOST_BYTES}"
        problems.append(Problem(where="--set", message=message, hint=_LONG_HINT))
    assert len(variables) <= MOST_VARIABLES, f"{len(variables)} variables, all of them ours"
    for name, value in variables.items():
        if len(value) > LONGEST_VARIABLE:
            message = f"has {len(value)} characters; SageMaker takes {LONGEST_VARIABLE} in a variable"
            problems.append(Problem(where=name, message=message, hint="name a shorter place"))
    if problems:
        raise InvalidJob(problems)


# The metrics that SageMaker reads from a training's own lines; a new one is one row of PATTERNS. SageMaker
# reads the first group as a number, so a pattern matches only numbers: no nan, no comma. The lines are those
# of containers/training/report.py and loop.py, which only rank 0 prints.
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
# The images' own first process is a shell that does not pass SIGTERM on, so that nothing is saved before a
# stop (ENTRYPOINT and start_with_right_hostname.sh of aws/deep-learning-containers; issue 125 of aws's
# toolkit). SIGTERM would end the toolkit and the processes between it and our launcher, and with them the
# ranks' output, so those processes ignore it. The launcher handles it, but perhaps not yet, so it is sent
# until all have ended.
_LINES = (
    "set -m",  # a process group for each command in the background, which can be signalled as a whole
    "(trap '' TERM; exec bash start_with_right_hostname.sh train) & p=$!",
    "trap 'while kill -TERM -- -$p; do sleep 1; done 2>&- &' TERM",
    # A signal ends the wait, not the training.
    "while wait $p; c=$?; kill -0 $p 2>&-; do :; done",
    "exit $c",
)

# SageMaker takes 256 characters in an item and no end of line, so the lines are one.
FIRST_PROCESS = ("/bin/bash", "-c", "; ".join(_LINES))


# Where a training container finds its cluster's FSx for Lustre, which SageMaker mounts as a channel.
SHARED_CHANNEL = "shared"
SHARED_FILES = channel_folder(SHARED_CHANNEL)
