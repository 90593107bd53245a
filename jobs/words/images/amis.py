"""The records of AMIs: which pipeline bakes one, and what a baked one holds. Another fact is one field.

A Bakery is a deployed pipeline: infra writes it as an SSM parameter, which `slipway image bake` reads. Image
Builder tags an AMI with what it holds; the manifest is read from those tags. `slipway image bake` also writes
it to a parameter next to the AMI's id, for users who may read only parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.text import decode_json, refuse_newer

SCHEMA_VERSION = 1
BAKERIES = "/slipway/bakeries"
AMIS = "/slipway/amis"
MAX_BYTES = 4096  # limit of a standard SSM parameter

IMAGE_TAG = "slipway:image"
LOCK_TAG = "slipway:lock"
RECIPE_TAG = "slipway:recipe"
VERSION_TAG = "slipway:version:"  # before the component's name

# Suffixes of the names of steps that a machine outside AWS cannot run, because it lacks a device, a kernel of
# its own, or a vendor's server that a closed network does not reach.
ON_HARDWARE = "OnHardware"
FROM_VENDOR = "FromVendor"


class DamagedRecord(SlipwayError):
    """Slipway did not write this record, or something else has changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bakery:
    """Describes a deployed pipeline. Infra fills it with CDK tokens, so nothing is checked here."""

    name: str  # of the AMI, a folder of containers/images
    account: str
    region: str
    pipeline_arn: str
    ami_parameter: str  # where Image Builder writes the id of each good bake
    manifest_parameter: str  # where `slipway image bake` writes its manifest
    lock_digest: str  # of the lock with which the pipeline was deployed
    recipe_version: str  # a digest of parent, components, values of the lock, and our own code in the AMI
    log_group: str
    parent: str  # an AMI id, or ssm: and the name of a parameter
    snapshot: str  # the moment of the packages with which drivers are built for the parent's kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class AmiManifest:
    """Describes what one AMI holds."""

    image: str
    ami_id: str
    lock_digest: str
    recipe_version: str
    baked_at: str  # from EC2: 2026-11-21T10:00:00.000Z
    versions: Mapping[str, str]  # by component of the lock


def bakery_parameter(image: str) -> str:
    return f"{BAKERIES}/{image}"


def ami_parameter(image: str) -> str:
    return f"{AMIS}/{image}/id"


def bakery_stack_name(image: str) -> str:
    return f"slipway-bakery-{image}"


def image_of(parameter: str | None) -> str | None:
    """Return the image of a parameter: cpu-mpi of /slipway/amis/cpu-mpi/id; None if it is not one of ours."""
    head, _, rest = (parameter or "").partition(f"{AMIS}/")
    name, _, member = rest.partition("/")
    return name if not head and name and member == "id" else None


def encode_bakery(bakery: Bakery) -> str:
    text = json.dumps({"schema": SCHEMA_VERSION, **asdict(bakery)}, ensure_ascii=False)
    assert len(text.encode()) <= MAX_BYTES, (
        f"the record of bakery {bakery.name} does not fit an SSM parameter"
    )
    return text


def decode_bakery(text: str, *, parameter: str) -> Bakery:
    """Decode a record; `parameter` names it in errors."""
    try:
        record = decode_json(text)
    except ValueError as error:
        raise _damaged(parameter, f"is not JSON ({error})") from None
    if not isinstance(record, dict):
        raise _damaged(parameter, f"holds a {type(record).__name__} where an object belongs")
    schema = record.pop("schema", None)
    refuse_newer(schema, SCHEMA_VERSION, f"the SSM parameter {parameter}")
    if schema != SCHEMA_VERSION:
        raise _damaged(parameter, f"has schema {schema!r}, but this Slipway reads {SCHEMA_VERSION}")
    known = [field.name for field in fields(Bakery)]
    wrong = wrong_fields(Bakery, record) + [
        f"has the unknown field {name}" for name in record if name not in known
    ]
    if wrong:
        raise _damaged(parameter, ", ".join(wrong))
    return Bakery(**{name: str(record[name]) for name in known})


def ami_tags(
    image: str, *, lock_digest: str, recipe_version: str, versions: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the tags that say what an AMI holds."""
    named = {f"{VERSION_TAG}{component}": version for component, version in sorted(versions.items())}
    return {IMAGE_TAG: image, LOCK_TAG: lock_digest, RECIPE_TAG: recipe_version, **named}


def manifest_of(ami_id: str, baked_at: str, tags: Mapping[str, str]) -> AmiManifest | None:
    """Read the AMI's tags; None if no pipeline of ours baked it."""
    if not {IMAGE_TAG, LOCK_TAG, RECIPE_TAG} <= tags.keys():
        return None
    return AmiManifest(
        image=tags[IMAGE_TAG],
        ami_id=ami_id,
        lock_digest=tags[LOCK_TAG],
        recipe_version=tags[RECIPE_TAG],
        baked_at=baked_at,
        versions={
            key.removeprefix(VERSION_TAG): value
            for key, value in sorted(tags.items())
            if key.startswith(VERSION_TAG)
        },
    )


# No component may have these names: in a manifest, versions are next to these facts.
MANIFEST_FACTS = frozenset(field.name for field in fields(AmiManifest)) - {"versions"}


def encode_manifest(manifest: AmiManifest) -> str:
    """Encode the manifest as preflight reads it."""
    facts = {name: value for name, value in asdict(manifest).items() if name in MANIFEST_FACTS}
    assert not facts.keys() & manifest.versions.keys(), "a component has the name of a fact"
    text = json.dumps({**facts, **manifest.versions}, ensure_ascii=False)
    assert len(text.encode()) <= MAX_BYTES, f"the manifest of {manifest.image} does not fit an SSM parameter"
    return text


def _damaged(parameter: str, what: str) -> DamagedRecord:
    return DamagedRecord(
        f"the SSM parameter {parameter} {what}",
        hint="deploy the bakery and bake again with this version of Slipway: that writes it again",
    )
