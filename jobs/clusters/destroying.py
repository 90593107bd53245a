"""Destroys a cluster in the order that loses nothing: its jobs, its machines, then its stacks."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from slipway.jobs.cloud.aws import Unanswered, allow, answered, client, reader
from slipway.jobs.cloud.deployed import find_stacks
from slipway.jobs.cloud.templates import names_in_cdk
from slipway.jobs.clusters.cdk import find_cdk, run_cdk
from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.submit.find import refresh
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import find_project
from slipway.jobs.words.names import stack_name
from slipway.jobs.words.run import Run
from slipway.jobs.words.targets import Target

# A cancelled job gets SIGTERM and 30 seconds to save; AWS Batch reports its end later than that.
END_SECONDS = 600.0
_POLL_SECONDS = 2.0
_REASON = "cancelled with slipway cluster destroy"


def keeps_its_data(target: Target) -> bool:
    """Return True if bucket and files outlive the stacks, according to the deployed template."""
    try:
        refuse_kept(target)
    except KeepsItsData:
        return True
    return False


def cancel_all(target: Target, now: Callable[[str], None]) -> list[Run]:
    """Cancel every unfinished job, and wait until none runs; return the cancelled ones."""
    platform = platform_of(target)
    cancelled = platform.unfinished_runs(target)
    for run in cancelled:
        platform.cancel(refresh(run.id, target), _REASON)
    waited = 0.0
    while left := platform.unfinished_runs(target):
        if waited >= END_SECONDS:
            raise SlipwayError(
                f"{left[0].name} of {target.name} was cancelled and has not ended after {END_SECONDS:.0f} s",
                hint=f"slipway explain {left[0].name}; nothing was destroyed",
            )
        now(f"{left[0].name} saves and ends")
        time.sleep(_POLL_SECONDS)
        waited += _POLL_SECONDS
    return cancelled


def refuse_unready() -> None:
    """Refuse, before any job is ended, if the stacks could not be destroyed from here."""
    find_project()
    find_cdk()


def destroy_stacks(cluster: str, region: str) -> Sequence[str]:
    """Let the CDK destroy the cluster's own stacks, by name: a pattern could match other clusters, too."""
    names = [stack.name for stack in answered(find_stacks(cluster, region))]
    if not names:
        return names
    with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
        again = f"slipway cluster destroy {cluster}"
        run_cdk("synth", "--quiet", "--output", folder, again=again, is_silent=True)
        known = names_in_cdk(Path(folder), region)
        found = [known[name] for name in names if name in known]
        if found:
            run_cdk("destroy", *found, "--exclusively", "--force", "--app", folder, again=again)
    # For a stack that is not in the app, `cdk destroy` says nothing and succeeds.
    left = find_stacks(cluster, region)
    if not isinstance(left, Unanswered) and left:
        kept = ", ".join(stack.name for stack in left)
        raise SlipwayError(
            f"the CDK app in {find_project().folder} has no stack {kept} in {region}, which is still there",
            hint=f"bring the cluster back into the app, or: aws cloudformation delete-stack "
            f"--region {region} --stack-name {left[0].name}",
        )
    return names


# Empties a cluster's bucket before the cluster is destroyed: S3 deletes no bucket that holds anything.


class KeepsItsData(SlipwayError):
    """The bucket outlives the cluster, or belongs to somebody else, so it must not be emptied."""


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
    """Delete every version of every object; call `now` with the number deleted so far."""
    s3 = client("s3", target.region)
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    deleted = 0
    for page in s3.get_paginator("list_object_versions").paginate(**owner):
        found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if not found:
            continue
        versions = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
        answer = s3.delete_objects(**owner, Delete={"Objects": versions, "Quiet": True})
        if answer.get("Errors"):
            first = answer["Errors"][0]
            raise SlipwayError(
                f"S3 did not delete {first['Key']!r} of {target.bucket}: {first['Code']}, {first['Message']}",
                hint=allow("s3:DeleteObjectVersion", "destroy"),
            )
        deleted += len(versions)
        now(deleted)
    return deleted
