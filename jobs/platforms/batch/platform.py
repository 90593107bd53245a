"""Answers commands' questions about AWS Batch. jobs/platforms/batch/request.py builds the requests.

Also finds a job's image, registers its job definition, and refuses images that nodes could not run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask, client, reader
from slipway.jobs.cloud.deployed import find_digest, find_digest_in
from slipway.jobs.platforms.batch.explain import MEND_ENVIRONMENT
from slipway.jobs.platforms.batch.explain import explain as explain_facts
from slipway.jobs.platforms.batch.request import (
    BatchRequest,
    KnownImage,
    attempts,
    build_request,
    image_words,
)
from slipway.jobs.platforms.batch.runs import (
    describe_jobs,
    find_dependencies_of,
    find_jobs,
    find_queue,
    gather,
    is_known,
    keep_first,
    list_jobs,
    list_runs,
    refresh,
    unfinished_runs,
)
from slipway.jobs.platforms.code_bundle import own_bundle, own_containers, pack, upload
from slipway.jobs.platforms.platform import MissingMachine, Prepared, WayIn
from slipway.jobs.platforms.sending import refuse_malformed
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.aws_images import is_published_by_aws
from slipway.jobs.words.images.containers import read_image
from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.launch_environment import refuse_misfit
from slipway.jobs.words.names import TARGET_TAG
from slipway.jobs.words.recipes import Recipe
from slipway.jobs.words.run import Explanation, Found, Run
from slipway.jobs.words.targets import BatchTarget
from slipway.jobs.words.text import Say, decode_json

__all__ = [
    "find_dependencies_of",
    "is_known",
    "keep_first",
    "list_jobs",
    "list_runs",
    "refresh",
    "unfinished_runs",
]

BatchPrepared = Prepared[BatchTarget, BatchRequest]

SERVICE = "AWS Batch"
ENTERED_AS = None
_CLOSED = "DISABLED"  # the state of a queue that refuses new jobs
_MOST_DESCRIBED = 100  # of DescribeContainerInstances (API reference)
TAKES_ARRAYS, TAKES_IMAGES = False, True


class NoImage(SlipwayError):
    """Every node would fail to pull the image, and be paid for meanwhile."""


def prepare(job: Job, recipe: Recipe, target: BatchTarget, waits_for: tuple[str, ...]) -> BatchPrepared:
    refuse_misfit(job, target)
    refuse_foreign_registry(target)
    # In the yard, nodes run this checkout in place of an image of AWS's own.
    is_published = is_published_by_aws(target.repository_uri)
    is_pulled = is_published and not aws.is_in_yard()
    uri = job.image or (f"{target.repository_uri}:{target.image_tag}" if is_pulled else None)
    image = find_image(uri, target) if uri else None
    digest = image.digest if image else find_digest(target, target.image_tag)
    code = own_bundle().digest if job.image is None and is_published else None
    known_digest, words = digest if isinstance(digest, str) else None, image_words(job, target, code)
    if known_digest:
        repository = image.repository if image else target.repository_uri.partition("/")[2]
        registry = image.registry if image else target.account
        refuse_other_platform(target, registry, repository, known_digest, words)
    known = KnownImage(digest=known_digest, register=image.register if image else None, code=code)
    build = partial(_request, recipe=recipe, target=target, image=known, waits_for=waits_for)
    return Prepared(
        job=job,
        recipe=recipe,
        target=target,
        request=build(job),
        build=build,
        image=words,
        image_digest=known_digest,
        waits_for=waits_for,
        attempts=attempts(job, target),
        warnings=tuple(_warnings(job, target, digest)),
    )


def refuse_unready(prepared: BatchPrepared) -> None:
    """Refuse if no container image is pushed; the yard needs none, since it runs this checkout."""
    target, image = prepared.target, prepared.job.image
    if prepared.image_digest or (aws.is_in_yard() and not image):
        return
    if image:
        raise NoImage(
            f"the registry has no image {image}",
            hint="push it there, or write images/NAME/Dockerfile: slipway image build NAME "
            f"--on {target.name}",
        )
    if is_published_by_aws(target.repository_uri):
        raise NoImage(
            f"AWS's registry has no {target.repository_uri}:{target.image_tag}, which '{target.name}' runs",
            hint="declare another image in clusters.py, or deploy with the tags of a newer Slipway",
        )
    raise NoImage(
        f"container image {prepared.image}, which '{target.name}' runs, is not in its repository",
        hint=f"slipway image build {target.image} --on {target.name}",
    )


def make_ready(prepared: BatchPrepared, say: Say) -> None:
    """Upload the code and register the definition that an image needs; Batch starts machines with the job."""
    if prepared.request.code:
        upload(pack(own_containers()), prepared.request.code, prepared.target, say)
    if register := prepared.request.register:
        # The name of a definition contains its digest: one that exists is the same.
        name, batch = register["jobDefinitionName"], client("batch", prepared.target.region)
        if not batch.describe_job_definitions(jobDefinitionName=name, status="ACTIVE")["jobDefinitions"]:
            batch.register_job_definition(**register)
            say(f"registered the job definition {name}")


def send(prepared: BatchPrepared, taker: None) -> str:
    batch = aws.sender("batch", prepared.target.region)
    return str(batch.submit_job(**prepared.request.submit)["jobId"])


def find_job_id(name: str, target: BatchTarget) -> str | None:
    return next((str(job["jobId"]) for job in find_jobs(name, target)), None)


def log_streams(found: Found[BatchTarget], node: int | None) -> list[tuple[int, str]]:
    """List the log streams of each node, those of the first attempt first."""
    target = found.target
    nodes = range(found.run.nodes or 0) if node is None else [node]
    details = list(describe_jobs(target, [f"{found.run.id}#{each}" for each in nodes]))
    streams = [
        (int(str(detail["jobId"]).rpartition("#")[2]), name) for detail in details for name in _names(detail)
    ]
    own = [(0, name) for name in _names(found.detail)]  # of a single-node job
    return list(dict.fromkeys([*streams, *(own if not streams else [])]))


def log_locator() -> Callable[[int, str], int]:
    """Return a function that finds a line's node by its stream: each node has streams of its own."""
    return lambda node, _text: node


def cancel(found: Found[BatchTarget], reason: str) -> None:
    aws.client("batch", found.run.region).terminate_job(jobId=found.run.id, reason=reason)


def close(target: BatchTarget) -> None:
    """Disabled, a queue refuses new jobs and goes on with those that it has."""
    ask(client("batch", target.region), "UpdateJobQueue", jobQueue=target.queue_arn, state=_CLOSED)


def reopen(target: BatchTarget) -> None:
    ask(client("batch", target.region), "UpdateJobQueue", jobQueue=target.queue_arn, state="ENABLED")


def explain(found: Found[BatchTarget]) -> Explanation:
    return explain_facts(gather(found))


def missing_machines(target: BatchTarget) -> Sequence[MissingMachine]:
    unanswered: list[Unanswered] = []
    state, environments = find_queue(target, unanswered)
    missing: list[MissingMachine] = [
        (each.words, MEND_ENVIRONMENT) for each in environments if each.starts_none
    ]
    if state == _CLOSED:
        again = f"slipway cluster destroy {target.name}, if that was interrupted; or enable the queue"
        missing.insert(0, (f"its queue is {state} and takes no jobs", again))
    return [*missing, *unanswered]


def _request(
    job: Job, recipe: Recipe, target: BatchTarget, image: KnownImage, waits_for: Sequence[str]
) -> BatchRequest:
    request = build_request(job, target, module=recipe.module, image=image, waits_for=waits_for)
    refuse_malformed("batch", "SubmitJob", request.submit)
    return request


def _warnings(job: Job, target: BatchTarget, digest: str | Unanswered | None) -> list[str]:
    image = f"image {image_words(job, target)}"
    warnings = []
    if isinstance(digest, Unanswered):
        warnings.append(f"whether {image} is pushed is not known: {digest.action} said {digest.code}")
    elif digest is None and job.image is None and is_published_by_aws(target.repository_uri):
        if not aws.is_in_yard():
            warnings.append(f"AWS's registry has no {image} here: declare another image, or another region")
    elif digest is None:
        built = "NAME" if job.image else target.image
        warnings.append(f"{image} is not pushed: slipway image build {built} --on {target.name}")
    if target.file_system_mount is None:
        warnings.append(
            f"the nodes of {target.name} share no files: what one saves is lost when the attempt ends"
        )
    return warnings


def _names(detail: Any) -> list[str]:
    containers = [each.get("container") or {} for each in (*(detail.get("attempts") or ()), detail)]
    return [str(container["logStreamName"]) for container in containers if container.get("logStreamName")]


# The job definition for an image that a job names: the deployed one with another image. Pure. Batch takes no
# image with a multi-node job (API Reference, ContainerOverrides), only with its definition. Fields that
# DescribeJobDefinitions returns and RegisterJobDefinition accepts.
_KEPT = ("type", "parameters", "nodeProperties", "retryStrategy", "timeout", "propagateTags")
_DIGEST_LENGTH = 12


def own_definition(deployed: Mapping[str, Any], image: str, target: BatchTarget) -> dict[str, Any]:
    """Return a RegisterJobDefinition; its name contains its digest, so each image gets one."""
    fields = {name: deployed[name] for name in _KEPT if name in deployed}
    nodes = fields["nodeProperties"]
    groups = [
        {**group, "container": {**group["container"], "image": image}}
        for group in nodes["nodeRangeProperties"]
    ]
    content = {
        **fields,
        "nodeProperties": {**nodes, "nodeRangeProperties": groups},
        "tags": {TARGET_TAG: target.name},
    }
    digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]
    return {"jobDefinitionName": f"{target.name}-image-{digest}", **content}


# An image that a job names: what the registry has of it, and the job definition that runs it.


class NoDefinition(SlipwayError):
    """The cluster's job definition is gone, so the needs of its containers are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundImage:
    """Hold the registry's answer, and the job definition that has to be registered."""

    registry: str  # the registry's account
    repository: str
    digest: str | Unanswered | None  # None: there is no such image
    register: dict[str, Any]


def find_image(uri: str, target: BatchTarget) -> FoundImage:
    """Find the image; its definition names the digest, so that all nodes and attempts run the same one."""
    image = read_image(uri, target)
    wanted = {"imageDigest": image.digest} if image.digest else {"imageTag": str(image.tag)}
    registry = image.registry.partition(".")[0]
    digest = find_digest_in(target, image.repository, wanted, registry)
    runs = image.pinned(digest) if isinstance(digest, str) else uri
    register = own_definition(_deployed_definition(target), runs, target)
    refuse_malformed("batch", "RegisterJobDefinition", register)
    return FoundImage(registry=registry, repository=image.repository, digest=digest, register=register)


def _deployed_definition(target: BatchTarget) -> dict[str, Any]:
    wanted = [target.job_definition_arn]
    answer = ask(reader("batch", target.region), "DescribeJobDefinitions", jobDefinitions=wanted)
    if isinstance(answer, Unanswered):
        raise NoDefinition(
            f"{answer.words}; --image needs it",
            hint=answer.remedy("submit", otherwise="run the same command again"),
        )
    if not answer["jobDefinitions"]:
        raise NoDefinition(
            f"the job definition of cluster '{target.name}' is gone: {target.job_definition_arn}",
            hint=f"deploy the cluster again: cdk deploy {target.name}",
        )
    found: dict[str, Any] = answer["jobDefinitions"][0]
    return found


# Whether a job may run the image: it must be in the account's own registry or AWS's, and for the cluster's
# processors. The manifest of an image for one platform does not name it; that of an image for several does.
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


def refuse_foreign_registry(target: BatchTarget) -> None:
    """Refuse a container image of another account: it would run with the rights of the job."""
    registry = f"{target.account}.dkr.ecr.{target.region}.amazonaws.com"
    host = target.repository_uri.partition("/")[0]
    if host not in (registry, f"{registry}.cn") and not is_published_by_aws(host):
        raise DoesNotFit(
            f"cluster '{target.name}' runs container images of {host}; only the account's own registry "
            f"and AWS's are allowed, {registry}",
            hint="copy the image there and deploy the cluster again",
        )


def refuse_other_platform(
    target: BatchTarget, registry: str, repository: str, digest: str, words: str
) -> None:
    """Refuse a container image for other processors; if ECR does not answer, the node decides.

    `words` name the image for users.
    """
    answer = ask(
        reader("ecr", target.region),
        "BatchGetImage",
        registryId=registry,
        repositoryName=repository,
        imageIds=[{"imageDigest": digest}],
        acceptedMediaTypes=_INDEXES,
    )
    if isinstance(answer, Unanswered) or not answer.get("images"):
        return
    needed = instance_type(target.instance_type).architecture
    needed = {"x86_64": "amd64"}.get(needed, needed)  # as images name it (GOARCH, OCI image specification)
    there = _architectures(answer["images"][0]["imageManifest"])
    if there and needed not in there:
        raise DoesNotFit(
            f"image {words} is for {', '.join(sorted(there))}, and {target.instance_type} is {needed}",
            hint="build it for these machines: slipway image build does so on machines of their kind",
        )


def _architectures(manifest: str) -> set[str]:
    """Return the architectures of a multi-platform image; an empty set for an image of one platform."""
    try:
        listed = decode_json(manifest).get("manifests") or ()
        found = {str((each.get("platform") or {}).get("architecture")) for each in listed}
    except (ValueError, AttributeError, TypeError):
        return set()  # not a manifest of several platforms: the node that pulls it decides
    return found - {"unknown", "None"}  # attestations that BuildKit adds have no platform


def way_into(run: Run, target: BatchTarget) -> WayIn:
    """Return the machine of each node, from its container instance in Amazon ECS."""
    nodes = [f"{run.id}#{node}" for node in range(run.nodes or 1)]
    told = {str(each["jobId"]): each.get("container", {}) for each in describe_jobs(target, nodes)}
    label = "sudo docker ps --filter label=com.amazonaws.ecs.task-arn"
    # The EC2 instance of each arn:aws:ecs:…:container-instance/CLUSTER/ID.
    arns = [told.get(node, {}).get("containerInstanceArn") for node in nodes]
    named, ids = [arn for arn in arns if arn], dict[str, str]()
    for start in range(0, len(named), _MOST_DESCRIBED):
        some = named[start : start + _MOST_DESCRIBED]
        asked = {"cluster": some[0].split("/")[1], "containerInstances": some}
        answer = ask(reader("ecs", target.region), "DescribeContainerInstances", **asked)
        if isinstance(answer, Unanswered):
            why = answer.remedy("ssh", otherwise="in the yard no node has a machine")
            raise SlipwayError(answer.words, hint=f"slipway ssh {target.name} does without; {why}")
        ids |= {each["containerInstanceArn"]: each["ec2InstanceId"] for each in answer["containerInstances"]}
    return WayIn(
        instances=[ids.get(arn or "") for arn in arns],
        note=f"this is the machine; the job is in a container on it: {label} names it, and "
        "sudo docker exec -it ID bash enters it",
    )
