"""Refuses launches that EC2 refuses, for all that launch: RunInstances, Auto Scaling, Batch and AWS PCS.

`data` has RunInstances' parameters, merged with the launch template's. To refuse a single value: a rule of
LAUNCH_RULES; a combination of values and the type's facts: a function of CHECKS.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slipway.jobs.words.catalogue import every_type
from slipway.jobs.words.catalogue.instances import InstanceType, find_instance_type
from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.refusals import there, volumes
from slipway.yard.services.refusals.table import Holds, RefusalRule, refuse

Launch = Mapping[str, Any]

MOST_USER_DATA_BYTES = 16_384
_CODES = "EC2 API error codes"
_PROFILE = "Value ({value}) for parameter iamInstanceProfile.%s is invalid. Invalid IAM Instance Profile %s"
_SUBNET = ("InvalidSubnetID.NotFound", "The subnet ID '{value}' does not exist")
_GROUP = ("InvalidGroup.NotFound", "The security group '{value}' does not exist")


def _rule(path: str, holds: Holds, code: str, words: str, source: str = _CODES) -> RefusalRule:
    return RefusalRule(path=path, holds=holds, code=code, words=words, source=source)


LAUNCH_RULES = (
    _rule("KeyName", there.key_pair, "InvalidKeyPair.NotFound", "The key pair '{value}' does not exist"),
    _rule(
        "Placement.GroupName",
        there.placement_group,
        "InvalidPlacementGroup.Unknown",
        "The Placement Group '{value}' is unknown.",
    ),
    _rule("SubnetId", there.subnet, *_SUBNET),
    _rule("NetworkInterfaces[].SubnetId", there.subnet, *_SUBNET),
    _rule("SecurityGroupIds[]", there.security_group, *_GROUP),
    _rule("NetworkInterfaces[].Groups[]", there.security_group, *_GROUP),
    _rule(
        "IamInstanceProfile.Name",
        there.profile_name,
        "InvalidParameterValue",
        _PROFILE % ("name", "name"),
        "hashicorp/packer and others quote it",
    ),
    _rule(
        "IamInstanceProfile.Arn",
        there.profile_arn,
        "InvalidParameterValue",
        _PROFILE % ("arn", "ARN"),
        "hashicorp/packer and others quote it",
    ),
    _rule(
        "BlockDeviceMappings[].Ebs.SnapshotId",
        there.snapshot,
        "InvalidSnapshot.NotFound",
        "The snapshot '{value}' does not exist.",
    ),
)


def refuse_launch(data: Launch, region: str) -> None:
    """Raise ApiError, in EC2's words, for a launch that EC2 would refuse."""
    refuse((*LAUNCH_RULES, *user_data_rules("InvalidParameterValue")), data, region)
    volumes.refuse_disks(data, region)
    known = find_instance_type(str(data.get("InstanceType") or ""))
    for check in CHECKS:
        check(data, known, region)
    if known:
        told = (data.get("Placement") or {}).get("AvailabilityZone")
        interfaces = data.get("NetworkInterfaces") or ()
        subnets = [data.get("SubnetId"), *(interface.get("SubnetId") for interface in interfaces)]
        place = next((there.find_subnet(each, region) for each in subnets if each), None)
        _offered(known, region, str(told or (place.availability_zone if place is not None else "")))


def user_data_rules(code: str) -> tuple[RefusalRule, ...]:
    """Return the rules for user data; RunInstances and launch templates have different error codes."""

    def is_base64(text: object, _region: str) -> bool:
        return _decoded(str(text)) is not None

    def fits(text: object, _region: str) -> bool:
        return len(_decoded(str(text)) or b"") <= MOST_USER_DATA_BYTES

    limit = f"User data is limited to {MOST_USER_DATA_BYTES} bytes"
    return (
        _rule("UserData", is_base64, code, "Invalid BASE64 encoding of user data.", "quoted by its users"),
        _rule("UserData", fits, code, limit, "EC2 user guide, instance user data"),
    )


def merged(given: Launch, template: Launch) -> dict[str, Any]:
    """Return the launch with its template's values; the request's own values take precedence."""
    return {**template, **{name: value for name, value in given.items() if value not in (None, [], "")}}


def template_data(named: Mapping[str, Any], region: str) -> dict[str, Any] | None:
    """Return the launch template's data; None if there is no such template, which the caller refuses."""
    templates = moto_backend("ec2", region).launch_templates.values()
    keys = {named.get("LaunchTemplateId") or named.get("launchTemplateId")}
    keys |= {named.get("LaunchTemplateName") or named.get("launchTemplateName")}
    keys.discard(None)
    found = next((template for template in templates if keys & {template.id, template.name}), None)
    number = str(named.get("Version") or named.get("version") or "$Default")
    if found is None or (number.isdigit() and not 1 <= int(number) <= len(found.versions)):
        return None
    return dict(found.get_version(number).data)


# Checks of combinations.


def _architecture(data: Launch, known: InstanceType | None, region: str) -> None:
    """Check the AMI's architecture.

    Source of the words: aws-samples/amazon-autoscaling-mac1metal-ec2-with-terraform, issue 5.
    """
    image = there.find_image(str(data.get("ImageId") or ""), region)
    if known and image is not None and image.architecture not in (None, known.architecture):
        raise volumes.invalid_value(
            f"The architecture '{known.architecture}' of the specified instance type does not match the "
            f"architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI "
            "that have matching architectures, and try again. You can use 'describe-instance-types' or "
            "'describe-images' to discover the architecture of the instance type or AMI."
        )


def _interfaces(data: Launch, known: InstanceType | None, _region: str) -> None:
    """Check interfaces. Source: EC2 user guide, "Network cards", "Elastic network interfaces"; users."""
    cards = _cards(data)
    if not cards:
        return
    for name, words in (("SubnetId", "subnet ID"), ("SecurityGroupIds", "security groups")):
        if data.get(name):
            raise _combination(
                f"Network interfaces and an instance-level {words} may not be specified on the same request"
            )
    if len(set(cards)) < len(cards):
        raise volumes.invalid_value("Each network interface requires a unique device index.")
    if (0, 0) not in cards:
        raise _combination("When specifying network interfaces, you must include a device at index 0.")
    is_public = any(interface.get("AssociatePublicIpAddress") for interface in data["NetworkInterfaces"])
    if len(cards) > 1 and is_public:
        raise _combination(
            "The associatePublicIPAddress parameter cannot be specified when launching with "
            "multiple network interfaces"
        )
    if known and (beyond := [card for card, _ in cards if card >= known.network_cards]):
        raise volumes.invalid_value(
            f"Network card index {beyond[0]} is not valid for instance type {known.name}, "
            f"which has {known.network_cards} network cards."
        )


def _efa(data: Launch, known: InstanceType | None, _region: str) -> None:
    """Check EFAs. Source: EC2 user guide, "Elastic Fabric Adapter"; openshift/enhancements (words)."""
    interfaces = data.get("NetworkInterfaces") or ()
    wanted = sum(str(each.get("InterfaceType")).startswith("efa") for each in interfaces)
    if known and wanted and not known.has_efa:
        raise ApiError("UnsupportedOperation", f"EFA interfaces are not supported on {known.name}")
    if known and wanted > known.efa_interfaces:
        raise ApiError(
            "AttachmentLimitExceeded",
            f"EFA interface count {wanted} exceeds the limit of {known.efa_interfaces} for {known.name}",
        )


def _efa_of_cards(data: Launch, _known: InstanceType | None, _region: str) -> None:
    """Check that each network card has at most one EFA. Source: EC2 user guide, "Elastic Fabric Adapter"."""
    kinds = [str(interface.get("InterfaceType") or "") for interface in data.get("NetworkInterfaces") or ()]
    at = [(card, kind) for (card, _), kind in zip(_cards(data), kinds, strict=True)]
    shared = {card for card, kind in at if sum(one == (card, kind) for one in at) > 1 and "efa" in kind}
    if shared:
        raise ApiError(
            "AttachmentLimitExceeded",
            f"Network card {min(shared)} has more than one EFA interface; the limit is 1",
        )


def _networks(data: Launch, _known: InstanceType | None, region: str) -> None:
    """Check that groups and subnets are in one VPC. Source of the words: many users."""
    pairs = [(data.get("SubnetId"), data.get("SecurityGroupIds"))]
    interfaces = data.get("NetworkInterfaces") or ()
    pairs += [(interface.get("SubnetId"), interface.get("Groups")) for interface in interfaces]
    for subnet, groups in pairs:
        place = there.find_subnet(subnet, region) if subnet else None
        for group in groups or ():
            found = moto_backend("ec2", region).get_security_group_from_id(group)
            if place is not None and found is not None and found.vpc_id != place.vpc_id:
                raise ApiError(
                    "InvalidParameter",
                    f"Security group {group} and subnet {subnet} belong to different networks.",
                )


def _keys(data: Launch, _known: InstanceType | None, _region: str) -> None:
    """Check the keys of disks. Source: API reference, EbsBlockDevice."""
    for disk in data.get("BlockDeviceMappings") or ():
        told = disk.get("Ebs") or {}
        if told.get("KmsKeyId") and str(told.get("Encrypted", "")).lower() != "true":
            raise ApiError(
                "InvalidParameterDependency",
                "The parameter KmsKeyId requires the parameter Encrypted to be set.",
            )


CHECKS: tuple[Callable[[Launch, InstanceType | None, str], None], ...] = (
    _architecture,
    _efa,
    _interfaces,
    _efa_of_cards,
    _networks,
    _keys,
)


def _offered(known: InstanceType, region: str, zone: str) -> None:
    """Check that the zone offers the type. Source of the words: aws-samples (t3.micro in us-east-1e)."""
    zones = zones_of(known.name, region)
    if zones is None:
        return
    if not zones:
        raise ApiError(
            "Unsupported",
            "The requested configuration is currently not supported. "
            "Please check the documentation for supported configurations.",
        )
    everywhere = {offering["Location"] for offering in _offerings("availability-zone", region)}
    if zone in everywhere and zone not in zones:
        raise ApiError(
            "Unsupported",
            f"Your requested instance type ({known.name}) is not supported in your requested Availability "
            f"Zone ({zone}). Please retry your request by not specifying an Availability Zone or choosing "
            f"{', '.join(zones)}.",
        )


def zones_of(name: str, region: str) -> list[str] | None:
    """Return the zones that offer the type; None if nothing is known about the region."""
    listed = _offerings("availability-zone", region)
    return sorted(each["Location"] for each in listed if each["InstanceType"] == name) if listed else None


def types_in(region: str) -> frozenset[str]:
    return frozenset(offering["InstanceType"] for offering in _offerings("region", region))


def _offerings(kind: str, region: str) -> Sequence[Mapping[str, str]]:
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    return INSTANCE_TYPE_OFFERINGS[kind].get(region) or ()


def example_of(kind: str) -> str:
    """Return a type of a family such as c7g; for a type, the type itself."""
    if "." in kind:
        return kind
    return next((name for name in every_type.names() if name.startswith(f"{kind}.")), "")


def _cards(data: Launch) -> list[tuple[int, int]]:
    return [
        (int(interface.get("NetworkCardIndex") or 0), int(interface.get("DeviceIndex") or 0))
        for interface in data.get("NetworkInterfaces") or ()
    ]


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=False)
    except binascii.Error:
        return None


def _combination(words: str) -> ApiError:
    return ApiError("InvalidParameterCombination", words)
