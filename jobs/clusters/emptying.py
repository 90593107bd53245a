"""Empties a cluster's bucket before the cluster goes: S3 deletes no bucket that holds anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import stack_name
from slipway.jobs.words.targets import Target


class KeepsItsData(SlipwayError):
    """The bucket outlives the cluster, or is somebody else's, so it must not be emptied."""


def refuse_kept(target: Target) -> None:
    """Refuse if the bucket outlives the stack; the deployed template decides, not the declaration."""
    cloudformation = reader("cloudformation", target.region)
    stack = stack_name(target.name, "storage")
    template = cloudformation.get_template(StackName=stack, TemplateStage="Original")["TemplateBody"]
    resources = (json.loads(template) if isinstance(template, str) else template)["Resources"]
    buckets = [resource for resource in resources.values() if resource["Type"] == "AWS::S3::Bucket"]
    if not buckets:
        raise KeepsItsData(
            f"the bucket of {target.name}, {target.bucket}, was given to it and is not its own",
            hint="it stays when the cluster goes; empty it as its owner",
        )
    kept = [resource for resource in buckets if resource.get("DeletionPolicy") != "Delete"]
    if kept:
        raise KeepsItsData(
            f"the data of {target.name} is kept: it was deployed with keep_data=true",
            hint=f"if the data may be deleted, deploy with -c {target.name}.keep_data=false first",
        )


def empty(target: Target, now: Callable[[int], None]) -> int:
    """Delete every version of every object; `now` hears how many so far."""
    s3 = client("s3", target.region)
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    deleted = 0
    for versions in _pages(s3, owner):
        answer = s3.delete_objects(**owner, Delete={"Objects": versions, "Quiet": True})
        if answer.get("Errors"):
            first = answer["Errors"][0]
            raise SlipwayError(
                f"S3 did not delete {first['Key']!r} of {target.bucket}: {first['Code']}, {first['Message']}",
                hint="allow s3:DeleteObjectVersion to your role, and run this again",
            )
        deleted += len(versions)
        now(deleted)
    return deleted


def _pages(s3: Any, owner: Mapping[str, str]) -> Iterator[list[dict[str, str]]]:
    for page in s3.get_paginator("list_object_versions").paginate(**owner):
        found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if found:
            yield [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
