"""Checks a template's parameters against their declarations, and resolves them through SSM.

To add a constraint: one entry in CONSTRAINTS. Lookups of other services and dynamic references are here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import regex

from slipway.yard.cloudformation.template.template import Template
from slipway.yard.errors import as_text, validation_error

HIDDEN = "****"
SSM_VALUE = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")
LIST = re.compile(r"List<(.+)>")
# The patterns of AWS-specific types: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/
# cloudformation-supplied-parameter-types.html
FORMS = {
    "AWS::EC2::Image::Id": r"ami-[0-9a-f]+",
    "AWS::EC2::Instance::Id": r"i-[0-9a-f]+",
    "AWS::EC2::SecurityGroup::Id": r"sg-[0-9a-f]+",
    "AWS::EC2::Subnet::Id": r"subnet-[0-9a-f]+",
    "AWS::EC2::Volume::Id": r"vol-[0-9a-f]+",
    "AWS::EC2::VPC::Id": r"vpc-[0-9a-f]+",
    "AWS::EC2::AvailabilityZone::Name": r"[a-z]+(-[a-z]+)+-\d[a-z]",
    "AWS::EC2::KeyPair::KeyName": r".+",
    "AWS::EC2::SecurityGroup::GroupName": r".+",
    "AWS::Route53::HostedZone::Id": r"[A-Z0-9]+",
    "AWS::SSM::Parameter::Name": r"[\w./-]+",
    "Number": r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?",
    "String": r"[\s\S]*",
}
PUBLIC_PARAMETERS = (
    "`slipway yard status` lists AWS's public parameters that the yard has: give an AMI's id, or put the"
    " parameter yourself under another name"
)
FORMS |= {"CommaDelimitedList": FORMS["String"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a stack: as given, and as `Ref` returns it."""

    key: str
    given: str
    value: str | list[str]
    is_hidden: bool = False
    is_resolved: bool = False  # read from SSM

    def describe(self) -> dict[str, Any]:
        shown = {"ParameterKey": self.key, "ParameterValue": HIDDEN if self.is_hidden else self.given}
        if self.is_resolved:
            text = self.value if isinstance(self.value, str) else ",".join(self.value)
            shown["ResolvedValue"] = HIDDEN if self.is_hidden else text
        return shown


def resolve(
    template: Template, given: Mapping[str, str | None], previous: Mapping[str, Parameter], lookups: Lookups
) -> dict[str, Parameter]:
    """Return the parameters by name; raise ValidationError for unknown, missing or refused values.

    `given` is None for a value that stays as it was.
    """
    declared = template.section("Parameters")
    if unknown := sorted(set(given) - set(declared)):
        _refuse(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values: dict[str, str | None] = {}
    for key, declaration in declared.items():
        default = declaration.get("Default")
        if (value := given.get(key)) is not None:
            values[key] = value
        elif key not in given:
            values[key] = None if default is None else str(as_text(default))
        elif key in previous:
            values[key] = previous[key].given
        else:
            _refuse(
                f"Invalid input for parameter key {key}. Cannot specify usePreviousValue as true for a"
                " parameter key not in the previous template"
            )
    missing = [key for key, value in values.items() if value is None]
    if missing:
        _refuse(f"Parameters: [{', '.join(missing)}] must have values")
    return {
        key: _parameter(key, str(value), declared[key], lookups)
        for key, value in values.items()
        if value is not None
    }


def _parameter(key: str, given: str, declaration: Mapping[str, Any], lookups: Lookups) -> Parameter:
    kind = str(declaration.get("Type", "String"))
    for constraint, check in CONSTRAINTS.items():
        if constraint in declaration and not all(
            check(item, declaration[constraint]) for item in _items(kind, given)
        ):
            description = declaration.get("ConstraintDescription")
            reason = description or f"Parameter '{key}' {WORDS[constraint].format(declaration[constraint])}"
            _refuse(f"Parameter {key} failed to satisfy constraint: {reason}" if description else reason)
    stored = SSM_VALUE.fullmatch(kind)
    text = _stored(given, lookups) if stored else given
    inner = stored[1] if stored else kind
    listed = LIST.fullmatch(inner)
    items = _items(inner, text)
    form = FORMS.get(listed[1] if listed else inner)
    if form is None:
        _refuse(f"Template format error: Unrecognized parameter type: {kind}")
    for item in items:
        if not re.fullmatch(form, item):
            _refuse(
                f"Parameter validation failed: parameter value {item} for parameter name {key} is no {inner}"
            )
    return Parameter(
        key=key,
        given=given,
        value=items if _is_list(inner) else text,
        is_hidden=str(as_text(declaration.get("NoEcho", "false"))) == "true",
        is_resolved=stored is not None,
    )


def _is_list(kind: str) -> bool:
    return kind == "CommaDelimitedList" or LIST.fullmatch(kind) is not None


def _items(kind: str, text: str) -> list[str]:
    if not _is_list(kind):
        return [text]
    return [item.strip() for item in text.split(",")] if text else []


def _stored(name: str, lookups: Lookups) -> str:
    try:
        return lookups.parameter(name)
    except KeyError:
        hint = f"; {PUBLIC_PARAMETERS}" if name.startswith("/aws/") else ""
        _refuse(f"Unable to fetch parameters [{name}] from parameter store for this account.{hint}")


def _refuse(message: str) -> NoReturn:
    raise validation_error(message)


CONSTRAINTS: dict[str, Callable[[str, Any], bool]] = {
    "AllowedValues": lambda value, allowed: value in [str(as_text(item)) for item in allowed],
    # The regex module accepts Java's character classes, such as [\w-+]; Python's re does not.
    "AllowedPattern": lambda value, pattern: regex.fullmatch(pattern, value) is not None,
    "MinLength": lambda value, limit: len(value) >= int(limit),
    "MaxLength": lambda value, limit: len(value) <= int(limit),
    "MinValue": lambda value, limit: _number(value) >= float(limit),
    "MaxValue": lambda value, limit: _number(value) <= float(limit),
}
WORDS = {
    "AllowedValues": "must be one of AllowedValues {}",
    "AllowedPattern": "must match pattern {}",
    "MinLength": "must contain at least {} characters",
    "MaxLength": "must contain at most {} characters",
    "MinValue": "must be a number not less than {}",
    "MaxValue": "must be a number not greater than {}",
}


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")  # fails every comparison, so it is refused


# Lookups: what CloudFormation asks other services: parameters, secrets, zones, stored templates and outputs.
# AWS's public parameters have one version in the yard; it answers for any version that a template names.
PUBLIC = "/aws/service/"
DYNAMIC = re.compile(r"\{\{resolve:(ssm|ssm-secure|secretsmanager):([^}]*)\}\}")


class Lookups(Protocol):
    """Looks up values in one region; tests have their own implementation."""

    def parameter(self, name: str) -> str:
        """Return a parameter of SSM, `name:version` for an older one; raise KeyError if there is none."""
        ...

    def secret(self, name: str, stage: str, version: str) -> str:
        """Return a secret's string; raise KeyError if there is none."""
        ...

    def availability_zones(self, region: str) -> tuple[str, ...]: ...

    def stored_object(self, bucket: str, key: str, version: str | None) -> bytes:
        """Return an object of S3; raise KeyError if there is none."""
        ...

    def stack_output(self, stack: str, output: str, region: str | None) -> str:
        """Return an output of a deployed stack; raise KeyError if there is none."""
        ...


class YardLookups:
    """Looks up values in the running yard."""

    def __init__(self, region: str) -> None:
        self.region = region

    def _client(self, service: str, region: str | None = None) -> Any:
        from slipway.yard.endpoint import own_client

        return own_client(service, region or self.region)

    def parameter(self, name: str) -> str:
        client = self._client("ssm")
        if name.startswith(PUBLIC):
            name = name.partition(":")[0]
        try:
            return str(client.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])
        except client.exceptions.ClientError as error:
            raise KeyError(name) from error

    def secret(self, name: str, stage: str, version: str) -> str:
        client = self._client("secretsmanager")
        chosen = {"VersionStage": stage, "VersionId": version}
        try:
            asked = {key: value for key, value in chosen.items() if value}
            return str(client.get_secret_value(SecretId=name, **asked)["SecretString"])
        except client.exceptions.ClientError as error:
            raise KeyError(name) from error

    def availability_zones(self, region: str) -> tuple[str, ...]:
        zones = self._client("ec2", region).describe_availability_zones()["AvailabilityZones"]
        return tuple(sorted(zone["ZoneName"] for zone in zones))

    def stored_object(self, bucket: str, key: str, version: str | None) -> bytes:
        client = self._client("s3")
        chosen = {"VersionId": version} if version else {}
        try:
            return bytes(client.get_object(Bucket=bucket, Key=key, **chosen)["Body"].read())
        except client.exceptions.ClientError as error:
            raise KeyError(f"{bucket}/{key}") from error

    def stack_output(self, stack: str, output: str, region: str | None) -> str:
        client = self._client("cloudformation", region)
        try:
            outputs = client.describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
        except client.exceptions.ClientError as error:
            raise KeyError(stack) from error
        return {found["OutputKey"]: str(found["OutputValue"]) for found in outputs}[output]


def resolve_dynamic(text: str, lookups: Lookups) -> str:
    """Return the text with each {{resolve:…}} replaced by its value."""
    return DYNAMIC.sub(lambda found: _resolved(found[1], found[2], lookups), text)


def _resolved(service: str, name: str, lookups: Lookups) -> str:
    try:
        return _secret(name, lookups) if service == "secretsmanager" else lookups.parameter(name)
    except KeyError as error:
        raise validation_error(
            f"Could not find a value for the dynamic reference {{{{resolve:{service}:{name}}}}}: create it"
            " before the stack"
        ) from error


def _secret(name: str, lookups: Lookups) -> str:
    """Resolve `secret-id:SecretString:json-key:version-stage:version-id`; an ARN as id has six colons."""
    parts = name.split(":")
    width = 7 if name.startswith("arn:") else 1
    identifier, rest = ":".join(parts[:width]), [*parts[width:], "", "", "", ""]
    value = lookups.secret(identifier, rest[2], rest[3])
    return str(json.loads(value)[rest[1]]) if rest[1] else value
