"""The steps of a bake, in the order and under the names of Image Builder's own workflows.

To add a step: a function and its line in WORKFLOWS.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.machines import image_store, log_stream
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import keys
from slipway.yard.services.imagebuilder.build import bake_roles
from slipway.yard.services.imagebuilder.build.bake_roles import Bake, BakePlan, Ingredient, StepRun
from slipway.yard.services.imagebuilder.components import runner
from slipway.yard.services.imagebuilder.components.actions import BadDocument
from slipway.yard.services.imagebuilder.components.document import parse
from slipway.yard.services.imagebuilder.components.runner import Cancelled, Component, Variables
from slipway.yard.services.imagebuilder.machine import base
from slipway.yard.services.imagebuilder.machine.build_machine import BakedMachine
from slipway.yard.services.service_quotas import quotas

# A successful bake makes an AMI per region, its tags, and the SSM parameters that name it.
# Other parts of a distribution are refused before anything is built.
UNKNOWN = ("containerDistributionConfiguration", "s3ExportConfiguration", "fastLaunchConfigurations")
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64"}
ROOT_DEVICE = "/dev/sda1"  # as in Ubuntu's AMIs, our parent images


def _to_region(plan: BakePlan, wanted: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    region, settings = wanted["region"], wanted.get("amiDistributionConfiguration", {})
    name = _named(settings.get("name", f"{plan.name} {{{{ imagebuilder:buildDate }}}}"), plan, at)
    tags = {
        "CreatedBy": "EC2 Image Builder",
        "Ec2ImageBuilderArn": plan.arn,
        **plan.ami_tags,
        **settings.get("amiTags", {}),
    }
    description = settings.get("description", "")
    ami_id = _register(region, name, description, tags)
    for parameter in wanted.get("ssmParameterConfigurations", ()):
        session = bake_roles.of_builder(plan)
        ssm = keys.client(session, "ssm", region) if session else own_client("ssm", region)
        ssm.put_parameter(
            Name=parameter["parameterName"],
            Value=ami_id,
            Type="String",
            DataType=parameter.get("dataType", "text"),
            Overwrite=True,
        )
    for template in wanted.get("launchTemplateConfigurations", ()):
        _point(template, ami_id, region)
    return {
        "region": region,
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
    from moto.ec2.models.amis import Ami
    from moto.ec2.utils import random_ami_id

    backend = moto_backend("ec2", region)
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


@dataclass(slots=True, kw_only=True)
class BakeContext:
    """Holds what the steps of one bake share."""

    bake: Bake
    log: BakeLog
    machine: BakedMachine
    components: list[Component] = field(default_factory=list)

    def run_phases(self, step: StepRun, *phases: str) -> None:
        """Run the first phase of all components, then the second phase of all, as on AWS."""
        total = len(phases) * len(self.components)
        for number, (phase, component) in enumerate(
            ((phase, component) for phase in phases for component in self.components), 1
        ):
            step.message = f"{component.name}, {phase} ({number} of {total})"
            runner.run_phase(component, phase, self.machine, self.log.say, self.bake.plan.cancelled.is_set)


def _launch(context: BakeContext, _step: StepRun) -> None:
    plan = context.bake.plan
    refused = [name for distribution in plan.distributions for name in UNKNOWN if distribution.get(name)]
    if refused:
        raise BadDocument(f"the distribution has {refused[0]}, which the yard does not do: leave it out")
    own_client("iam", plan.region).get_instance_profile(InstanceProfileName=plan.instance_profile)
    quotas.refuse_above(plan.instance_type, 1, plan.region)
    context.components += [
        found for ingredient in plan.ingredients if (found := _component(ingredient, context))
    ]
    context.machine.boot(context.log.say)
    if plan.cancelled.is_set():
        raise Cancelled


def _component(ingredient: Ingredient, context: BakeContext) -> Component | None:
    if ingredient.data is None:
        left_out = f"{ingredient.arn}: a component of AWS's own, whose document is not here"
        context.bake.left_out.append(left_out)
        context.log.say(f"left out: {left_out}")
        return None
    try:
        document = parse(ingredient.data)
        variables = Variables(document, ingredient.parameters)
        return Component(arn=ingredient.arn, name=ingredient.name, document=document, variables=variables)
    except BadDocument as error:
        raise BadDocument(f"{ingredient.arn}: {error}") from None


def _distribute(context: BakeContext, _step: StepRun) -> None:
    bake, plan = context.bake, context.bake.plan
    bake.left_out += [words for component in context.components for words in component.left_out]
    at = datetime.now(UTC)
    wanted = plan.distributions or ({"region": plan.region},)
    own_first = sorted(wanted, key=lambda each: each["region"] != plan.region)  # as GetImage shows them
    bake.amis = [_to_region(plan, each, at) for each in own_first]
    manifest = {
        "image_builder_arn": plan.arn,
        "recipe": plan.name,
        "version": plan.version,
        "parent": plan.parent,
        "base": base.name(),
        "baked_at": at.isoformat(timespec="seconds"),
        "components": [ingredient.arn for ingredient in plan.ingredients],
        "left_out": bake.left_out,
    }
    image_store.keep(context.machine.folder, [str(ami["image"]) for ami in bake.amis], manifest)
    for ami in bake.amis:
        context.log.say(f"{ami['image']} in {ami['region']}: {ami['name']}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    name: str
    type: str
    status: str  # of the image, while this workflow runs
    steps: Mapping[str, tuple[str, Callable[[BakeContext, StepRun], None]]]  # name -> (action, function)


WORKFLOWS = (
    Workflow(
        name="build-image",
        type="BUILD",
        status="BUILDING",
        steps={
            "LaunchBuildInstance": ("LaunchInstance", _launch),
            "ApplyBuildComponents": (
                "ExecuteComponents",
                lambda context, step: context.run_phases(step, "build", "validate"),
            ),
            "RunSanitizeScript": ("SanitizeInstance", lambda context, _: context.machine.seal()),
            "CreateOutputAMI": ("CreateImage", lambda context, _: context.machine.clear()),
        },
    ),
    Workflow(
        name="test-image",
        type="TEST",
        status="TESTING",
        steps={
            "LaunchTestInstance": (
                "LaunchInstance",
                lambda context, _: context.machine.start_test(context.log.say),
            ),
            "ApplyTestComponents": (
                "ExecuteComponents",
                lambda context, step: context.run_phases(step, "test"),
            ),
            "TerminateTestInstance": ("TerminateInstance", lambda context, _: context.machine.clear()),
        },
    ),
    Workflow(
        name="distribute-image",
        type="DISTRIBUTION",
        status="DISTRIBUTING",
        steps={"DistributeImage": ("DistributeImage", _distribute)},
    ),
)


# A bake's output goes to its CloudWatch stream at once; Image Builder writes it at the end.
LONGEST_EVENT = 256 * 1024 - 26


class BakeLog:
    """The log of a bake; `stream` is version and build, as AWS names it: 1.0.0/1."""

    def __init__(self, group: str, stream: str, region: str) -> None:
        self._group, self._stream, self._region = group, stream, region

    def open(self) -> None:
        log_stream.make(self._group, self._stream, self._region)

    def say(self, text: str) -> None:
        log_stream.put([text[:LONGEST_EVENT].encode()], self._group, self._stream, self._region)
