"""What CloudFormation asks other services while it works: parameters, secrets, zones and stored templates."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from slipway.yard.errors import ApiError

# Of AWS's own parameters the yard has one version, which stands for each that a template may ask for.
PUBLIC = "/aws/service/"
DYNAMIC = re.compile(r"\{\{resolve:(ssm|ssm-secure|secretsmanager):([^}]*)\}\}")


class Lookups(Protocol):
    """One region's answers; a test gives its own."""

    def parameter(self, name: str) -> str:
        """A parameter of SSM, `name:version` for an older one; KeyError when there is none."""
        ...

    def secret(self, name: str, stage: str, version: str) -> str:
        """A secret's string; KeyError when there is none."""
        ...

    def availability_zones(self, region: str) -> tuple[str, ...]: ...

    def stored_object(self, bucket: str, key: str, version: str | None) -> bytes:
        """An object of S3; KeyError when there is none."""
        ...

    def stack_output(self, stack: str, output: str, region: str | None) -> str:
        """An output of a deployed stack; KeyError when there is none."""
        ...


class YardLookups:
    """The answers of the running yard."""

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
        return {each["OutputKey"]: str(each["OutputValue"]) for each in outputs}[output]


def resolve_dynamic(text: str, lookups: Lookups) -> str:
    """The text with each {{resolve:…}} replaced by what it names."""
    return DYNAMIC.sub(lambda found: _resolved(found[1], found[2], lookups), text)


def _resolved(service: str, name: str, lookups: Lookups) -> str:
    try:
        return _secret(name, lookups) if service == "secretsmanager" else lookups.parameter(name)
    except KeyError as error:
        raise ApiError(
            "ValidationError",
            f"Could not find a value for the dynamic reference {{{{resolve:{service}:{name}}}}}: create it"
            " before the stack",
        ) from error


def _secret(name: str, lookups: Lookups) -> str:
    """`secret-id:SecretString:json-key:version-stage:version-id`; an ARN holds six colons of its own."""
    parts = name.split(":")
    width = 7 if name.startswith("arn:") else 1
    identifier, rest = ":".join(parts[:width]), [*parts[width:], "", "", "", ""]
    value = lookups.secret(identifier, rest[2], rest[3])
    return str(json.loads(value)[rest[1]]) if rest[1] else value
