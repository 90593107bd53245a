"""Bakes an AMI: finds the deployed pipeline of Image Builder, starts it and follows it.

jobs/clusters/images/baked.py describes the result, and which AMI is in use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, answered, ask, ask_all, outlast, reader
from slipway.jobs.cloud.deployed import ask_parameter
from slipway.jobs.submit.logs import LogReader
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.ami_locks import is_newer, pinned, serial_of
from slipway.jobs.words.images.amis import (
    BAKERIES,
    Bakery,
    bakery_parameter,
    bakery_stack_name,
    decode_bakery,
)

POLL_SECONDS = 3.0
FINAL = frozenset({"AVAILABLE", "FAILED", "CANCELLED", "DEPRECATED", "DISABLED", "DELETED"})
LEFT_OUT = ": left out: "  # in the yard's bake log, marks a step that only AWS can run
_TOKEN_LENGTH = 32


class BakeFailed(SlipwayError):
    """Image Builder ended without an AMI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeRequest:
    """Hold everything that will be sent; a dry run prints it."""

    start: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeProgress:
    """Hold the state of a bake, and the lines that were logged since the last look."""

    image: Mapping[str, Any]  # from GetImage
    doing: str
    lines: Sequence[str]

    @property
    def status(self) -> str:
        return str(self.image["state"]["status"])


def find_bakery(image: str, region: str | None) -> Bakery:
    name = bakery_parameter(image)
    found = answered(ask_parameter(name, region))
    if found is not None:
        return decode_bakery(found, parameter=name)
    known = [bakery.name for bakery in find_bakeries(region)]
    raise SlipwayError(
        f"no pipeline that bakes '{image}' is deployed{f' in {region}' if region else ''}",
        hint=f"deployed are {', '.join(known)}"
        if known
        else f"deploy it first: cdk deploy {bakery_stack_name(image)} (cdk list names all)",
    )


def find_bakeries(region: str | None) -> list[Bakery]:
    found = ask_all(reader("ssm", region), "GetParametersByPath", "Parameters", Path=BAKERIES)
    return [decode_bakery(each["Value"], parameter=each["Name"]) for each in answered(found)]


def bake_request(bakery: Bakery, latest_image: str) -> BakeRequest:
    """Build the request to start the pipeline.

    `latest_image` is part of its token: two terminals that see the same latest image start only one bake;
    when that has ended, the next request starts another.
    """
    facts = "\0".join((bakery.pipeline_arn, bakery.lock_digest, bakery.recipe_version, latest_image))
    token = sha256(facts.encode()).hexdigest()[:_TOKEN_LENGTH]
    return BakeRequest(start={"imagePipelineArn": bakery.pipeline_arn, "clientToken": token})


def send(request: BakeRequest, imagebuilder: Any) -> str:
    """Start the bake and return the ARN of the image that is being built."""
    return str(imagebuilder.start_image_pipeline_execution(**request.start)["imageBuildVersionArn"])


def images_of(bakery: Bakery) -> list[Mapping[str, Any]]:
    """List what the pipeline made, newest first."""
    found = ask_all(
        reader("imagebuilder", bakery.region),
        "ListImagePipelineImages",
        "imageSummaryList",
        imagePipelineArn=bakery.pipeline_arn,
    )
    # An image's ARN ends with the number of its build.
    return sorted(
        answered(found),
        key=lambda each: (each["dateCreated"], int(each["arn"].rpartition("/")[2])),
        reverse=True,
    )


def running_image(images: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the image that is being built, if a bake is running."""
    return next((str(image["arn"]) for image in images if image["state"]["status"] not in FINAL), None)


def follow(arn: str, bakery: Bakery, pause: Callable[[float], None] = time.sleep) -> Iterator[BakeProgress]:
    """Yield the state of the bake repeatedly, the last time when it has ended."""

    def look() -> Mapping[str, Any]:
        image: Mapping[str, Any] = reader("imagebuilder", bakery.region).get_image(imageBuildVersionArn=arn)[
            "image"
        ]
        return image

    asking = partial(outlast, pause=pause)
    log = LogReader(group=bakery.log_group, region=bakery.region)
    log.watch([(0, "/".join(arn.split("/")[-2:]))])
    while True:
        image = asking(look)
        is_final = image["state"]["status"] in FINAL
        doing = "" if is_final else _doing(arn, reader("imagebuilder", bakery.region))
        lines = [line.text for page in log.read_new(asking) for line in page]
        yield BakeProgress(image=image, doing=doing, lines=lines)
        if is_final:
            return
        pause(POLL_SECONDS)


def refuse_failure(image: Mapping[str, Any]) -> None:
    state = image["state"]
    if state["status"] == "AVAILABLE":
        return
    failure = state.get("failureContext", {}).get("componentFailure", {})
    reason = state.get("reason", "no reason is given")
    is_quota = "VcpuLimitExceeded" in reason
    where = f" in {failure['phaseName']}.{failure['stepName']}" if failure.get("stepName") else ""
    raise BakeFailed(
        f"{image['arn']} ended as {state['status']}{where}: {reason}",
        hint="ask AWS for the vCPUs, and bake again: slipway cluster quota CLUSTER --request --wait"
        if is_quota
        else "fix the component, deploy it, and bake again; until then clusters use the previous AMI",
    )


def _doing(arn: str, imagebuilder: Any) -> str:
    """Describe the step that is running."""
    workflows = ask_all(
        imagebuilder, "ListWorkflowExecutions", "workflowExecutions", imageBuildVersionArn=arn
    )
    for workflow in () if isinstance(workflows, Unanswered) else workflows:
        if workflow["status"] == "RUNNING":
            asked = {"workflowExecutionId": workflow["workflowExecutionId"]}
            steps = ask_all(imagebuilder, "ListWorkflowStepExecutions", "steps", **asked)
            running = [] if isinstance(steps, Unanswered) else [s for s in steps if s["status"] == "RUNNING"]
            return ": ".join(
                each for step in running for each in (step["name"], step.get("message", "")) if each
            )
    return ""


# Compares the parent's Ubuntu release with the lock's packages before a machine is started for a bake.
_SSM = "ssm:"


class ParentIsNewer(SlipwayError):
    """The parent runs a kernel that the lock's packages do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentImage:
    ami_id: str
    name: str
    serial: str | None  # None: not one of Canonical's


def refuse_newer_parent(bakery: Bakery) -> None:
    """Refuse a parent newer than the packages; where AWS does not answer, the bake's first step finds out."""
    found = find_parent(bakery.parent, bakery.region)
    if isinstance(found, Unanswered) or found.serial is None or not is_newer(found.serial, bakery.snapshot):
        return
    raise ParentIsNewer(
        f"the parent AMI {found.ami_id} is Canonical's release {found.serial}, newer than the packages of "
        f"{bakery.snapshot}: these have no headers for its kernel, so no driver could be built",
        hint=f"slipway image pin {bakery.name}; cdk deploy slipway-bakery-{bakery.name}; "
        f"slipway image bake {bakery.name} --wait",
    )


def find_parent(parent: str, region: str) -> ParentImage | Unanswered:
    """Find the AMI that an id, or `ssm:` and a parameter, names at this moment."""
    ami_id: str | Unanswered = parent
    if parent.startswith(_SSM):
        ami_id = parameter_value(parent, region)
    if isinstance(ami_id, Unanswered):
        return ami_id
    answer = ask(reader("ec2", region), "DescribeImages", ImageIds=[ami_id])
    if isinstance(answer, Unanswered):
        return answer
    name = next((str(image.get("Name", "")) for image in answer["Images"]), "")
    return ParentImage(ami_id=ami_id, name=name, serial=serial_of(name))


def parameter_value(parent: str, region: str) -> str | Unanswered:
    answer = ask(reader("ssm", region), "GetParameter", Name=parent.removeprefix(_SSM))
    return answer if isinstance(answer, Unanswered) else str(answer["Parameter"]["Value"])


def newest_release(parent: str, region: str) -> str:
    """Return the serial of Canonical's newest release, after checking that its own parameter exists."""
    found = answered(find_parent(parent, region))
    if found.serial is None:
        raise SlipwayError(
            f"{found.ami_id} is called '{found.name}', which names no release of Canonical's",
            hint="name the AMI's id as the parent in clusters.py: an id never moves",
        )
    release = pinned(parent, found.serial)
    value = parameter_value(release, region)
    if value != found.ami_id:
        said = value.code if isinstance(value, Unanswered) else f"it is {value}"
        raise SlipwayError(
            f"{release.removeprefix(_SSM)} in {region} does not name {found.ami_id} ({said})",
            hint=f'write parent="{found.ami_id}" in clusters.py: an id never moves',
        )
    return found.serial
