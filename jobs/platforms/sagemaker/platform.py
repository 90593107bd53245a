"""Answers commands' questions about SageMaker. jobs/platforms/sagemaker/request.py builds the request.

Modules that a dry run does not need are imported in the functions that use them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.platforms.code_bundle import Bundle, own_containers, pack, upload
from slipway.jobs.platforms.platform import Prepared
from slipway.jobs.platforms.reasons import known_reason
from slipway.jobs.platforms.sagemaker.request import (
    OWN_COMMAND,
    FileSettings,
    SageMakerRequest,
    attempts,
    build_request,
    image_words,
    most_seconds,
)
from slipway.jobs.platforms.sagemaker.runs import (
    describe,
    is_known,
    list_jobs,
    list_runs,
    refresh,
    unfinished_runs,
)
from slipway.jobs.platforms.sending import refuse_malformed
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.containers import read_image
from slipway.jobs.words.job import Job
from slipway.jobs.words.launch_environment import saved_in
from slipway.jobs.words.recipes import Recipe
from slipway.jobs.words.run import Explanation, Found
from slipway.jobs.words.sagemaker import CHECKPOINTS, ENTRY_POINT
from slipway.jobs.words.targets import SageMakerTarget
from slipway.jobs.words.text import Say

__all__ = ["is_known", "list_jobs", "list_runs", "refresh", "unfinished_runs"]

SageMakerPrepared = Prepared[SageMakerTarget, SageMakerRequest]

SERVICE = "SageMaker"
TAKES_ARRAYS, TAKES_IMAGES = False, True
_S3 = "s3://"
_IMAGE = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<name>[^:@]+):(?P<tag>.+)"
)


class Refused(SlipwayError):
    """SageMaker would not accept the job, for a known reason."""


class NameTaken(SlipwayError):
    """Another training job of the account has this name."""


class MissingTrainingImage(SlipwayError):
    """The registry does not hold the training image."""


def prepare(
    job: Job, recipe: Recipe, target: SageMakerTarget, waits_for: tuple[str, ...]
) -> SageMakerPrepared:
    if job.image:
        read_image(job.image, target)  # refuses an image that the target's role could not pull
    digest = pack_for(target).digest
    build = partial(_request, recipe=recipe, target=target, digest=digest)
    request = build(job)
    return Prepared(
        job=job,
        recipe=recipe,
        target=target,
        request=request,
        build=build,
        image=image_words(job.image, target, digest),
        image_digest=f"sha256:{digest}",
        waits_for=waits_for,
        attempts=attempts(job),
        most_seconds=most_seconds(job, target),
        warnings=tuple(_warnings(request, recipe, target)),
    )


def refuse_unready(prepared: SageMakerPrepared) -> None:
    """Refuse if the registry says that the image is missing; accept it if the registry does not answer.

    The yard needs none, since it runs this checkout.
    """
    own, target = prepared.job.image, prepared.target
    image = own or target.image
    named = _IMAGE.fullmatch(image)
    if named is None or aws.is_in_yard():
        return
    answer = ask(
        reader("ecr", named["region"]),
        "BatchGetImage",
        registryId=named["account"],
        repositoryName=named["name"],
        imageIds=[{"imageTag": named["tag"]}],
    )
    if isinstance(answer, Unanswered):
        return
    if not answer.get("images") and answer.get("failures"):
        raise MissingTrainingImage(
            f"the registry of {named['region']} has no image {image}, which '{target.name}' runs",
            hint="push it there" if own else "name another in the cluster's declaration and deploy again",
        )


def make_ready(prepared: SageMakerPrepared, say: Say) -> None:
    """Check the request and that its buckets exist, and upload the code.

    Loading SageMaker's model takes a tenth of a dry run, which does without; tests check every request by it.
    """
    target = prepared.target
    refuse_malformed("sagemaker", "CreateTrainingJob", prepared.request.create)
    channels = prepared.request.create.get("InputDataConfig", ())
    sources = [source for each in channels if (source := each["DataSource"].get("S3DataSource"))]
    buckets = [str(source["S3Uri"]).removeprefix(_S3).split("/", 1)[0] for source in sources]
    for bucket in dict.fromkeys([target.bucket, *buckets]):
        refuse_foreign_bucket(bucket, target)
    upload(pack_for(target), prepared.request.digest, target, say)


def send(prepared: SageMakerPrepared, taker: None) -> str:
    """Create the training job, or find the same one; an account can use a name only once."""
    from botocore.exceptions import ClientError

    from slipway.jobs.platforms.sagemaker.explain import REASONS

    target, request = prepared.target, prepared.request
    aws.client("s3", target.region).put_object(**request.put)
    try:
        aws.sender("sagemaker", target.region).create_training_job(**request.create)
    except ClientError as error:
        said = error.response.get("Error", {})
        if said.get("Code") == "ResourceInUse" and _is_ours(request, target):
            return request.name
        message = said.get("Message", "")
        reason = known_reason(f"{said.get('Code')} {message}", REASONS)
        if reason:
            words = {
                "job": prepared.name,
                "target": prepared.target.name,
                "image": prepared.job.image or prepared.target.image,
                "kept": saved_in(prepared.name, target),
            }
            hint = reason.fix.format(**words)
            raise Refused(f"SageMaker refused {prepared.name}: {message}", hint=hint) from error
        raise
    return request.name


def find_job_id(name: str, target: SageMakerTarget) -> str | None:
    return name if describe(name, target) else None


def log_streams(found: Found[SageMakerTarget], node: int | None) -> list[tuple[int, str]]:
    """List the streams of one instance or of all, those of the first attempt first."""
    from slipway.jobs.platforms.sagemaker import explain as training_explain

    return [each for each in training_explain.log_streams(found) if node in (None, each[0])]


def log_locator() -> Callable[[int, str], int]:
    """Return a function that finds a line's node by its stream: each instance has streams of its own."""
    return lambda node, _text: node


def cancel(found: Found[SageMakerTarget], reason: str) -> None:
    """Stop the job; checkpoints saved until then stay."""
    aws.client("sagemaker", found.target.region).stop_training_job(TrainingJobName=found.run.name)


def explain(found: Found[SageMakerTarget]) -> Explanation:
    from slipway.jobs.platforms.sagemaker import explain as training_explain

    return training_explain.explain(found)


def _request(job: Job, recipe: Recipe, target: SageMakerTarget, digest: str) -> SageMakerRequest:
    files = FileSettings(inputs=recipe.input_settings, code=recipe.code_settings)
    return build_request(job, target, module=recipe.module, code=digest, files=files)


def _warnings(request: SageMakerRequest, recipe: Recipe, target: SageMakerTarget) -> Iterator[str]:
    kept = request.create["Environment"][variables.CHECKPOINTS]
    if not kept.startswith(_S3):
        return
    if recipe.name == OWN_COMMAND:
        yield (
            f"several instances of {target.name} share no files, so that SLIPWAY_CHECKPOINTS is {kept}: your "
            "command has to save there and to resume from there itself, such as with boto3; with "
            f"--checkpoints {CHECKPOINTS} it is a folder of each instance, which SageMaker copies"
        )
    elif not target.has_internet:
        yield (
            f"several instances of {target.name} share no files, so that ranks save to {kept} themselves, "
            f"with {BUCKET_PACKAGE}; an image of AWS lacks it, and the cluster has no way to fetch it: "
            "declare a file system or a way to the internet"
        )


def _is_ours(request: SageMakerRequest, target: SageMakerTarget) -> bool:
    """Return True if the existing job of this name is this one; never treat another's as ours."""
    found = describe(request.name, target) or {}
    if (found.get("Environment") or {}).get(variables.RUN) == request.name:
        return True
    raise NameTaken(
        f"account {target.account} has another training job of the name {request.name}",
        hint="choose another --name: SageMaker never forgets one",
    )


# The code of a training job, in AWS's toolkit's form: an archive whose root has the entry point. A package
# that ranks import to write to a bucket, and that images of AWS lack, at the version of the other images.
BUCKET_PACKAGE = "obstore==0.11.1"
_ENTRY = "runtime/launch/sagemaker_entry.py"
_REQUIREMENTS = "requirements.txt"  # the toolkit installs it before it starts the entry point


def pack_for(target: SageMakerTarget) -> Bundle:
    containers = own_containers()
    beside = {ENTRY_POINT: (containers / _ENTRY).read_bytes()}
    if target.has_internet:
        beside[_REQUIREMENTS] = f"{BUCKET_PACKAGE}\n".encode()
    return pack(containers, beside=beside)


# Refuses a training job before it is created if SageMaker could not read a bucket.
_REGION_HEADER = "x-amz-bucket-region"
_GONE = 404


class WrongBucket(SlipwayError):
    """A bucket does not exist, or is not in the job's Region."""


def refuse_foreign_bucket(bucket: str, target: SageMakerTarget) -> None:
    """Refuse a bucket that does not exist or is in another Region; SageMaker reads only its own."""
    from botocore.exceptions import ClientError

    # S3's status and the bucket's Region, which S3 tells even callers to whom it denies the rest.
    try:
        answer: Any = reader("s3", target.region).head_bucket(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    told = answer.get("ResponseMetadata", {})
    status, region = told.get("HTTPStatusCode", 0), told.get("HTTPHeaders", {}).get(_REGION_HEADER)
    if status == _GONE:
        raise WrongBucket(
            f"there is no bucket {bucket}", hint=f"name one of {target.region}, such as {target.bucket}"
        )
    if region and region != target.region:
        raise WrongBucket(
            f"bucket {bucket} lies in {region}, and a training job in {target.region} reads buckets of "
            f"{target.region} alone",
            hint=f"copy the data: aws s3 sync s3://{bucket}/… s3://{target.bucket}/datasets/…",
        )
