"""Refuses reserved names, numbers out of range, and policy statements that no service accepts.

To add a refusal: a row of RULES for a single value, or a function of REQUESTS for a combination.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.refusals import launches, there
from slipway.yard.services.refusals.principals import named, statements
from slipway.yard.services.refusals.table import Parameters, RefusalRule, matching, one_of, rows

_PUBLIC_TAGS = rows(
    ["TagSpecifications[].Tags[].Key", "Tags[].Key"],
    # The yard's CloudFormation sets aws:cloudformation: tags.
    matching(r"(?!(?i:aws:(?!cloudformation:))).*"),
    "InvalidParameterValue",
    "Tag keys starting with 'aws:' are reserved for internal use",
    "EC2 user guide, Tag restrictions; quoted by its users",
)
_PROTOCOL = rows(
    ["IpPermissions[].IpProtocol"],
    one_of(("-1", "tcp", "udp", "icmp", "icmpv6", "all", *map(str, range(256)))),
    "InvalidParameterValue",
    "Invalid value '{value}' for IP protocol. Unknown protocol.",
    "hashicorp/terraform-provider-aws issue 1793",
)
RULES: Mapping[str, tuple[RefusalRule, ...]] = {
    "cloudwatch:PutMetricAlarm": rows(
        ["AlarmActions[]", "OKActions[]", "InsufficientDataActions[]"],
        matching(r"arn:[a-z-]+:.+"),
        "ValidationError",
        "Invalid arn syntax: {value}",
        "CloudWatch API reference, PutMetricAlarm",
    ),
    "ec2:AuthorizeSecurityGroupEgress": _PROTOCOL,
    "ec2:AuthorizeSecurityGroupIngress": _PROTOCOL,
    "ec2:CreateLaunchTemplate": rows(
        ["LaunchTemplateName"],
        matching(r"[a-zA-Z0-9().\-/_]{3,128}"),
        "InvalidLaunchTemplateName.MalformedException",
        "A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and "
        "the following characters: - ( ) . / _.",
        "EC2 API error codes",
    ),
    "ec2:CreateSecurityGroup": rows(
        ["VpcId"],
        lambda value, region: value in moto_backend("ec2", region).vpcs,
        "InvalidVpcID.NotFound",
        "The vpc ID '{value}' does not exist",
        "EC2 API error codes",
    ),
    "ec2:CreateSubnet": rows(
        ["CidrBlock"],
        lambda value, _region: _bits(value) is None or 16 <= int(_bits(value) or 0) <= 28,
        "InvalidSubnet.Range",
        "The CIDR '{value}' is invalid.",
        "VPC user guide, Subnet CIDR blocks: between /28 and /16",
    ),
    "ec2:CreateTags": _PUBLIC_TAGS,
    "ec2:CreateVolume": (
        *_PUBLIC_TAGS,
        *rows(
            ["AvailabilityZone"],
            lambda value, region: str(value)[:-1] == region,
            "InvalidZone.NotFound",
            "The zone '{value}' does not exist.",
            "EC2 API error codes",
        ),
    ),
    "ec2:RunInstances": _PUBLIC_TAGS,
    "events:PutRule": rows(
        ["ScheduleExpression"],
        matching(r"(?!rate\(1 (minutes|hours|days)\)).*"),
        "ValidationException",
        "Parameter ScheduleExpression is not valid.",
        "EventBridge user guide, Rate expressions: a value of 1 takes a singular unit",
    ),
    "fsx:CreateFileSystem": rows(
        ["SubnetIds[]"],
        there.subnet,
        "InvalidNetworkSettings",
        "The subnet ID '{value}' does not exist",
        "FSx API reference, CreateFileSystem",
    ),
    "logs:CreateLogGroup": rows(
        ["logGroupName"],
        matching(r"(?!(?i:aws/)).*"),
        "InvalidParameterException",
        "Log groups starting with AWS/ are reserved for AWS.",
        "quoted by many users of aws/spans",
    ),
    "sns:Subscribe": rows(
        ["Protocol"],
        one_of(["http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose"]),
        "InvalidParameter",
        "Invalid parameter: Amazon SNS does not support this protocol string: {value}",
        "SNS API reference, Subscribe; quoted by its users",
    ),
    "ssm:PutParameter": rows(
        ["Name"],
        matching(r"[A-Za-z0-9_.\-/]+"),
        "ValidationException",
        'Parameter name: can\'t be prefixed with "ssm" (case-insensitive). If formed as a path, it can '
        "consist of sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, "
        "numbers and the following 3 symbols .-_",
        "Systems Manager user guide, Requirements for parameter names; quoted by its users",
    ),
}


def _bits(cidr: object) -> int | None:
    length = str(cidr).rpartition("/")[2]
    return int(length) if length.isdigit() else None


def _run(parameters: Parameters, region: str) -> None:
    """Check template id and address of a launch. Source: EC2 API error codes; many users quote the second."""
    named = parameters.get("LaunchTemplate") or {}
    identifier = named.get("LaunchTemplateId")
    if identifier and launches.template_data({"LaunchTemplateId": identifier}, region) is None:
        words = f"The specified launch template, with template ID {identifier}, does not exist."
        raise ApiError("InvalidLaunchTemplateId.NotFound", words)
    subnet = there.find_subnet(str(parameters.get("SubnetId") or ""), region)
    address = parameters.get("PrivateIpAddress")
    if subnet is not None and address and ipaddress.ip_address(address) not in subnet.cidr:
        words = f"Address {address} does not fall within the subnet's address range"
        raise ApiError("InvalidParameterValue", words)


def _ports(parameters: Parameters, _region: str) -> None:
    """Check port ranges. Source of the words: users of AuthorizeSecurityGroupIngress."""
    for permission in parameters.get("IpPermissions") or ():
        if str(permission.get("IpProtocol")) not in ("tcp", "udp", "6", "17"):
            continue
        first, last = permission.get("FromPort"), permission.get("ToPort")
        for port in (first, last):
            if port is not None and not -1 <= int(port) <= 65_535:
                raise ApiError("InvalidParameterValue", f"TCP/UDP port ({port}) out of range")
        if first is not None and last is not None and int(first) > int(last):
            raise ApiError("InvalidParameterValue", f"Invalid TCP/UDP port range ({first}:{last})")


def _trust(parameters: Parameters, _region: str) -> None:
    """Source of the words: IAM, quoted by many users."""
    text = parameters.get("AssumeRolePolicyDocument") or parameters.get("PolicyDocument")
    for statement in statements(text):
        if "Resource" in statement or "NotResource" in statement:
            raise _malformed("Has prohibited field Resource")
        if any(not re.match(r"(?i)(sts:|\*$)", action) for action in named(statement.get("Action"))):
            raise _malformed("AssumeRole policy may only specify STS AssumeRole actions.")


def _without_principal(parameters: Parameters, _region: str) -> None:
    """Source of the words: IAM, quoted by many users."""
    for statement in statements(parameters.get("PolicyDocument")):
        if "Principal" in statement or "NotPrincipal" in statement:
            raise _malformed("Policy document should not specify a principal.")


def _malformed(words: str) -> ApiError:
    return ApiError("MalformedPolicyDocument", words)


def _parameter(parameters: Parameters, region: str) -> None:
    """Check a parameter. Source: Systems Manager API reference, PutParameter; many users quote the words."""
    value, pattern = str(parameters.get("Value") or ""), parameters.get("AllowedPattern")
    if len(value.encode()) > 4_096 and parameters.get("Tier", "Standard") == "Standard":
        raise ApiError(
            "ValidationException",
            "Standard tier parameters support a maximum parameter value of 4096 characters. To create a "
            "larger parameter value, upgrade the parameter to use the advanced-parameter tier. For more "
            "information, see https://docs.aws.amazon.com/systems-manager/latest/userguide/"
            "parameter-store-advanced-parameters.html",
        )
    if pattern and not re.search(pattern, value):
        words = f"Parameter value, cannot be validated against allowedPattern: {pattern}"
        raise ApiError("ParameterPatternMismatchException", words)
    if str(parameters["Name"]).strip("/").count("/") > 14:
        words = "A hierarchy can have a maximum of 15 levels."
        raise ApiError("HierarchyLevelLimitExceededException", words)
    if parameters.get("KeyId") and not there.kms_key(str(parameters["KeyId"]), region):
        raise ApiError("InvalidKeyId", f"Alias or key {parameters['KeyId']} is not found.")


def _alarm(parameters: Parameters, _region: str) -> None:
    """Check an alarm's range: a day, or for periods from an hour a week. Source of the words: users."""
    period, count = int(parameters.get("Period") or 0), int(parameters.get("EvaluationPeriods") or 0)
    most, name, more = (
        (604_800, "week", " for alarms using period >= 3600") if period >= 3_600 else (86_400, "day", "")
    )
    if period * count > most:
        raise ApiError(
            "ValidationError",
            f"Metrics cannot be checked across more than a {name} "
            f"(EvaluationPeriods * Period must be <= {most}){more}",
        )


def _subscription(parameters: Parameters, _region: str) -> None:
    """Check an e-mail address. Source: users of SNS."""
    if parameters.get("Protocol") == "email" and "@" not in str(parameters.get("Endpoint") or ""):
        raise ApiError("InvalidParameter", "Invalid parameter: Email address")


REQUESTS: Mapping[str, Callable[[Parameters, str], None]] = {
    "cloudwatch:PutMetricAlarm": _alarm,
    "ec2:AuthorizeSecurityGroupEgress": _ports,
    "ec2:AuthorizeSecurityGroupIngress": _ports,
    "ec2:RunInstances": _run,
    "iam:CreatePolicy": _without_principal,
    "iam:CreateRole": _trust,
    "iam:PutRolePolicy": _without_principal,
    "iam:UpdateAssumeRolePolicy": _trust,
    "sns:Subscribe": _subscription,
    "ssm:PutParameter": _parameter,
}
