"""Describes the AMIs that exist: what each holds, which one is in use, by whom, and whether it is stale.

`find_images` gathers facts; `describe` decides what they mean. A further fact is a field of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, answered, ask, ask_all, client, no_answer, reader
from slipway.jobs.cloud.deployed import ask_parameter
from slipway.jobs.clusters.images.baking import find_bakeries
from slipway.jobs.words.images.amis import (
    AMIS,
    IMAGE_TAG,
    AmiManifest,
    Bakery,
    encode_manifest,
    image_of,
    manifest_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTemplate:
    """Hold a launch template, and how its newest version names the AMI."""

    name: str
    image: str  # an AMI id, or resolve:ssm:PARAMETER


@dataclass(frozen=True, slots=True, kw_only=True)
class AmiFacts:
    amis: Sequence[Mapping[str, Any]]  # from DescribeImages
    parameters: Mapping[str, str]  # AMI id by the name of an image's parameter
    bakeries: Sequence[Bakery]
    templates: Sequence[LaunchTemplate]
    instances: Mapping[str, str]  # AMI id by instance id


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedAmi:
    image: str
    ami_id: str
    state: str  # in use, stale, replaced, or missing
    why: str
    age_days: float | None
    baked_at: str | None
    lock_digest: str | None
    versions: Mapping[str, str]
    used_by: tuple[str, ...]


def find_images(region: str | None) -> AmiFacts:
    ec2, ssm = reader("ec2", region), reader("ssm", region)
    found = ask_all(ssm, "GetParametersByPath", "Parameters", Path=AMIS, Recursive=True)
    parameters = {each["Name"]: each["Value"] for each in answered(found) if image_of(each["Name"])}
    ours = [{"Name": "tag-key", "Values": [IMAGE_TAG]}]
    tagged = answered(ask_all(ec2, "DescribeImages", "Images", Owners=["self"], Filters=ours))
    known = {each["ImageId"] for each in tagged}
    others = [ami_id for ami_id in sorted({*parameters.values()}) if ami_id not in known]
    named: list[Mapping[str, Any]] = []
    for ami_id in others:
        answer = ask(ec2, "DescribeImages", ImageIds=[ami_id])
        named += [] if isinstance(answer, Unanswered) else answer["Images"]
    alive = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
    reservations = ask_all(ec2, "DescribeInstances", "Reservations", Filters=alive)
    instances = [each for reservation in answered(reservations) for each in reservation["Instances"]]
    bakeries = find_bakeries(region)
    newest = ask_all(ec2, "DescribeLaunchTemplateVersions", "LaunchTemplateVersions", Versions=["$Latest"])
    return AmiFacts(
        amis=[*tagged, *named],
        parameters=parameters,
        bakeries=bakeries,
        templates=[
            LaunchTemplate(
                name=each["LaunchTemplateName"], image=each["LaunchTemplateData"].get("ImageId", "")
            )
            for each in answered(newest)
        ],
        instances={instance["InstanceId"]: instance["ImageId"] for instance in instances},
    )


def describe(facts: AmiFacts, now: datetime) -> list[DescribedAmi]:
    """Describe all AMIs, sorted by image and newest first."""
    there = [_described(ami, facts, now) for ami in facts.amis]
    ids = {image.ami_id for image in there}
    gone = [
        DescribedAmi(
            image=str(image_of(parameter)),
            ami_id=ami_id,
            state="missing",
            why=f"{parameter} names it: slipway image bake {image_of(parameter)} --wait",
            age_days=None,
            baked_at=None,
            lock_digest=None,
            versions={},
            used_by=_users(ami_id, [parameter], facts),
        )
        for parameter, ami_id in facts.parameters.items()
        if ami_id not in ids
    ]
    newest_first = sorted([*there, *gone], key=lambda each: each.baked_at or "", reverse=True)
    return sorted(newest_first, key=lambda each: each.image)


def _described(ami: Mapping[str, Any], facts: AmiFacts, now: datetime) -> DescribedAmi:
    ami_id, created = str(ami["ImageId"]), str(ami["CreationDate"])
    tags = {tag["Key"]: tag["Value"] for tag in ami.get("Tags", ())}
    manifest = manifest_of(ami_id, created, tags)
    named_in = [name for name, value in facts.parameters.items() if value == ami_id]
    image = manifest.image if manifest else str(image_of(named_in[0]))
    lock_digest = manifest.lock_digest if manifest else None
    state, why = _state(image, manifest, bool(named_in), facts)
    return DescribedAmi(
        image=image,
        ami_id=ami_id,
        state=state,
        why=why,
        age_days=round((now - datetime.fromisoformat(created)).total_seconds() / 86_400, 1),
        baked_at=created,
        lock_digest=lock_digest,
        versions=manifest.versions if manifest else {},
        used_by=_users(ami_id, named_in, facts),
    )


def _state(image: str, manifest: AmiManifest | None, is_named: bool, facts: AmiFacts) -> tuple[str, str]:
    if not is_named:
        return "replaced", ""
    if manifest is None:
        return "in use", "it says nothing of what it holds"
    deployed = next((bakery for bakery in facts.bakeries if bakery.name == image), None)
    if deployed is None or is_of(manifest, deployed):
        return "in use", ""
    changed = f"the lock {deployed.lock_digest}"
    if manifest.lock_digest == deployed.lock_digest:
        changed = "other steps, another parent or other code of Slipway"
    return "stale", f"the pipeline has {changed}: slipway image bake {image} --wait"


def _users(ami_id: str, named_in: Sequence[str], facts: AmiFacts) -> tuple[str, ...]:
    names = {ami_id, *(f"resolve:ssm:{parameter}" for parameter in named_in)}
    templates = [
        f"launch template {template.name}" for template in facts.templates if template.image in names
    ]
    instances = [f"instance {name}" for name, image in facts.instances.items() if image == ami_id]
    return (*sorted(templates), *sorted(instances))


# The AMI in use: which one it is, what it holds, and how to use another. Image Builder writes the id of a
# good bake into the image's parameter; the manifest, another parameter, is written here.


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
        raise no_answer(answer)
    for image in answer["Images"]:
        tags = {tag["Key"]: tag["Value"] for tag in image.get("Tags", ())}
        return manifest_of(ami_id, str(image["CreationDate"]), tags)
    return None


def is_of(manifest: AmiManifest, bakery: Bakery) -> bool:
    """Return True if the deployed pipeline would bake the same AMI again."""
    asked = (bakery.lock_digest, bakery.recipe_version)
    return (manifest.lock_digest, manifest.recipe_version) == asked


def current_ami(bakery: Bakery) -> str | None:
    """Return the id of the AMI that stacks use."""
    return answered(ask_parameter(bakery.ami_parameter, bakery.region))


def previous_ami(bakery: Bakery, current: str) -> str | None:
    """Return the AMI id that the parameter named before, as far back as its history goes."""
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
        return f"slipway image bake {bakery.name} --use {ami_id}"
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
