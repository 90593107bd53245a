"""Finds the resources that a call to EC2 touches: every id that it names, and those that it makes.

Sources: Service Authorization Reference, "Amazon EC2"; EC2 user guide, "Grant permission to tag resources
during creation".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipway.yard.errors import texts
from slipway.yard.permissions.calls.arns import resource_types
from slipway.yard.permissions.calls.asked import ANY_RESOURCE, ActionNeed, AskedCall, arn, found

# The beginning of an id -> its type in ARNs.
TYPE_OF_ID: Mapping[str, str] = {
    "acl": "network-acl",
    "cgw": "customer-gateway",
    "dopt": "dhcp-options",
    "eigw": "egress-only-internet-gateway",
    "fl": "vpc-flow-log",
    "pcx": "vpc-peering-connection",
    "pl": "prefix-list",
    "sgr": "security-group-rule",
    "tgw": "transit-gateway",
    "tgw-attach": "transit-gateway-attachment",
    "tgw-rtb": "transit-gateway-route-table",
    "vgw": "vpn-gateway",
    "vpn": "vpn-connection",
    "ami": "image",
    "cr": "capacity-reservation",
    "eipalloc": "elastic-ip",
    "eni": "network-interface",
    "i": "instance",
    "igw": "internet-gateway",
    "key": "key-pair",
    "lt": "launch-template",
    "nat": "natgateway",
    "pg": "placement-group",
    "rtb": "route-table",
    "sg": "security-group",
    "snap": "snapshot",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
    "vpce": "vpc-endpoint",
}
# Types of the resources that an action makes; their ids are not known yet.
MADE: Mapping[str, tuple[str, ...]] = {
    "CopyImage": ("image", "snapshot"),
    "CreateFleet": ("fleet", "instance", "volume", "network-interface"),
    "CreateImage": ("image", "snapshot"),
    "CreateLaunchTemplate": ("launch-template",),
    "CreateNetworkInterface": ("network-interface",),
    "CreatePlacementGroup": ("placement-group",),
    "CreateSecurityGroup": ("security-group",),
    "CreateSnapshot": ("snapshot",),
    "CreateSubnet": ("subnet",),
    "CreateVolume": ("volume",),
    "CreateVpc": ("vpc",),
    "CreateVpcEndpoint": ("vpc-endpoint",),
    "RegisterImage": ("image",),
    "RunInstances": ("instance", "volume", "network-interface"),
}
_OWNED_BY_NOBODY = frozenset({"image", "snapshot"})  # their ARNs have no account


def needs(call: AskedCall) -> Iterator[ActionNeed]:
    """Yield one need for each resource; tags at creation need ec2:CreateTags as well."""
    action = f"ec2:{call.operation}"
    types = resource_types(action) or ()
    named = dict.fromkeys(
        _arn(call, kind, value)
        for _, value in texts(call.parameters)
        if (kind := TYPE_OF_ID.get(value.rpartition("-")[0], "")) in types
    )
    made = {_arn(call, kind, "*"): _tag_keys(call, kind) for kind in MADE.get(call.operation, ())}
    for resource in named:
        yield ActionNeed(action=action, resource=resource)
    for resource, keys in made.items():
        yield ActionNeed(action=action, resource=resource, keys=keys)
        if keys:
            created = {**keys, "ec2:createaction": (call.operation,)}
            yield ActionNeed(action="ec2:CreateTags", resource=resource, keys=created)
    if not named and not made:
        yield ActionNeed(action=action, resource=ANY_RESOURCE)


def _arn(call: AskedCall, kind: str, id_: str) -> str:
    owned = {"account": ""} if kind in _OWNED_BY_NOBODY else {}
    return arn("ec2", call.region, f"{kind}/{id_}", **owned)


def _tag_keys(call: AskedCall, kind: str) -> dict[str, tuple[str, ...]]:
    stated = call.parameters.get("TagSpecifications")
    tags = {
        str(tag["Key"]): str(tag.get("Value", ""))
        for item in (stated if isinstance(stated, list) else ())
        if item.get("ResourceType") == kind
        for tag in item.get("Tags") or ()
    }
    return request_tag_keys(tags)


def request_tag_keys(tags: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    by_name = {f"aws:requesttag/{name.lower()}": (value,) for name, value in tags.items()}
    return {**by_name, "aws:tagkeys": tuple(tags)} if tags else {}


# Condition keys from a call's parameters: its tags, and a service's own keys.
# To add a service's own key: a row of _OWN, with the parameters that fill it.
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
    service_keys = {
        key: values
        for (service, key), paths in _OWN.items()
        if service == prefix and (values := tuple(v for path in paths for v in found(call.parameters, path)))
    }
    return {**service_keys, **request_tag_keys(_tags(call.parameters))}


def _tags(parameters: Mapping[str, object]) -> dict[str, str]:
    """Return the call's tags, which may be a map or a list of pairs, in upper or lower case."""
    stated = next((parameters[name] for name in ("Tags", "tags", "TagList") if name in parameters), None)
    if isinstance(stated, Mapping):
        return {str(name): str(value) for name, value in stated.items()}
    pairs = [item for item in stated if isinstance(item, Mapping)] if isinstance(stated, list) else []
    named = [{str(key).lower(): value for key, value in pair.items()} for pair in pairs]
    return {str(pair["key"]): str(pair.get("value", "")) for pair in named if "key" in pair}
