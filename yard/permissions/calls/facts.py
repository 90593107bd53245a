"""AWS's actions and the types of resources that each takes: the Service Authorization Reference.

cfn-lint carries it and keeps it up to date, for its checks of policies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

# botocore's name -> the prefix of its actions, where they differ.
PREFIXES: Mapping[str, str] = {
    "apigatewayv2": "apigateway",
    "cloudcontrol": "cloudformation",
    "efs": "elasticfilesystem",
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "emr": "elasticmapreduce",
    "opensearch": "es",
    "resourcegroupstaggingapi": "tag",
    "s3control": "s3",
    "sagemaker-metrics": "sagemaker",
    "sagemaker-runtime": "sagemaker",
    "service-quotas": "servicequotas",
    "sesv2": "ses",
    "sso-admin": "sso",
    "stepfunctions": "states",
}
_OF_ACCOUNT = "arn:${{Partition}}:{}:${{Region}}:${{Account}}:"
# Types that the reference lists and that no call of today's SDKs names.
_IGNORED_TYPES = frozenset({"dataset"})
# Refusals name a resource here, though the reference lists none.
_LEFT_OUT: Mapping[str, tuple[str, ...]] = {"logs:describeloggroups": ("log-group",)}


def prefix(service: str) -> str:
    return PREFIXES.get(service, service)


def resource_types(action: str) -> tuple[str, ...] | None:
    """Return the types that the action takes, () if it takes none, None if there is no such action."""
    service, _, name = action.lower().partition(":")
    known = _reference().get(service, {}).get("Actions", {}).get(name)
    if known is None:
        return None
    types = known.get("Resources") or _LEFT_OUT.get(action.lower(), ())
    return tuple(kind.lower() for kind in types if kind.lower() not in _IGNORED_TYPES)


def arn_start(service: str, kind: str) -> str:
    """Return what stands between the account and the name in a type's ARN; "" where that is not all."""
    known = {name.lower(): fact for name, fact in _reference().get(service, {}).get("Resources", {}).items()}
    formats = known.get(kind, {}).get("ARNFormats", ())
    if len(formats) != 1 or not formats[0].startswith(_OF_ACCOUNT.format(service)):
        return ""
    start, name, rest = formats[0].removeprefix(_OF_ACCOUNT.format(service)).partition(".*")
    return "" if rest or not name else start


@lru_cache(maxsize=1)
def _reference() -> Mapping[str, Any]:
    path = files("cfnlint") / "data" / "AdditionalSpecs" / "Policies.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
