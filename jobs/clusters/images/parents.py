"""Finds the release of Canonical's that a bake would begin with, before any machine is started for it."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.clusters.images.baking import unanswered
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.ami_locks import is_newer, pinned, serial_of
from slipway.jobs.words.images.amis import Bakery

_SSM = "ssm:"


class ParentIsNewer(SlipwayError):
    """The parent runs a kernel that the packages of the lock do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentImage:
    ami_id: str
    name: str
    serial: str | None  # None: not one of Canonical's


def refuse_newer_parent(bakery: Bakery) -> None:
    """Compare the days of parent and packages; what cannot be asked, the first step of the bake finds out."""
    found = find_parent(bakery.parent, bakery.region)
    if isinstance(found, Unanswered) or found.serial is None or not is_newer(found.serial, bakery.snapshot):
        return
    raise ParentIsNewer(
        f"the parent AMI {found.ami_id} is Canonical's release {found.serial}, newer than the packages of "
        f"{bakery.snapshot}: these have no headers for its kernel, so no driver could be built",
        hint=f"slipway pin {bakery.name}; cdk deploy slipway-bakery-{bakery.name}; "
        f"slipway bake {bakery.name} --wait",
    )


def find_parent(parent: str, region: str) -> ParentImage | Unanswered:
    """Find the AMI that an id or `ssm:` and a parameter means now."""
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
    """Return the serial of Canonical's newest release, of which a parameter of its own is there."""
    found = find_parent(parent, region)
    if isinstance(found, Unanswered):
        raise unanswered(found)
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
