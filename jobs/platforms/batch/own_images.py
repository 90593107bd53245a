"""A container image that a job names: what the registry has of it, and the job definition that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, client, reader
from slipway.jobs.cloud.deployed import find_digest_in
from slipway.jobs.platforms.batch.own_definitions import own_definition
from slipway.jobs.platforms.service_models import refuse_malformed
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.image_uri import read_image
from slipway.jobs.words.targets import BatchTarget
from slipway.jobs.words.text import Say


class NoDefinition(SlipwayError):
    """Without the cluster's job definition nobody knows what a container there needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundImage:
    """Hold what the registry said, and what has to be registered with AWS Batch."""

    repository: str
    digest: str | Unanswered | None  # None: there is no such image
    register: dict[str, Any]


def find_image(uri: str, target: BatchTarget) -> FoundImage:
    """Find the image; its definition names the digest, so that all nodes and attempts run the same one."""
    image = read_image(uri, target)
    wanted = {"imageDigest": image.digest} if image.digest else {"imageTag": str(image.tag)}
    digest = find_digest_in(target, image.repository, wanted)
    runs = image.pinned(digest) if isinstance(digest, str) else uri
    register = own_definition(_deployed_definition(target), runs, target)
    refuse_malformed("batch", "RegisterJobDefinition", register)
    return FoundImage(repository=image.repository, digest=digest, register=register)


def register_once(register: dict[str, Any], target: BatchTarget, say: Say) -> None:
    """Register the job definition unless there is one of its name, which says what is in it."""
    name = register["jobDefinitionName"]
    batch = client("batch", target.region)
    if not batch.describe_job_definitions(jobDefinitionName=name, status="ACTIVE")["jobDefinitions"]:
        batch.register_job_definition(**register)
        say(f"registered the job definition {name}")


def _deployed_definition(target: BatchTarget) -> dict[str, Any]:
    wanted = [target.job_definition_arn]
    answer = ask(reader("batch", target.region), "DescribeJobDefinitions", jobDefinitions=wanted)
    if isinstance(answer, Unanswered):
        raise NoDefinition(
            f"{answer.action} gave no answer: {answer.code}, {answer.message[:200]}",
            hint=f"--image needs it; allow {answer.action} and batch:RegisterJobDefinition to your role",
        )
    if not answer["jobDefinitions"]:
        raise NoDefinition(
            f"the job definition of cluster '{target.name}' is gone: {target.job_definition_arn}",
            hint=f"deploy the cluster again: cdk deploy {target.name}",
        )
    found: dict[str, Any] = answer["jobDefinitions"][0]
    return found
