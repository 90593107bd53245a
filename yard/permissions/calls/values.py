"""Condition keys that stand in a call's parameters: tags that it gives, and a service's own keys.

A service's own key is a row of _OWN: the parameters that fill it.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.permissions.calls.asked import AskedCall, found
from slipway.yard.permissions.calls.ec2 import request_tag_keys

_OWN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("cloudformation", "cloudformation:changesetname"): ("ChangeSetName",),
    ("cloudformation", "cloudformation:rolearn"): ("RoleARN",),
    ("cloudformation", "cloudformation:templateurl"): ("TemplateURL",),
    ("cloudwatch", "cloudwatch:namespace"): ("Namespace",),
    ("ecs", "ecs:cluster"): ("cluster",),
    ("secretsmanager", "secretsmanager:versionstage"): ("VersionStage",),
    ("sns", "sns:protocol"): ("Protocol",),
    ("sts", "sts:externalid"): ("ExternalId",),
    ("sts", "sts:rolesessionname"): ("RoleSessionName",),
}


def value_keys(call: AskedCall, prefix: str) -> dict[str, tuple[str, ...]]:
    own = {
        key: values
        for (service, key), paths in _OWN.items()
        if service == prefix and (values := tuple(v for path in paths for v in found(call.parameters, path)))
    }
    return {**own, **request_tag_keys(_tags(call.parameters))}


def _tags(parameters: Mapping[str, object]) -> dict[str, str]:
    """Tags are a map or a list of pairs, in either case of letters."""
    stated = next((parameters[name] for name in ("Tags", "tags", "TagList") if name in parameters), None)
    if isinstance(stated, Mapping):
        return {str(name): str(value) for name, value in stated.items()}
    pairs = [item for item in stated if isinstance(item, Mapping)] if isinstance(stated, list) else []
    named = [{str(key).lower(): value for key, value in pair.items()} for pair in pairs]
    return {str(pair["key"]): str(pair.get("value", "")) for pair in named if "key" in pair}
