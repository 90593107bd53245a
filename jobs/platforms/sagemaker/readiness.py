"""What is asked before a training job is sent: each of these would fail it after minutes of waiting."""

from __future__ import annotations

import re
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import SageMakerTarget

_IMAGE = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<name>[^:@]+):(?P<tag>.+)"
)
_REGION_HEADER = "x-amz-bucket-region"
_GONE = 404


class MissingTrainingImage(SlipwayError):
    """The registry does not hold the training image."""


class WrongBucket(SlipwayError):
    """A bucket is not there, or not in the job's Region."""


def refuse_missing_image(own: str | None, target: SageMakerTarget) -> None:
    """Refuse if the registry says that it has no such image; a registry that is silent decides nothing."""
    image = own or target.image
    named = _IMAGE.fullmatch(image)
    if named is None:
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


def refuse_foreign_bucket(bucket: str, target: SageMakerTarget) -> None:
    """Refuse a bucket that does not exist or lies in another Region; SageMaker reads only its own."""
    from botocore.exceptions import ClientError

    # S3's status and the bucket's Region, which S3 tells even those whom it denies the rest.
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
