"""Finds unknown principals in a policy: IAM looks each up when the policy is written.

Source: IAM user guide, "AWS JSON policy elements: Principal". For a service whose principal differs from its
API's name: a word of _OTHER_WORDS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend

_OTHER_WORDS = """
    appfabric apprunner backup-storage bedrock-agentcore chatbot cloudwatch cloudwatch-crossaccount codestar
    codestar-connections codestar-notifications compute-optimizer config config-conforms
    config-multiaccountsetup cost-optimization-hub dax delivery dlm ec2fleet ecs-tasks edgelambda eks-fargate
    eks-fargate-pods eks-nodegroup elasticbeanstalk elasticmapreduce fis guardduty health inspector lambda
    launchwizard lex lexv2 member migrationhub monitoring pods quicksight resource-explorer-2 scheduler
    servicequotas sms-voice spot spotfleet ssm-incidents ssm-quicksetup sso support transitgateway
    trustedadvisor vpc-flow-logs vpce wellarchitected
"""
_SERVICE = re.compile(r"(?P<labels>[a-z0-9.-]+)\.(amazonaws\.com(\.cn)?|amazon\.com|aws\.internal|api\.aws)")
_ENTITY = re.compile(rf"arn:aws:iam::{ACCOUNT}:(?P<kind>role|user)/(?P<name>.+)")


def unknown(document: str) -> tuple[str, str] | None:
    """Return the first principal that does not exist, with its type; None if all exist."""
    for kind, text in _principals(document):
        if kind == "Service" and not _is_service(text):
            return "SERVICE", text
        if kind == "AWS" and not _is_entity(text):
            return "AWS", text
    return None


def _principals(document: str) -> Iterator[tuple[str, str]]:
    try:
        statements: Any = json.loads(document).get("Statement") or []
    except (ValueError, AttributeError):
        return  # another check refuses the policy
    listed: list[Any] = statements if isinstance(statements, list) else [statements]
    for statement in listed:
        named: Any = statement.get("Principal") if isinstance(statement, Mapping) else None
        if isinstance(named, Mapping):
            for kind, found in named.items():
                yield from ((kind, str(text)) for text in (found if isinstance(found, list) else [found]))


def _is_service(text: str) -> bool:
    match = _SERVICE.fullmatch(text)
    return match is not None and any(label in _services() for label in match["labels"].split("."))


@lru_cache(maxsize=1)
def _services() -> frozenset[str]:
    """Return botocore's names of AWS's services, with their endpoint prefixes and signing names."""
    from botocore.session import get_session

    session, found = get_session(), set(_OTHER_WORDS.split())
    for name in session.get_available_services():
        found |= {name, name.replace("-", "")}
    for partition in session.get_data("endpoints")["partitions"]:
        found |= {label for name in partition["services"] for label in name.split(".")}
    return frozenset(found)


def _is_entity(text: str) -> bool:
    """Return True if the ARN may exist: other accounts and service-linked roles are not checked."""
    match = _ENTITY.fullmatch(text)
    if not match:
        return text == "*" or text.isdigit() or text.startswith(("arn:", "AROA", "AIDA"))
    if match["name"].startswith("aws-service-role/") or "*" in match["name"]:
        return True
    known = moto_backend("iam").roles if match["kind"] == "role" else moto_backend("iam").users
    return any(each.arn == text for each in known.values())


def statements(text: object) -> Iterator[Mapping[str, Any]]:
    try:
        found = json.loads(text if isinstance(text, bytes) else str(text)).get("Statement", ())
    except (ValueError, AttributeError):
        return
    yield from (each for each in ([found] if isinstance(found, dict) else found) if isinstance(each, dict))


def named(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value] if isinstance(value, list) else []
