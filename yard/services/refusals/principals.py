"""Finds unknown principals in a policy: IAM looks each up when the policy is written.

Source: IAM user guide, "AWS JSON policy elements: Principal". For a service whose principal differs from its
API's name: a word of _OTHER_WORDS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
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


def unknown(stated: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the first principal that does not exist, with its type; None if all exist."""
    for kind, text in _principals(stated):
        if kind == "Service" and not _is_service(text):
            return "SERVICE", text
        if kind == "AWS" and not _is_entity(text):
            return "AWS", text
    return None


def _principals(stated: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for statement in stated:
        found: Any = statement.get("Principal")
        if isinstance(found, Mapping):
            for kind, names in found.items():
                yield from ((kind, str(text)) for text in (names if isinstance(names, list) else [names]))


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


def statements(
    text: object, code: str = "MalformedPolicyDocument", words: str = "Syntax errors in policy."
) -> list[Mapping[str, Any]]:
    """Return a policy's statements; raise ApiError unless it has one object or several."""
    try:
        document = json.loads(text if isinstance(text, bytes) else str(text))
    except ValueError:
        raise ApiError(code, words) from None
    stated = document.get("Statement") if isinstance(document, dict) else None
    listed: list[Any] = stated if isinstance(stated, list) else [stated]
    if not listed or not all(isinstance(each, dict) for each in listed):
        raise ApiError(code, words)
    return listed


def named(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value] if isinstance(value, list) else []
