"""`slipway cluster permissions` prints the IAM policy that somebody needs for a cluster."""

from __future__ import annotations

import json

import click

from slipway.infra.declare.declared import build_type, declared_cluster
from slipway.infra.declare.node_images import booted_image
from slipway.infra.declare.types import NodeCluster
from slipway.jobs.cli.completing import complete_cluster
from slipway.jobs.cli.options import say_project
from slipway.jobs.cloud.aws import answered, ask, reader
from slipway.jobs.clusters.permissions import PURPOSES, PolicyScope, policy
from slipway.jobs.output import print_text, say


@click.command()
@click.argument("cluster", shell_complete=complete_cluster)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(tuple(PURPOSES)),
    required=True,
    help="What the policy has to allow.",
)
@click.option(
    "--account",
    metavar="ID",
    help="Account of the cluster. Default: as declared, or that of your credentials.",
)
def cluster_permissions_command(cluster: str, purpose: str, account: str | None) -> None:
    """Print the IAM policy that somebody needs to use the declared CLUSTER for one purpose.

    Give it to an administrator, or make a managed policy of it. It names the resources by the names and tags
    that a deployment gives them, so it is valid before the cluster exists. AWS is asked for nothing but the
    number of the account, for which nobody needs a permission. docs/permissions.md lists the actions.

    \b
    slipway cluster permissions my-training --for submit > submit.json
    aws iam create-policy --policy-name my-training-submit --policy-document file://submit.json
    """
    say_project()
    declared = declared_cluster(cluster)
    is_baked = isinstance(declared, NodeCluster) and build_type(declared) is not None
    if not (account := account or declared.account):
        answer = ask(reader("sts", declared.region), "GetCallerIdentity")
        account = str(answered(answer, "sign in to AWS, or give --account")["Account"])
    place = PolicyScope(
        cluster=declared.name,
        kind=declared.kind.value,
        region=declared.region,
        account=account,
        image=(booted_image(declared) or "") if is_baked and isinstance(declared, NodeCluster) else "",
    )
    print_text(json.dumps(policy(purpose, place), indent=2))
    say(f"allows to {PURPOSES[purpose]}, on {declared.name} in {place.account}, {declared.region}")
