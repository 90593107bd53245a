"""What a good bake puts into the account: an AMI a region, its tags, the SSM parameters that name it.

What else a distribution may ask for is refused before anything is built: see UNKNOWN.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.permissions import keys
from slipway.yard.services.imagebuilder.build import bake_roles
from slipway.yard.services.imagebuilder.build.bake_roles import BakePlan

UNKNOWN = ("containerDistributionConfiguration", "s3ExportConfiguration", "fastLaunchConfigurations")
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64"}
ROOT_DEVICE = "/dev/xvda"


def unknown(distributions: tuple[Mapping[str, Any], ...]) -> list[str]:
    return [name for distribution in distributions for name in UNKNOWN if distribution.get(name)]


def distribute(plan: BakePlan, at: datetime) -> list[dict[str, Any]]:
    """The AMIs, as GetImage lists them; the one of the bake's own region first."""
    wanted = plan.distributions or ({"region": plan.region},)
    ordered = sorted(wanted, key=lambda each: each["region"] != plan.region)
    return [_to_region(plan, each, at) for each in ordered]


def _to_region(plan: BakePlan, wanted: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    settings = wanted.get("amiDistributionConfiguration", {})
    name = _named(settings.get("name", f"{plan.name} {{{{ imagebuilder:buildDate }}}}"), plan, at)
    tags = {
        "CreatedBy": "EC2 Image Builder",
        "Ec2ImageBuilderArn": plan.arn,
        **plan.ami_tags,
        **settings.get("amiTags", {}),
    }
    description = settings.get("description", "")
    ami_id = _register(wanted["region"], name, description, tags)
    for parameter in wanted.get("ssmParameterConfigurations", ()):
        _write(plan, parameter, ami_id, wanted["region"])
    for template in wanted.get("launchTemplateConfigurations", ()):
        _point(template, ami_id, wanted["region"])
    return {
        "region": wanted["region"],
        "image": ami_id,
        "name": name,
        "accountId": ACCOUNT,
        "state": {"status": "AVAILABLE"},
        **({"description": description} if description else {}),
    }


def _named(pattern: str, plan: BakePlan, at: datetime) -> str:
    date = at.strftime("%Y-%m-%dT%H-%M-%S.") + f"{at.microsecond // 1000:03d}Z"
    values = {"buildDate": date, "buildVersion": plan.version.rpartition("/")[2]}
    for variable, value in values.items():
        for spelling in (f"{{{{ imagebuilder:{variable} }}}}", f"{{{{imagebuilder:{variable}}}}}"):
            pattern = pattern.replace(spelling, value)
    return pattern


def _register(region: str, name: str, description: str, tags: Mapping[str, str]) -> str:
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.amis import Ami
    from moto.ec2.utils import random_ami_id

    backend = ec2_backends[ACCOUNT][region]
    ami = Ami(
        backend,
        random_ami_id(),
        name=name,
        description=description,
        architecture=ARCHITECTURES.get(platform.machine(), platform.machine()),
        virtualization_type="hvm",
        root_device_type="ebs",
        root_device_name=ROOT_DEVICE,
        region_name=f"{region}a",
        tags=dict(tags),
    )
    backend.amis[ami.id] = ami
    return str(ami.id)


def _write(plan: BakePlan, parameter: Mapping[str, Any], ami_id: str, region: str) -> None:
    session = bake_roles.of_builder(plan)
    ssm = keys.client(session, "ssm", region) if session else own_client("ssm", region)
    ssm.put_parameter(
        Name=parameter["parameterName"],
        Value=ami_id,
        Type="String",
        DataType=parameter.get("dataType", "text"),
        Overwrite=True,
    )


def _point(template: Mapping[str, Any], ami_id: str, region: str) -> None:
    ec2 = own_client("ec2", region)
    made = ec2.create_launch_template_version(
        LaunchTemplateId=template["launchTemplateId"],
        SourceVersion="$Latest",
        LaunchTemplateData={"ImageId": ami_id},
    )["LaunchTemplateVersion"]
    if template.get("setDefaultVersion"):
        ec2.modify_launch_template(
            LaunchTemplateId=template["launchTemplateId"], DefaultVersion=str(made["VersionNumber"])
        )
