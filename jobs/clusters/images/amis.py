"""Which AMI of an image folder is in use, what it holds, and how to use another.

Image Builder writes the id of a good bake into the image's parameter; the manifest beside it is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, client, reader
from slipway.jobs.clusters.images.baking import unanswered
from slipway.jobs.words.images.amis import AmiManifest, Bakery, encode_manifest, manifest_of


def ami_of(image: Mapping[str, Any], region: str) -> str | None:
    """Return the AMI that a finished bake made in a region."""
    amis = image.get("outputResources", {}).get("amis", [])
    return next((str(ami["image"]) for ami in amis if ami.get("region") == region), None)


def describe_manifest(ami_id: str, region: str) -> AmiManifest | None:
    """Read the AMI's own tags; None if it does not exist, or no pipeline of ours baked it."""
    answer = ask(reader("ec2", region), "DescribeImages", ImageIds=[ami_id])
    if isinstance(answer, Unanswered):
        if answer.code.startswith("InvalidAMIID"):
            return None
        raise unanswered(answer)
    for image in answer["Images"]:
        tags = {tag["Key"]: tag["Value"] for tag in image.get("Tags", ())}
        return manifest_of(ami_id, str(image["CreationDate"]), tags)
    return None


def is_of(manifest: AmiManifest, bakery: Bakery) -> bool:
    """Return True if the deployed pipeline would bake the same again."""
    asked = (bakery.lock_digest, bakery.recipe_version)
    return (manifest.lock_digest, manifest.recipe_version) == asked


def current_ami(bakery: Bakery) -> str | None:
    """Return the id of the AMI that stacks use."""
    answer = ask(reader("ssm", bakery.region), "GetParameter", Name=bakery.ami_parameter)
    if isinstance(answer, Unanswered):
        if answer.code == "ParameterNotFound":
            return None
        raise unanswered(answer)
    return str(answer["Parameter"]["Value"])


def previous_ami(bakery: Bakery, current: str) -> str | None:
    """Return the id that the parameter named before, as far as its history goes."""
    found = ask_all(
        reader("ssm", bakery.region), "GetParameterHistory", "Parameters", Name=bakery.ami_parameter
    )
    if isinstance(found, Unanswered):
        return None
    values = [str(each["Value"]) for each in sorted(found, key=lambda each: each["Version"])]
    return next((value for value in reversed(values) if value != current), None)


def how_to_use(ami_id: str, bakery: Bakery) -> str:
    """Return the command that makes the image's parameter name this AMI."""
    if describe_manifest(ami_id, bakery.region):
        return f"slipway bake {bakery.name} --use {ami_id}"
    return (
        f"aws ssm put-parameter --overwrite --name {bakery.ami_parameter} --value {ami_id} "
        f"--region {bakery.region}"
    )


def write_manifest(manifest: AmiManifest, bakery: Bakery) -> None:
    client("ssm", bakery.region).put_parameter(
        Name=bakery.manifest_parameter,
        Value=encode_manifest(manifest),
        Type="String",
        Overwrite=True,
    )


def point_at(manifest: AmiManifest, bakery: Bakery) -> None:
    """Make the parameter name this AMI; nodes started from now on use it, running ones do not."""
    client("ssm", bakery.region).put_parameter(
        Name=bakery.ami_parameter, Value=manifest.ami_id, Type="String", Overwrite=True
    )
    write_manifest(manifest, bakery)
