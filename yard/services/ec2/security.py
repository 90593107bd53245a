"""Resource types of security groups and their rules; a changed rule does not replace the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    ec2_tags,
    find,
    setting,
    shaped,
    tag_specifications,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Action,
    Expression,
    ResourceScope,
    has_code,
    live,
    prop,
    response,
    tolerating,
)
from slipway.yard.cloudformation.resources.shapes import like
from slipway.yard.errors import ApiError

Rule = Mapping[str, Any]

# EC2 gives every new group in a VPC this rule; a template's own egress rules replace it.
ALLOW_ALL = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}
ALREADY = ("InvalidPermission.Duplicate", "InvalidPermission.NotFound")

# Tags a rule that is a resource of its own, so that the group's drift ignores it.
OWNER = "aws:cloudformation:logical-id"

# The peer of a rule: property in the template -> place in EC2's IpPermissions.
PEERS = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "SourceSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    "DestinationSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    "SourcePrefixListId": ("PrefixListIds", "PrefixListId"),
    "DestinationPrefixListId": ("PrefixListIds", "PrefixListId"),
}

# Property of a rule in the template -> member of ModifySecurityGroupRules.
RULE_WORDS = {
    "IpProtocol": "IpProtocol",
    "FromPort": "FromPort",
    "ToPort": "ToPort",
    "CidrIp": "CidrIpv4",
    "CidrIpv6": "CidrIpv6",
    "SourceSecurityGroupId": "ReferencedGroupId",
    "DestinationSecurityGroupId": "ReferencedGroupId",
    "SourcePrefixListId": "PrefixListId",
    "DestinationPrefixListId": "PrefixListId",
}


def permission(rule: Rule) -> dict[str, Any]:
    """Return a template's rule in the form of EC2's request."""
    wanted: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"])}
    if wanted["IpProtocol"] != "-1":
        wanted |= {name: int(rule[name]) for name in ("FromPort", "ToPort") if name in rule}
    name = next((name for name in PEERS if rule.get(name)), None)
    if name is None:
        raise ApiError(
            "ValidationError", f"a rule of a security group needs one of {', '.join(PEERS)}: {dict(rule)}"
        )
    listed, member = PEERS[name]
    peer = {member: rule[name]}
    if rule.get("Description"):
        peer["Description"] = rule["Description"]
    if listed == "UserIdGroupPairs" and rule.get("SourceSecurityGroupOwnerId"):
        peer["UserId"] = str(rule["SourceSecurityGroupOwnerId"])
    return {**wanted, listed: [peer]}


def rules(direction: str) -> Action:
    """Return the action that replaces the template's previous rules by the new ones, and keeps all others."""
    name = f"SecurityGroup{direction.capitalize()}"

    def put(scope: ResourceScope) -> None:
        default = [ALLOW_ALL] if direction == "egress" else []
        creating = not scope.before
        before = default if creating else scope.before.get(name) or default
        now = scope.properties.get(name) or default
        for rule in before:
            if rule not in now:
                _change(scope, f"revoke_security_group_{direction}", rule)
        for rule in now:
            if creating and rule == ALLOW_ALL and direction == "egress":
                continue
            if creating or rule not in before:
                _change(scope, f"authorize_security_group_{direction}", rule)

    return put


def read_rules(direction: str) -> Expression:
    """Return the expression for the group's rules in template form, without those of other resources."""
    name = f"SecurityGroup{direction.capitalize()}"

    def read(scope: ResourceScope) -> list[dict[str, Any]]:
        filters = [{"Name": "group-id", "Values": [scope.id]}]
        found = scope.send("describe_security_group_rules", Filters=filters)["SecurityGroupRules"]
        of_group = [
            rule for rule in found if rule["IsEgress"] == (direction == "egress") and not _tagged(rule)
        ]
        given = scope.properties[name]
        return list(like(given, [_described(as_template(rule, direction), given) for rule in of_group]))

    return read


def as_template(rule: Rule, direction: str) -> dict[str, Any]:
    """Return one of EC2's rules in template form."""
    side = "Source" if direction == "ingress" else "Destination"
    words = {
        "IpProtocol": rule["IpProtocol"],
        "FromPort": rule.get("FromPort"),
        "ToPort": rule.get("ToPort"),
        "CidrIp": rule.get("CidrIpv4"),
        "CidrIpv6": rule.get("CidrIpv6"),
        f"{side}SecurityGroupId": rule.get("ReferencedGroupInfo", {}).get("GroupId"),
        f"{side}PrefixListId": rule.get("PrefixListId"),
        "Description": rule.get("Description"),
    }
    return {name: value for name, value in words.items() if value not in (None, "")}


def delete_group(scope: ResourceScope) -> None:
    """Delete the group; refuse one that an interface still uses, as EC2 does and moto does not."""
    filters = [{"Name": "group-id", "Values": [scope.id]}]
    if used := scope.send("describe_network_interfaces", Filters=filters)["NetworkInterfaces"]:
        interfaces = ", ".join(item["NetworkInterfaceId"] for item in used)
        raise ApiError("DependencyViolation", f"resource {scope.id} has a dependent object: {interfaces}")
    scope.send("delete_security_group", GroupId=scope.id)


def add_rule(direction: str) -> Action:
    def create(scope: ResourceScope) -> dict[str, Any]:
        wanted = [permission(scope.properties)]
        operation = f"authorize_security_group_{direction}"
        mark = {"Key": OWNER, "Value": scope.context.logical_id}
        marked = [{"ResourceType": "security-group-rule", "Tags": [mark]}]
        group = scope.properties["GroupId"]
        try:
            return scope.send(operation, GroupId=group, IpPermissions=wanted, TagSpecifications=marked)
        except ApiError as error:
            adopted = _default_rule(scope, direction) if error.code == "InvalidPermission.Duplicate" else None
            if not adopted:
                raise
            return adopted

    return create


def describe_again(scope: ResourceScope) -> None:
    """Change only the description of the rule."""
    given = scope.properties
    rule = {word: given[name] for name, word in RULE_WORDS.items() if name in given}
    # A rule for every protocol has no ports; EC2 writes -1 for both.
    rule = {"FromPort": -1, "ToPort": -1, **rule, "Description": given.get("Description", "")}
    changed = [{"SecurityGroupRuleId": scope.id, "SecurityGroupRule": rule}]
    scope.send("modify_security_group_rules", GroupId=given["GroupId"], SecurityGroupRules=changed)


def rule_resource(direction: str, properties: str) -> ApiResource:
    def description(scope: ResourceScope) -> Any:
        return _described(as_template(scope.live, direction), [scope.properties]).get("Description")

    revoke = f"revoke_security_group_{direction}"
    return ApiResource(
        service="ec2",
        create_call=add_rule(direction),
        identity=response("SecurityGroupRules.0.SecurityGroupRuleId"),
        describe=find("describe_security_group_rules", "SecurityGroupRules.0", SecurityGroupRuleIds=[ID]),
        attributes={"Id": ID},
        settings=(changeable("Description", put=describe_again),),
        delete_call=call(revoke, GroupId=prop("GroupId"), SecurityGroupRuleIds=[ID]),
        reads={"Description": description},
        accepts=f"CidrIp CidrIpv6 Description FromPort GroupId IpProtocol ToPort {properties}",
    )


PROVIDERS: Mapping[str, Provider] = {
    "AWS::EC2::SecurityGroup": ApiResource(
        service="ec2",
        name=Name(property="GroupName", limit=255),
        create_call=shaped(
            "create_security_group",
            renames={"GroupDescription": "Description"},
            TagSpecifications=tag_specifications("security-group"),
        ),
        identity=response("GroupId"),
        describe=find("describe_security_groups", "SecurityGroups.0", GroupIds=[ID]),
        attributes={"Id": ID, "GroupId": ID, "VpcId": live("VpcId")},
        settings=(
            setting("SecurityGroupIngress", put=rules("ingress")),
            setting("SecurityGroupEgress", put=rules("egress")),
            ec2_tags(),
        ),
        delete_call=delete_group,
        reads={
            "SecurityGroupIngress": read_rules("ingress"),
            "SecurityGroupEgress": read_rules("egress"),
        },
    ),
    "AWS::EC2::SecurityGroupIngress": rule_resource(
        "ingress", "SourceSecurityGroupId SourceSecurityGroupOwnerId SourcePrefixListId"
    ),
    "AWS::EC2::SecurityGroupEgress": rule_resource(
        "egress", "DestinationSecurityGroupId DestinationPrefixListId"
    ),
}


def _default_rule(scope: ResourceScope, direction: str) -> dict[str, Any] | None:
    """Return EC2's default rule of the group if the template's rule is the same: the resource adopts it.

    AWS's own PCS templates have such rules; that CloudFormation accepts them was not tried on AWS.
    """
    said = {name: str(scope.properties.get(name)) for name in ALLOW_ALL}
    if direction != "egress" or said != ALLOW_ALL:
        return None
    filters = [{"Name": "group-id", "Values": [scope.properties["GroupId"]]}]
    found = scope.send("describe_security_group_rules", Filters=filters)["SecurityGroupRules"]
    default_rules = [
        rule
        for rule in found
        if rule["IsEgress"]
        and not _tagged(rule)
        and rule["IpProtocol"] == ALLOW_ALL["IpProtocol"]
        and rule.get("CidrIpv4") == ALLOW_ALL["CidrIp"]
    ]
    if default_rules:
        mark = [{"Key": OWNER, "Value": scope.context.logical_id}]
        scope.send("create_tags", Resources=[default_rules[0]["SecurityGroupRuleId"]], Tags=mark)
    return {"SecurityGroupRules": default_rules} if default_rules else None


def _change(scope: ResourceScope, operation: str, rule: Rule) -> None:
    """Add or remove the rule; it is no error if that is already done."""
    with tolerating(has_code(*ALREADY)):
        scope.send(operation, GroupId=scope.id, IpPermissions=[permission(rule)])


def _described(rule: dict[str, Any], given: Sequence[Rule]) -> dict[str, Any]:
    """Return the rule with the template's description if moto drops it, as for groups and prefix lists."""
    if "Description" in rule or not _named_peer(rule):
        return rule
    twins = (other for other in given if _named_peer(other) == _named_peer(rule))
    said = [twin["Description"] for twin in twins if "Description" in twin and _same_traffic(twin, rule)]
    return {**rule, "Description": said[0]} if said else rule


def _named_peer(rule: Rule) -> str | None:
    words = ("SecurityGroupId", "PrefixListId")
    return next(
        (rule[side + word] for word in words for side in ("Source", "Destination") if rule.get(side + word)),
        None,
    )


def _same_traffic(one: Rule, other: Rule) -> bool:
    words = ("IpProtocol", "FromPort", "ToPort")
    return all(str(one[name]) == str(other[name]) for name in words if name in one and name in other)


def _tagged(rule: Rule) -> bool:
    return any(tag["Key"] == OWNER for tag in rule.get("Tags", []))
