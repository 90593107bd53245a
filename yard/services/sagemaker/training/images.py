"""Which training images the yard has a stand-in for, and what starts in them. No image is ever pulled.

AWS's PyTorch images start `bash -m start_with_right_hostname.sh train`: bash is process 1, starts the toolkit
as a child and passes no signal on, so that a training script never hears of StopTrainingJob (issue 125 of
aws/sagemaker-training-toolkit). ContainerEntrypoint replaces all of that by the job's own first process.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.machines.settings import interpreter
from slipway.yard.permissions.calls.asked import ActionNeed, arn
from slipway.yard.services.registry import not_emulated

TOOLKIT = "sagemaker_training"
# What the Dockerfiles of AWS's PyTorch training images set.
VARIABLES = {
    "SAGEMAKER_TRAINING_MODULE": "sagemaker_pytorch_container.training:main",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_PYTHONS = ("python", "python3")
# The images' own script also preloads a gethostname(); here each instance has its name from the start.
PROGRAMS = "/opt/slipway-image"  # a folder of the container, first on its PATH
START = "start_with_right_hostname.sh"
START_SCRIPT = '#!/usr/bin/env bash\nif [ "$1" = train ]; then train; else eval "$@"; fi\n'
_ENTRY = ["bash", "-m", START]
_OF_ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([\w-]+)\.amazonaws\.com(?:\.cn)?/([^:@]+)[:@](.+)")
_OF_PYTORCH = re.compile(r"pytorch|smdistributed-modelparallel")
_PULL = ("BatchCheckLayerAvailability", "GetDownloadUrlForLayer", "BatchGetImage")


def refuse_unknown(image: str, region: str) -> None:
    """Raise ApiError for an image that SageMaker could not pull, or that the yard has nothing like."""
    found = _OF_ECR.fullmatch(image)
    if not found:
        raise ApiError(
            "ValidationException",
            f"Invalid image URI {image}. Please provide a valid Amazon Elastic Container Registry path of "
            "the docker image to run.",
        )
    account, of, repository, _ = found.groups()
    if of != region:
        raise ApiError(
            "ValidationException",
            f"The image {image} is in {of}; a training job takes its image from its own region, {region}.",
        )
    if account != ACCOUNT and not _OF_PYTORCH.search(repository):
        reason = f"it stands in for AWS's PyTorch training images alone, and this is {repository}"
        raise not_emulated("sagemaker", "CreateTrainingJob", reason=reason)
    if importlib.util.find_spec(TOOLKIT) is None:
        reason = "AWS's training toolkit is not installed: python3 scripts/set_up.py toolkit"
        raise not_emulated("sagemaker", "CreateTrainingJob", reason=reason)


def command(algorithm: Mapping[str, Any]) -> list[str]:
    """Return the first process of the container."""
    arguments: Sequence[str] = algorithm.get("ContainerArguments") or ()
    entry: Sequence[str] = algorithm.get("ContainerEntrypoint") or ()
    if not entry:
        return [*_ENTRY, *(arguments or ["train"])]
    first = interpreter() if entry[0] in _PYTHONS else entry[0]
    return [first, *entry[1:], *arguments]


def pulls(image: str, region: str) -> Iterator[ActionNeed]:
    """Yield what the job's role must be allowed for the image to be pulled."""
    found = _OF_ECR.fullmatch(image)
    assert found, "an image of another form was refused"
    account, _, repository, _ = found.groups()
    resource = arn("ecr", region, f"repository/{repository}", account=account)
    yield ActionNeed(action="ecr:GetAuthorizationToken")
    yield from (ActionNeed(action=f"ecr:{act}", resource=resource) for act in _PULL)
