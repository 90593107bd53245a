"""Adds one of our clusters to an app of the user's own: `from slipway.infra import add_cluster`.

Its stacks are ours and pass our gates; a VPC and a bucket that are given stay their owner's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import cx_api
from constructs import Construct, IConstruct

from slipway.infra.build.clusters import BUILDERS
from slipway.infra.build.parts import Given
from slipway.infra.declare.overrides import apply, strays
from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.network.given_network import GivenNetwork, make_network
from slipway.infra.patterns.network.vpc import NetworkOf
from slipway.infra.patterns.storage.buckets import given_bucket, make_bucket
from slipway.infra.refused_cluster import RefusedCluster
from slipway.infra.verify.accepted_lint import acknowledge_lint
from slipway.infra.verify.nag import add_nag_checks
from slipway.infra.verify.rule_checks import add_rule_checks
from slipway.jobs.words.errors import InvalidConfig, SlipwayError
from slipway.jobs.words.installation import refuse_incomplete
from slipway.jobs.words.targets import parameter_name


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedCluster:
    """Hands an app the parts of a cluster that it may use."""

    cluster: Cluster  # as declared, with the context's overrides
    stacks: tuple[cdk.Stack, ...]  # in the order of their deployment
    vpc_id: str
    subnet_id: str  # of the nodes
    security_group_id: str  # the role of training jobs
    job_role: iam.IRole  # which training has
    bucket: s3.IBucket
    key: kms.IKey  # encrypts the cluster's files, images and, unless one was given, its bucket
    target_parameter: str  # name of the SSM parameter by which `slipway submit` finds the cluster


def add_cluster(
    scope: cdk.Stage,
    cluster: Cluster,
    *,
    vpc: ec2.IVpc | None = None,
    subnet: ec2.ISubnet | None = None,
    endpoints: ec2.ISecurityGroup | None = None,
    bucket: s3.IBucket | None = None,
) -> AddedCluster:
    """Add the stacks of a cluster to an App or a Stage, in a VPC and with a bucket of its owner's if given.

    Nodes are in the private subnet of the VPC in the cluster's zone, or in `subnet`; `endpoints` is the group
    of the VPC's interface endpoints, for a cluster with Egress.ENDPOINTS.
    """
    try:
        refuse_incomplete()
        _refuse_scope(scope, cluster)
        placed = _placed(_with_overrides(scope, cluster), {"VPC": vpc, "bucket": bucket})
        _refuse_twice(scope, placed)
        network: NetworkOf = make_network
        if vpc is not None:
            network = GivenNetwork(vpc=vpc, subnet=subnet, endpoints=endpoints).network
        elif subnet is not None or endpoints is not None:
            raise SlipwayError(
                f"cluster '{placed.name}' is given a subnet or endpoints without their VPC", hint="give vpc="
            )
        given = Given(
            network=network,
            bucket=make_bucket if bucket is None else partial(given_bucket, bucket=bucket),
        )
        built = BUILDERS[type(placed)](scope, placed, given)
    except SlipwayError as error:
        raise RefusedCluster(error) from None
    check_context_at_synthesis(scope)
    acknowledge_lint(built.stacks)
    add_nag_checks(scope, built.stacks)
    add_rule_checks(scope, built.stacks)
    return AddedCluster(
        cluster=placed,
        stacks=built.stacks,
        vpc_id=built.network.vpc.vpc_id,
        subnet_id=built.network.vpc.private_subnet_id,
        security_group_id=built.security_group_id,
        job_role=built.job_role,
        bucket=built.storage.bucket,
        key=built.storage.key,
        target_parameter=parameter_name(placed.name),
    )


def _refuse_scope(scope: Construct, cluster: Cluster) -> None:
    if not isinstance(scope, cdk.Stage):
        raise SlipwayError(
            f"cluster '{cluster.name}' is added to a {type(scope).__name__}, and it has stacks of its own",
            hint="add it to the App, or to a Stage",
        )
    if type(cluster) not in BUILDERS:
        allowed = ", ".join(kind.__name__ for kind in BUILDERS)
        raise SlipwayError(f"{cluster!r} is no cluster", hint=f"give one of {allowed}")


def _with_overrides(scope: cdk.Stage, cluster: Cluster) -> Cluster:
    """Apply the context's keys that begin with the cluster's name; other keys are for other clusters."""
    context: Mapping[str, object] = scope.node.get_all_context()
    own = {key: value for key, value in context.items() if key.partition(".")[0] == cluster.name}
    (checked,) = apply(own, [cluster])
    return checked


def _placed(cluster: Cluster, given: Mapping[str, ec2.IVpc | s3.IBucket | None]) -> Cluster:
    """Return the cluster in the account of the given resources, which must be in its region."""
    placed = cluster
    for what, resource in given.items():
        if resource is None:
            continue
        region, account = resource.env.region, resource.env.account
        if region != cluster.region:
            there = "no region that is said" if cdk.Token.is_unresolved(region) else region
            raise SlipwayError(
                f"the {what} of cluster '{cluster.name}' is in {there}, and the cluster in {cluster.region}",
                hint=f"give its stack env=Environment(region='{cluster.region}')",
            )
        said = None if cdk.Token.is_unresolved(account) else account
        if said and placed.account is None:
            placed = replace(placed, account=said)
        elif said != placed.account:
            there = f"account {said}" if said else "any account"
            raise SlipwayError(
                f"the {what} of cluster '{cluster.name}' is in {there}, and the cluster in {placed.account}",
                hint="give the stacks of both the same account, or none of them one",
            )
    return placed


def _refuse_twice(scope: cdk.Stage, cluster: Cluster) -> None:
    for construct in scope.node.root.node.find_all():
        if isinstance(construct, DeclaredStack) and construct.declared.name == cluster.name:
            raise SlipwayError(
                f"cluster '{cluster.name}' is in this app already, as {construct.node.path}",
                hint="add it once, or give the second another name: commands find clusters by name",
            )


# Refuses settings in the context of a user's own app whose cluster is not in the app.


def check_context_at_synthesis(scope: cdk.Stage) -> None:
    """Let the app's synth() raise one line for each such key, instead of deploying without the setting.

    Only then are all clusters of the app known. An error annotation would stop only the stacks that carry it,
    and print itself once for each.
    """
    app = scope.node.root
    assert isinstance(app, cdk.Stage)
    if "synth" in vars(app):
        return
    synthesize = app.synth

    def checked(**options: Any) -> cx_api.CloudAssembly:
        clusters = [stack.declared for stack in _stacks(app) if isinstance(stack.declared, Cluster)]
        if problems := strays(app.node.get_all_context(), clusters):
            raise RefusedCluster(InvalidConfig(problems)) from None
        return synthesize(**options)

    app.synth = checked  # type: ignore[method-assign]  # the CDK calls it only to synthesize


def _stacks(scope: IConstruct) -> Iterator[DeclaredStack]:
    for child in scope.node.children:
        if isinstance(child, DeclaredStack):
            yield child
        elif isinstance(child, cdk.Stage):
            yield from _stacks(child)
