"""Eventual consistency: for a while, some calls answer in AWS's words that a new thing does not exist.

IAM tells the other services of a new role or instance profile within seconds ("Changes that I make are not
always immediately visible", IAM user guide); EC2 says of a new id that it does not exist (EC2 API guide,
"Eventual consistency"). S3 is strongly consistent, so nothing is kept back there. To add a refusal: a row of
_BY_ROLE or _BY_ID. To keep back what another call makes: a row of _MADE.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.errors import ApiError, texts

ANY = "*"
NO_PROFILE = (
    "Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
)
_ROLE_OR_PROFILE = re.compile(r"arn:aws:iam::\d{12}:(role|instance-profile)/(?:[^\s\"']*/)?([\w+=,.@-]+)")
_PROFILE_WORDS = ("instanceProfileName", "instanceRole")  # which may hold a name in place of an ARN

# Calls that check a role or profile that they name, and how they refuse it: (code, message).
_BY_ROLE: Mapping[tuple[str, str], tuple[str, str]] = {
    ("autoscaling", "CreateAutoScalingGroup"): ("ValidationError", NO_PROFILE),
    ("batch", "CreateComputeEnvironment"): (
        "ClientException",
        "Error executing request, Exception : Invalid IAM Instance Profile or role: {name}",
    ),
    ("codebuild", "CreateProject"): (
        "InvalidInputException",
        "CodeBuild is not authorized to perform: sts:AssumeRole on {name}",
    ),
    ("ec2", "AssociateIamInstanceProfile"): ("InvalidParameterValue", NO_PROFILE),
    ("ec2", "CreateFlowLogs"): ("InvalidParameter", "Unable to assume given IAM role"),
    ("ec2", "RunInstances"): ("InvalidParameterValue", NO_PROFILE),
    ("imagebuilder", "CreateInfrastructureConfiguration"): (
        "InvalidParameterValueException",
        (
            "The value supplied for parameter 'instanceProfileName' is not valid. The provided instance "
            "profile does not exist. Please specify a different instance profile and try again."
        ),
    ),
    ("kms", ANY): (
        "MalformedPolicyDocumentException",
        "Policy contains a statement with one or more invalid principals.",
    ),
    ("lambda", ANY): (
        "InvalidParameterValueException",
        "The role defined for the function cannot be assumed by Lambda.",
    ),
    ("sagemaker", ANY): (
        "ValidationException",
        (
            "Could not assume role {name}. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role."
        ),
    ),
    ("sts", "AssumeRole"): ("AccessDenied", "not authorized to perform: sts:AssumeRole on resource: {name}"),
}
# How EC2 refuses an id that it does not know yet: (code, message), by the id's prefix.
_BY_ID: Mapping[str, tuple[str, str]] = {
    "ami": ("InvalidAMIID.NotFound", "The image id '[{id}]' does not exist"),
    "i": ("InvalidInstanceID.NotFound", "The instance ID '{id}' does not exist"),
    "lt": (
        "InvalidLaunchTemplateId.NotFound",
        "The specified launch template, with ID {id}, does not exist.",
    ),
    "rtb": ("InvalidRouteTableID.NotFound", "The routeTable ID '{id}' does not exist"),
    "sg": ("InvalidGroup.NotFound", "The security group '{id}' does not exist"),
    "subnet": ("InvalidSubnetID.NotFound", "The subnet ID '{id}' does not exist"),
    "vpc": ("InvalidVpcID.NotFound", "The vpc ID '{id}' does not exist"),
}
_NO_PARAMETER = "ParameterNotFound"
CODES = frozenset({_NO_PARAMETER, *(words[0] for words in (*_BY_ROLE.values(), *_BY_ID.values()))})
_ID = re.compile(rf"\b({'|'.join(_BY_ID)})-[0-9a-f]{{8,17}}\b")

_lock = threading.Lock()
_fresh: dict[tuple[str, str], float] = {}  # (kind, name) -> until when it is unknown, on the monotonic clock
now: Callable[[], float] = time.monotonic  # tests replace it


_late: list[tuple[float, Callable[[], None]]] = []  # (when it is due, the function that shows it)


def made(kind: str, name: str) -> None:
    """Hide a new thing for as long as the seed says."""
    if lasts := conditions.seconds("consistency", kind):
        with _lock:
            _fresh[kind, name] = now() + lasts


def is_fresh(kind: str, name: str) -> bool:
    """Return True while the thing is hidden, and count the fault."""
    with _lock:
        until = _fresh.get((kind, name))
        if until is None:
            return False
        if until <= now():
            del _fresh[kind, name]
            return False
    conditions.count("consistency")
    return True


def is_settling() -> bool:
    """Return True while something is hidden: a caller that is refused for it may try again."""
    with _lock:
        return any(until > now() for until in _fresh.values())


def later(kind: str, show: Callable[[], None]) -> None:
    """Show a change when the seed says that it becomes visible; at once if nothing is hidden."""
    lasts = conditions.seconds("consistency", kind)
    if not lasts:
        show()
        return
    with _lock:
        _late.append((now() + lasts, show))


def catch_up() -> None:
    """Show what is due, or everything once the fault is switched off."""
    if not _fresh and not _late:
        return
    is_on, moment = conditions.value("consistency"), now()
    with _lock:
        due = [show for when, show in _late if when <= moment or not is_on]
        _late[:] = [(when, show) for when, show in _late if when > moment and is_on]
        if not is_on:
            _fresh.clear()
    for show in due:
        with suppress(ApiError):  # what it belongs to is gone
            show()


def reset() -> None:
    with _lock:
        _fresh.clear()
        _late.clear()


def note(service: str, operation: str, parameters: Mapping[str, Any], body: bytes) -> None:
    """Hide what a call has made; `body` is its answer."""
    if conditions.value("consistency") and (made_by := _MADE.get((service, operation))):
        for kind, name in made_by(parameters, body):
            made(kind, name)


def check(service: str, operation: str, parameters: Mapping[str, Any]) -> None:
    """Raise AWS's refusal if the call names a thing that is too new."""
    if not _fresh:
        return
    words = _BY_ROLE.get((service, operation)) or _BY_ROLE.get((service, ANY))
    for name in _roles_named(parameters) if words else ():
        refuse_new_role(service, operation, name)
    for identifier in _ids_named(parameters) if service == "ec2" else ():
        prefix = identifier.rpartition("-")[0]
        if is_fresh(prefix, identifier):
            code, message = _BY_ID[prefix]
            raise ApiError(code, message.format(id=identifier))
    if (service, operation) == ("ssm", "GetParameter") and is_fresh("parameter", str(parameters.get("Name"))):
        raise ApiError(_NO_PARAMETER, f"Parameter {parameters['Name']} not found.")


def refuse_new_role(service: str, operation: str, name: str) -> None:
    """Raise the service's refusal of a role or an instance profile that IAM has not told it of."""
    if is_fresh("role", name) or is_fresh("profile", name):
        code, message = _BY_ROLE.get((service, operation)) or _BY_ROLE[service, ANY]
        raise ApiError(code, message.format(name=name), status=403 if code == "AccessDenied" else 400)


def _roles_named(parameters: Mapping[str, Any]) -> Iterator[str]:
    for key, text in texts(parameters):
        if key in _PROFILE_WORDS and ":" not in text:
            yield text
        yield from (found[2] for found in _ROLE_OR_PROFILE.finditer(text))
    profile = parameters.get("IamInstanceProfile")
    if isinstance(profile, Mapping) and profile.get("Name"):
        yield str(profile["Name"])


def _ids_named(parameters: Mapping[str, Any]) -> Iterator[str]:
    for _, text in texts(parameters):
        yield from (found[0] for found in _ID.finditer(text))


Made = Callable[[Mapping[str, Any], bytes], Iterator[tuple[str, str]]]


def _named(kind: str, member: str) -> Made:
    return lambda parameters, _body: iter([(kind, str(parameters[member]))])


def _answered(prefix: str) -> Made:
    """Take what EC2 made: it is the only thing of its kind in the answer."""
    pattern = re.compile(rf"\b{prefix}-[0-9a-f]{{8,17}}\b".encode())
    return lambda _parameters, body: ((prefix, found.decode()) for found in set(pattern.findall(body)))


def _first_version(parameters: Mapping[str, Any], body: bytes) -> Iterator[tuple[str, str]]:
    """Hide only a new parameter; an older one can still be found after an update."""
    if re.search(rb'"Version":\s*1\b', body):
        yield "parameter", str(parameters["Name"])


_MADE: Mapping[tuple[str, str], Made] = {
    ("iam", "CreateRole"): _named("role", "RoleName"),
    ("iam", "CreateInstanceProfile"): _named("profile", "InstanceProfileName"),
    ("iam", "AddRoleToInstanceProfile"): _named("profile", "InstanceProfileName"),
    ("ec2", "CopyImage"): _answered("ami"),
    ("ec2", "CreateImage"): _answered("ami"),
    ("ec2", "CreateLaunchTemplate"): _answered("lt"),
    ("ec2", "CreateRouteTable"): _answered("rtb"),
    ("ec2", "CreateSecurityGroup"): _answered("sg"),
    ("ec2", "CreateSubnet"): _answered("subnet"),
    ("ec2", "CreateVpc"): _answered("vpc"),
    ("ec2", "RegisterImage"): _answered("ami"),
    ("ec2", "RunInstances"): _answered("i"),
    ("ssm", "PutParameter"): _first_version,
}
