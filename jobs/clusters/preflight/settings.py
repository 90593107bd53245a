"""What preflight asks of settings that the account has outside our stacks, one thin function a fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.words.names import CLUSTER_TAG

_BILLING_HOME = "us-east-1"  # Cost Explorer answers there for all regions
_AWS_OWN_KEY = "alias/aws/ebs"
_MISSING_STACK = "ValidationError"


@dataclass(frozen=True, slots=True, kw_only=True)
class EbsKey:
    """Describes the key that encrypts a volume for which nobody names one."""

    id: str
    is_of_aws: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultGroup:
    """Describes the default security group of a cluster's network."""

    id: str
    admits_itself: bool  # all traffic from its own members
    lets_out: bool  # all traffic to its own members


def ask_cost_tag() -> str | Unanswered | None:
    """Active or Inactive; None: Billing has not seen the tag on anything yet."""
    answer = ask_all(
        reader("ce", _BILLING_HOME),
        "ListCostAllocationTags",
        "CostAllocationTags",
        TagKeys=[CLUSTER_TAG],
        Type="UserDefined",
    )
    if isinstance(answer, Unanswered):
        return answer
    return next((str(tag["Status"]) for tag in answer if tag["TagKey"] == CLUSTER_TAG), None)


def ask_ebs_key(region: str) -> EbsKey | Unanswered:
    answer = ask(reader("ec2", region), "GetEbsDefaultKmsKeyId")
    if isinstance(answer, Unanswered):
        return answer
    key = str(answer["KmsKeyId"])
    if key.endswith(_AWS_OWN_KEY):
        return EbsKey(id=key, is_of_aws=True)
    described = ask(reader("kms", region), "DescribeKey", KeyId=key)
    if isinstance(described, Unanswered):
        return described
    return EbsKey(id=key, is_of_aws=described["KeyMetadata"]["KeyManager"] == "AWS")


def ask_default_group(cluster: str, region: str) -> DefaultGroup | Unanswered | None:
    """Find the default group of the VPC that the cluster is in; None: nothing of it is deployed.

    A VPC of the user's own has no tag of ours: the groups of our nodes name it.
    """
    ec2 = reader("ec2", region)
    of_cluster = [{"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]}]
    networks = ask_all(ec2, "DescribeVpcs", "Vpcs", Filters=of_cluster)
    if not isinstance(networks, Unanswered) and not networks:
        networks = ask_all(ec2, "DescribeSecurityGroups", "SecurityGroups", Filters=of_cluster)
    if isinstance(networks, Unanswered):
        return networks
    if not networks:
        return None
    default = [
        {"Name": "vpc-id", "Values": [networks[0]["VpcId"]]},
        {"Name": "group-name", "Values": ["default"]},
    ]
    groups = ask_all(ec2, "DescribeSecurityGroups", "SecurityGroups", Filters=default)
    if isinstance(groups, Unanswered):
        return groups
    return next(map(_default_group, groups), None)


def ask_stack(name: str, region: str) -> str | Unanswered | None:
    """Return the state of one stack; None: there is no such stack."""
    answer = ask(reader("cloudformation", region), "DescribeStacks", StackName=name)
    if isinstance(answer, Unanswered):
        return None if answer.code == _MISSING_STACK else answer
    return str(answer["Stacks"][0]["StackStatus"])


def _default_group(group: Mapping[str, Any]) -> DefaultGroup:
    own = group["GroupId"]
    return DefaultGroup(
        id=own,
        admits_itself=any(_is_of_group(rule, own) for rule in group["IpPermissions"]),
        lets_out=any(
            _is_of_group(rule, own) or _is_everywhere(rule) for rule in group["IpPermissionsEgress"]
        ),
    )


def _is_of_group(rule: Mapping[str, Any], group: str) -> bool:
    pairs = rule.get("UserIdGroupPairs", ())
    return rule["IpProtocol"] == "-1" and any(pair["GroupId"] == group for pair in pairs)


def _is_everywhere(rule: Mapping[str, Any]) -> bool:
    ranges = rule.get("IpRanges", ())
    return rule["IpProtocol"] == "-1" and any(each["CidrIp"] == "0.0.0.0/0" for each in ranges)


def ask_controller(name: str, region: str) -> str | Unanswered | None:
    """Return the size of a deployed controller of AWS PCS; None: there is none of this name."""
    answer = ask(reader("pcs", region), "GetCluster", clusterIdentifier=name)
    if isinstance(answer, Unanswered):
        return None if answer.code == "ResourceNotFoundException" else answer
    return str(answer["cluster"]["size"]).lower()
