"""Makes what a user's own CDK app has besides our cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3

from slipway.infra import Egress
from tests.infra.synthesis import MPI_CLUSTER

REGION, ZONE = "us-east-1", "us-east-1b"
GUEST = replace(MPI_CLUSTER, name="guest", egress=Egress.NAT)
ENVIRONMENT = cdk.Environment(region=REGION)


def own_stack(scope: cdk.Stage, **settings: Any) -> cdk.Stack:
    return cdk.Stack(scope, "own", **{"env": ENVIRONMENT, **settings})


def own_vpc(stack: cdk.Stack, **settings: Any) -> ec2.Vpc:
    return ec2.Vpc(
        stack, "Vpc", **{"availability_zones": ["us-east-1a", ZONE], "nat_gateways": 1, **settings}
    )


def own_bucket(stack: cdk.Stack, **settings: Any) -> s3.Bucket:
    return s3.Bucket(stack, "Results", **{"enforce_ssl": True, **settings})
