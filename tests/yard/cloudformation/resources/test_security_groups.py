"""Rules change in place and one by one, and drift tells whose they are."""

from __future__ import annotations

from typing import Any

from tests.yard.cloudformation.resources.world import Made, World

SSH = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.0/8", "Description": "ssh"}
NFS = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "CidrIp": "10.20.0.0/16"}
LUSTRE = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "CidrIp": "10.20.0.0/16"}


def group(world: World, **properties: Any) -> Made:
    return world.make("AWS::EC2::SecurityGroup", GroupDescription="nodes", VpcId=world.vpc(), **properties)


def rules(world: World, made: Made) -> dict[str, dict[str, Any]]:
    filters = [{"Name": "group-id", "Values": [made.id]}]
    found = world.client("ec2").describe_security_group_rules(Filters=filters)["SecurityGroupRules"]
    return {rule["SecurityGroupRuleId"]: rule for rule in found}


def ports(world: World, made: Made) -> list[int]:
    return sorted(rule["FromPort"] for rule in rules(world, made).values() if not rule["IsEgress"])


def test_a_changed_rule_leaves_the_group_and_its_other_rules_in_place(world: World) -> None:
    made = group(world, SecurityGroupIngress=[SSH, NFS])
    kept = {key for key, rule in rules(world, made).items() if rule.get("FromPort") == 2049}
    before = made.id
    made.update(SecurityGroupIngress=[NFS, LUSTRE])
    assert made.id == before
    assert ports(world, made) == [988, 2049]
    assert kept < set(rules(world, made))


def test_a_rollback_brings_the_old_rules_back(world: World) -> None:
    made = group(world, SecurityGroupIngress=[SSH])
    old = made.properties
    made.update(SecurityGroupIngress=[LUSTRE])
    made.become(old)
    assert ports(world, made) == [22]


def test_undoing_what_never_happened_is_no_error(world: World) -> None:
    made = group(world, SecurityGroupIngress=[SSH])
    never = {**made.properties, "SecurityGroupIngress": [LUSTRE]}
    made.provider.update(made.context, made.resource, never, made.properties)
    assert ports(world, made) == [22]


def test_a_group_with_its_own_egress_does_not_let_everything_out(world: World) -> None:
    made = group(world, SecurityGroupEgress=[NFS])
    outward = [rule for rule in rules(world, made).values() if rule["IsEgress"]]
    assert [rule["CidrIpv4"] for rule in outward] == ["10.20.0.0/16"]


def test_egress_that_is_taken_away_lets_everything_out_again(world: World) -> None:
    made = group(world, SecurityGroupEgress=[NFS])
    made.update(SecurityGroupEgress=None)
    outward = [rule for rule in rules(world, made).values() if rule["IsEgress"]]
    assert [(rule["IpProtocol"], rule["CidrIpv4"]) for rule in outward] == [("-1", "0.0.0.0/0")]


def test_a_rule_of_its_own_survives_a_change_of_the_group(world: World) -> None:
    made = group(world, SecurityGroupIngress=[SSH])
    own = world.make(
        "AWS::EC2::SecurityGroupIngress", GroupId=made.id, IpProtocol="-1", SourceSecurityGroupId=made.id
    )
    made.update(SecurityGroupIngress=[NFS])
    assert own.id in rules(world, made)


def test_a_rule_of_its_own_is_no_drift_of_the_group(world: World) -> None:
    made = group(world, SecurityGroupIngress=[SSH])
    world.make("AWS::EC2::SecurityGroupIngress", GroupId=made.id, **LUSTRE)
    live = made.read()
    assert live is not None
    assert live["SecurityGroupIngress"] == [SSH]


def test_a_rule_that_somebody_added_by_hand_is_drift(world: World) -> None:
    made = group(world, SecurityGroupIngress=[SSH])
    world.client("ec2").authorize_security_group_ingress(
        GroupId=made.id, IpProtocol="tcp", FromPort=3389, ToPort=3389, CidrIp="0.0.0.0/0"
    )
    live = made.read()
    assert live is not None
    assert [rule["FromPort"] for rule in live["SecurityGroupIngress"]] == [22, 3389]


def test_nodes_may_reach_each_other_over_efa_both_ways(world: World) -> None:
    made = group(world)
    both = {"GroupId": made.id, "IpProtocol": "-1"}
    world.make("AWS::EC2::SecurityGroupIngress", **both, SourceSecurityGroupId=made.id)
    world.make("AWS::EC2::SecurityGroupEgress", **both, DestinationSecurityGroupId=made.id)
    among = [rule for rule in rules(world, made).values() if "ReferencedGroupInfo" in rule]
    assert sorted(rule["IsEgress"] for rule in among) == [False, True]
    assert {rule["ReferencedGroupInfo"]["GroupId"] for rule in among} == {made.id}


def test_a_described_rule_for_the_addresses_of_s3_is_no_drift(world: World) -> None:
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "Description": "HTTPS to S3"}
    to_s3 = {**https, "DestinationPrefixListId": "pl-63a5400a"}
    live = group(world, SecurityGroupEgress=[to_s3]).read()
    assert live is not None
    assert live["SecurityGroupEgress"] == [to_s3]
