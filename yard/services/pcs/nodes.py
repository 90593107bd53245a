"""Launches a PCS node's instance from its node group's launch template, and terminates it."""

from __future__ import annotations

import base64
import email
import gzip
from collections.abc import Mapping
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from importlib.resources import files
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard.chaos import conditions
from slipway.yard.endpoint import own_client
from slipway.yard.errors import ApiError
from slipway.yard.gateway.faults import is_refused_by_script
from slipway.yard.machines.hosts import reconciler
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.autoscaling.api import image_id
from slipway.yard.services.ec2 import template_launch
from slipway.yard.services.recorded import StoredRecord

# PCS's purchase option -> EC2's market type.
_MARKETS: Mapping[str, str] = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}


def launch(group: StoredRecord) -> Any:
    """Launch an instance for a node of the group; return moto's object; raise ApiError without capacity."""
    from moto.core.exceptions import ServiceException
    from moto.core.types import Base64EncodedString

    given, region = group.given, group.region
    version = template_version(given["customLaunchTemplate"], region)
    subnet = moto_backend("ec2", region).get_subnet(given["subnetIds"][0])
    user_data = merged(str(version.data.get("UserData") or ""), group.facts["clusterId"], region)
    tags = {slurm.CLUSTER_TAG: group.facts["clusterId"], slurm.GROUP_TAG: group.facts["id"]}
    wanted = template_launch.TemplateLaunch(
        version=version,
        image=image(given, region),
        instance_type=_available(given, subnet.availability_zone),
        count=1,
        subnet=subnet.id,
        zone=subnet.availability_zone,
        user_data=Base64EncodedString(user_data),
        tags=tags,
        market=_MARKETS.get(given.get("purchaseOption", "ONDEMAND"), ""),
        profile={"Arn": given["iamInstanceProfileArn"]},
        security_groups=tuple(given.get("securityGroupIds") or ()),
        at_shutdown="terminate",
    )
    try:
        (instance,) = template_launch.launch(wanted, region)
    except ServiceException as refused:
        raise ApiError(str(refused.code), str(refused.message)) from refused
    reconciler.wake_if_kept()
    return instance


def end(instance: str, region: str) -> None:
    if is_there(instance, region):
        own_client("ec2", region).terminate_instances(InstanceIds=[instance])


def is_there(instance: str, region: str) -> bool:
    """Return True if the instance runs or will run."""
    found = {other.id: other.state for other in moto_backend("ec2", region).all_instances()}
    return found.get(instance) in ("pending", "running")


def template_version(given: Mapping[str, str], region: str) -> Any:
    """Return moto's version of the launch template; raise ApiError if there is none."""
    template = moto_backend("ec2", region).launch_templates.get(given["id"])
    if template is None:
        raise ApiError("ValidationException", f"The launch template {given['id']} does not exist.")
    number = given["version"]
    whole = int(number) if number.isdigit() else 0
    if number not in ("$Latest", "$Default") and not 1 <= whole <= len(template.versions):
        raise ApiError(
            "ValidationException", f"Version {number} of the launch template {given['id']} does not exist."
        )
    return template.get_version(number)


def image(given: Mapping[str, Any], region: str) -> str:
    """Return the AMI of the node group, or of its launch template."""
    asked = given.get("amiId") or template_version(given["customLaunchTemplate"], region).image_id
    if not asked:
        raise ApiError("ValidationException", "Neither the node group nor its launch template names an AMI.")
    try:
        return image_id(asked, region)
    except ApiError as refused:
        raise ApiError("ValidationException", refused.message) from refused


def _available(given: Mapping[str, Any], zone: str) -> str:
    """Return the first of the group's instance types for which EC2 has capacity."""
    kinds = [config["instanceType"] for config in given["instanceConfigs"]]
    for kind in kinds:
        if not is_refused_by_script() and not conditions.lacks_capacity(kind):
            return str(kind)
    raise conditions.no_capacity(kinds[-1], zone)


# AWS PCS adds parts to a launch template's user data that make an instance a node. PCS user guide, "Working
# with Amazon EC2 user data for AWS PCS": #cloud-config runs before the instance registers; scripts run after
# that and before Slurm's daemon starts.
PLACE = "/opt/aws/pcs/bin/pcs-agent"
_SCRIPT = "x-shellscript"
_INSTALL = """\
#!/bin/bash
set -e
mkdir -p {folder}
cat >{place} <<'AGENT_OF_THE_YARD'
#!{python}
{text}
AGENT_OF_THE_YARD
chmod 755 {place}
exec {place} register {cluster} {region}
"""
_START = f"#!/bin/bash\nexec {PLACE} start\n"


def is_mime(encoded: str) -> bool:
    """Return True if PCS can add parts to the user data: it is empty or a MIME multi-part archive."""
    text = _text(encoded)
    return not text.strip() or email.message_from_string(text).is_multipart()


def merged(encoded: str, cluster: str, region: str) -> str:
    """Return the user data of an instance: the template's parts, and PCS's around its scripts."""
    given = email.message_from_string(_text(encoded))
    parts = [part for part in given.walk() if not part.is_multipart()] if given.is_multipart() else []
    scripts = [part for part in parts if part.get_content_subtype() == _SCRIPT]
    found = MIMEMultipart("mixed")
    for part in (part for part in parts if part not in scripts):
        found.attach(part)
    agent = files("slipway").joinpath("yard/services/pcs/inside/agent.py").read_text(encoding="utf-8")
    register = _INSTALL.format(
        folder=PLACE.rpartition("/")[0],
        place=PLACE,
        python=slurm.PYTHON,
        text=agent,
        cluster=cluster,
        region=region,
    )
    found.attach(MIMEText(register, _SCRIPT, "utf-8"))
    for part in scripts:
        found.attach(part)
    found.attach(MIMEText(_START, _SCRIPT, "utf-8"))
    return base64.b64encode(found.as_bytes()).decode()


def _text(encoded: str) -> str:
    raw = base64.b64decode(encoded or "")
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", errors="replace")
