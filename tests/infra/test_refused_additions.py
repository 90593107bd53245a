"""A VPC, bucket or cluster that cannot be added to an app is refused at synthesis, in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3

from slipway.infra import Egress, RefusedCluster, add_cluster
from slipway.infra.declare.types import Cluster
from tests.infra.own_app import ENVIRONMENT, GUEST, ZONE, own_bucket, own_stack, own_vpc
from tests.infra.synthesis import CLUSTER

Add = Callable[[cdk.App], object]


def in_own_vpc(cluster: Cluster = GUEST, env: cdk.Environment = ENVIRONMENT, **settings: Any) -> Add:
    return lambda app: add_cluster(app, cluster, vpc=own_vpc(own_stack(app, env=env), **settings))


def with_bucket(**settings: Any) -> Add:
    return lambda app: add_cluster(app, GUEST, bucket=own_bucket(own_stack(app), **settings))


def imported(**attributes: Any) -> Add:
    def add(app: cdk.App) -> object:
        known = {"vpc_id": "vpc-0123456789abcdef0", "availability_zones": [ZONE], **attributes}
        return add_cluster(app, GUEST, vpc=ec2.Vpc.from_vpc_attributes(own_stack(app), "Vpc", **known))

    return add


def foreign_bucket(app: cdk.App) -> object:
    bucket = s3.Bucket.from_bucket_attributes(
        own_stack(app), "Theirs", bucket_name="theirs", region="eu-west-1"
    )
    return add_cluster(app, GUEST, bucket=bucket)


def subnet_by_id(app: cdk.App) -> object:
    stack = own_stack(app)
    subnet = ec2.Subnet.from_subnet_id(stack, "Theirs", "subnet-0123456789abcdef0")
    return add_cluster(app, GUEST, vpc=own_vpc(stack), subnet=subnet)


def public_subnet(app: cdk.App) -> object:
    vpc = own_vpc(own_stack(app))
    return add_cluster(app, GUEST, vpc=vpc, subnet=vpc.public_subnets[1])


def twice(app: cdk.App) -> object:
    add_cluster(app, GUEST)
    return add_cluster(cdk.Stage(app, "Prod"), GUEST)


PUBLIC_ONLY = [ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC)]
NARROW = [
    ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28),
    ec2.SubnetConfiguration(name="nodes", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=28),
]
BATCH = replace(CLUSTER, egress=Egress.NAT)
REFUSED: Mapping[str, tuple[Add, str, str]] = {
    "no private subnet": (
        in_own_vpc(subnet_configuration=PUBLIC_ONLY, nat_gateways=0),
        "has no private subnet with a NAT gateway",
        "add a SubnetType.PRIVATE_WITH_EGRESS",
    ),
    "another zone": (
        in_own_vpc(availability_zones=["us-east-1a"]),
        "has private subnets in us-east-1a and none in us-east-1b",
        "add one in us-east-1b",
    ),
    "zones told at deployment": (
        imported(availability_zones=cdk.Fn.get_azs(), private_subnet_ids=["subnet-1"]),
        "does not say its zone before it is deployed",
        "write availability_zones=['us-east-1b']",
    ),
    "an imported VPC without its subnets": (imported(), "has no private subnet", "private_subnet_ids"),
    "a subnet without its zone": (subnet_by_id, "does not say its zone", "availability_zone="),
    "a public subnet": (public_subnet, "is public", "give a private subnet"),
    "too few addresses": (
        in_own_vpc(replace(GUEST, max_nodes=16), subnet_configuration=NARROW),
        "with 16 addresses, but 16 nodes need 52",
        "give it a wider cidr_mask",
    ),
    "no DNS": (in_own_vpc(enable_dns_hostnames=False), "has no DNS", "leave enable_dns_support"),
    "an emptied default group": (
        in_own_vpc(BATCH, restrict_default_security_group=True),
        "empties its default security group",
        "set restrict_default_security_group=False",
    ),
    "no endpoints": (
        in_own_vpc(replace(GUEST, egress=Egress.ENDPOINTS)),
        "no security group of interface endpoints is given",
        "give endpoints=, the group of endpoints for autoscaling, ec2",
    ),
    "no region": (
        in_own_vpc(env=cdk.Environment()),
        "is in no region that is said, and the cluster in us-east-1",
        "env=Environment(region='us-east-1')",
    ),
    "another region": (
        in_own_vpc(env=cdk.Environment(region="eu-west-1"), availability_zones=["eu-west-1a"]),
        "is in eu-west-1, and the cluster in us-east-1",
        "env=Environment(region='us-east-1')",
    ),
    "another account": (
        in_own_vpc(replace(GUEST, account="210987654321"), env=ENVIRONMENT),
        "is in any account, and the cluster in 210987654321",
        "the same account",
    ),
    "a bucket of another region": (foreign_bucket, "is in eu-west-1", "us-east-1"),
    "a bucket without TLS": (
        with_bucket(enforce_ssl=False),
        "takes requests without TLS",
        "enforce_ssl=True",
    ),
    "a bucket for the public": (
        with_bucket(block_public_access=s3.BlockPublicAccess.BLOCK_ACLS),
        "may be opened to the public",
        "BLOCK_ALL",
    ),
    "one cluster twice": (twice, "is in this app already, as guest-network", "another name"),
    "a stack": (
        lambda app: add_cluster(own_stack(app), GUEST),  # type: ignore[arg-type]  # a user's mistake
        "is added to a Stack",
        "add it to the App",
    ),
    "a wrong setting": (
        lambda app: add_cluster(app, replace(GUEST, zone="us-west-2a")),
        "guest.zone: is 'us-west-2a'",
        "",
    ),
}


@pytest.mark.parametrize(("add", "message", "hint"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_in_one_line_that_says_what_to_do(
    add: Add, message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(RefusedCluster) as refused:
        add(cdk.App(outdir=str(tmp_path)))
    assert message in refused.value.message
    assert hint in refused.value.hint
    assert "\n" not in refused.value.message
    assert str(refused.value.code).startswith("error: ")


# A misspelt `-c CLUSTER.SETTING` in a user's own app is refused, and the app's own keys are accepted.
SECOND = replace(GUEST, name="second", vpc_cidr="10.77.0.0/16")


def app_with(context: dict[str, object], folder: Path) -> cdk.App:
    """Return an app with two clusters, one of them in a Stage."""
    app = cdk.App(outdir=str(folder), context=context)
    add_cluster(app, GUEST)
    add_cluster(cdk.Stage(app, "Prod"), SECOND)
    return app


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("gest.max_nodes", "did you mean guest?"),
        ("gest.max_node", "did you mean guest?"),
        ("secnd.region", "did you mean second?"),
        ("dl1.max_nodes", "allowed are guest, second"),
    ],
)
def test_a_setting_of_no_cluster_of_the_app_ends_its_synthesis_in_one_line(
    key: str, hint: str, tmp_path: Path
) -> None:
    app = app_with({key: "4"}, tmp_path)
    with pytest.raises(RefusedCluster) as refused:
        app.synth()
    name = key.partition(".")[0]
    assert str(refused.value.code) == (
        f"error: {key} of the context: names the cluster '{name}', which is not declared; {hint}"
    )
    assert list(tmp_path.rglob("*.template.json")) == []


@pytest.mark.parametrize("key", ["guest.max_node", "second.max_node"])
def test_a_misspelt_setting_of_a_cluster_is_refused_when_it_is_added(key: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedCluster, match="did you mean max_nodes"):
        app_with({key: "4"}, tmp_path)


def test_keys_of_the_apps_own_and_settings_of_both_clusters_pass(tmp_path: Path) -> None:
    own: dict[str, object] = {"own.region": "eu-west-1", "guests.limit": "3", "stage": "prod", "a:b": "c"}
    settings: dict[str, object] = {"guest.max_nodes": "3", "second.idle_minutes": "40"}
    app = app_with({**own, **settings}, tmp_path)
    app.synth()
    assert list(tmp_path.rglob("*second*.template.json"))
