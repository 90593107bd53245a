"""A bake's plan and state, and its two roles: Image Builder's, which makes the image, and the machine's.

The yard starts no instance and copies no disk, so the calls that Image Builder would make to EC2 and SSM are
judged without a request. To add an act of a step: a line of _ACTS.
Source: the policy AWSServiceRoleForImageBuilder, and CloudTrail's view of a bake in its user guide.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import roles
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, arn
from slipway.yard.permissions.calls.needs import needs
from slipway.yard.permissions.keys import RoleSession

FINAL = frozenset({"AVAILABLE", "FAILED", "CANCELLED", "DELETED"})  # states of a bake that has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredient:
    """A component of the recipe. `data` is None if AWS owns it: the yard does not have its document."""

    arn: str
    name: str
    data: str | None
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BakePlan:
    arn: str  # the image's build version
    region: str
    name: str  # of the recipe
    version: str  # 1.0.0/1
    parent: str
    instance_profile: str
    instance_type: str  # of the machine that builds and tests it
    infrastructure: Mapping[str, Any]  # its network settings, role and log bucket
    execution_role: str  # "": the service-linked role
    working_directory: str  # for every step
    ingredients: tuple[Ingredient, ...]
    distributions: tuple[Mapping[str, Any], ...]
    ami_tags: Mapping[str, str]  # from the recipe; a distribution adds its own
    runs_tests: bool
    log_group: str
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True, kw_only=True)
class StepRun:
    name: str
    action: str
    status: str = "PENDING"
    message: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    id: str = field(default_factory=lambda: f"step-{uuid.uuid4()}")


@dataclass(slots=True, kw_only=True)
class WorkflowRun:
    name: str
    type: str  # BUILD, TEST or DISTRIBUTION
    steps: list[StepRun]
    status: str = "PENDING"
    message: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    id: str = field(default_factory=lambda: f"wf-{uuid.uuid4()}")

    def count(self, status: str) -> int:
        return sum(step.status == status for step in self.steps)


@dataclass(slots=True, kw_only=True)
class Bake:
    plan: BakePlan
    status: str = "PENDING"
    reason: str = ""
    failure: Mapping[str, Any] | None = None
    workflows: list[WorkflowRun] = field(default_factory=list)
    amis: list[Mapping[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    def state(self) -> dict[str, Any]:
        words: dict[str, Any] = {"status": self.status}
        if self.reason:
            words["reason"] = self.reason[:1024]
        return words | ({"failureContext": dict(self.failure)} if self.failure else {})


BUILDER, MACHINES = "imagebuilder.amazonaws.com", "ec2.amazonaws.com"
MADE_BY = "EC2 Image Builder"  # the value of the tag CreatedBy on everything that it makes
_INSTANCE = "i-0123456789abcdef0"  # only a name: no instance is started
_TAG = [{"Key": "CreatedBy", "Value": MADE_BY}]
_OWN_TAG = {f"{service}:resourcetag/createdby": (MADE_BY,) for service in ("aws", "ec2", "ssm")}


def of_builder(plan: BakePlan) -> RoleSession | None:
    """Return the session of the execution role; None for the service-linked role, which may do everything."""
    return roles.assume(plan.execution_role, BUILDER, "bake") if plan.execution_role else None


def of_machine(plan: BakePlan) -> RoleSession | None:
    """Return the session of the instance profile's role; None if it has no role."""
    found: Any = moto_backend("iam").instance_profiles
    for profile in list(found.values()):
        if profile.name == plan.instance_profile and profile.roles:
            return roles.assume(profile.roles[0].arn, MACHINES, _INSTANCE)
    return None


def check(plan: BakePlan, step: str) -> None:
    """Raise ApiError if a role does not allow what this step needs."""
    for session, acts in (
        (of_builder(plan), _ACTS.get(step)),
        (of_machine(plan), _ACTS_OF_MACHINE.get(step)),
    ):
        words = roles.refused(session, plan.region, acts(plan)) if session and acts else ""
        if words:
            raise ApiError("AccessDeniedException", words, status=403)


def _asked(plan: BakePlan, service: str, operation: str, **parameters: Any) -> tuple[ActionNeed, ...]:
    given = {name: value for name, value in parameters.items() if value}
    return needs(AskedCall(service=service, operation=operation, region=plan.region, parameters=given))


def _on_own(found: tuple[ActionNeed, ...]) -> Iterator[ActionNeed]:
    """Add the condition keys of the tag CreatedBy, which everything that Image Builder makes has."""
    for need in found:
        is_own = ":instance/" in need.resource
        yield replace(need, keys={**_OWN_TAG, **need.keys}) if is_own else need


def _launch(plan: BakePlan) -> Iterator[ActionNeed]:
    if plan.parent.startswith("ssm:"):
        yield from _asked(plan, "ssm", "GetParameter", Name=plan.parent.removeprefix("ssm:"))
    place = plan.infrastructure
    yield from _asked(
        plan,
        "ec2",
        "RunInstances",
        ImageId=plan.parent if plan.parent.startswith("ami-") else "ami-00000000000000000",
        SubnetId=place.get("subnetId", ""),
        SecurityGroupIds=place.get("securityGroupIds", []),
        IamInstanceProfile={"Name": plan.instance_profile},
        TagSpecifications=[{"ResourceType": kind, "Tags": _TAG} for kind in ("instance", "volume")],
    )
    for operation in ("DescribeInstances", "DescribeInstanceStatus", "DescribeImages"):
        yield from _asked(plan, "ec2", operation)
    yield from _asked(plan, "ssm", "DescribeInstanceInformation")


def _run(plan: BakePlan) -> Iterator[ActionNeed]:
    sent = {"DocumentName": "AWS-RunShellScript", "InstanceIds": [_INSTANCE]}
    yield from _on_own(_asked(plan, "ssm", "SendCommand", **sent))
    yield from _asked(plan, "ssm", "GetCommandInvocation")
    stream = {"logGroupName": plan.log_group, "logStreamName": plan.version}
    yield from _asked(plan, "logs", "CreateLogStream", **stream)
    yield from _asked(plan, "logs", "PutLogEvents", **stream)


def _create_image(plan: BakePlan) -> Iterator[ActionNeed]:
    yield from _on_own(_asked(plan, "ec2", "StopInstances", InstanceIds=[_INSTANCE]))
    tags = [{"ResourceType": kind, "Tags": _TAG} for kind in ("image", "snapshot")]
    yield from _on_own(_asked(plan, "ec2", "CreateImage", InstanceId=_INSTANCE, TagSpecifications=tags))
    yield from _terminate(plan)


def _terminate(plan: BakePlan) -> Iterator[ActionNeed]:
    yield from _on_own(_asked(plan, "ec2", "TerminateInstances", InstanceIds=[_INSTANCE]))


def _read_components(plan: BakePlan) -> Iterator[ActionNeed]:
    for ingredient in plan.ingredients:
        if ingredient.data is not None:
            yield ActionNeed(action="imagebuilder:GetComponent", resource=ingredient.arn)
    logs: Mapping[str, Any] = (plan.infrastructure.get("logging") or {}).get("s3Logs") or {}
    if logs:
        prefix = "/".join(filter(None, [logs.get("s3KeyPrefix", ""), plan.name]))
        yield ActionNeed(
            action="s3:PutObject", resource=f"arn:aws:s3:::{logs['s3BucketName']}/{prefix}/console.log"
        )


def _answer_systems_manager(plan: BakePlan) -> Iterator[ActionNeed]:
    yield ActionNeed(
        action="ssm:UpdateInstanceInformation", resource=arn("ec2", plan.region, f"instance/{_INSTANCE}")
    )


Acts = Callable[[BakePlan], Iterator[ActionNeed]]
_ACTS: Mapping[str, Acts] = {
    "LaunchBuildInstance": _launch,
    "ApplyBuildComponents": _run,
    "CreateOutputAMI": _create_image,
    "LaunchTestInstance": _launch,
    "ApplyTestComponents": _run,
    "TerminateTestInstance": _terminate,
}
_ACTS_OF_MACHINE: Mapping[str, Acts] = {
    "LaunchBuildInstance": _answer_systems_manager,
    "ApplyBuildComponents": _read_components,
    "ApplyTestComponents": _read_components,
}
