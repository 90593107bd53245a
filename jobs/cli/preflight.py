"""`slipway preflight` checks all that a deployment needs; `slipway cluster quota` requests quotas."""

from __future__ import annotations

from dataclasses import asdict

import click

from slipway.infra.declare.declared import declared_cluster
from slipway.jobs.cli.options import cluster_argument, overrides_option, say_project
from slipway.jobs.clusters.preflight.checks import CHECKS
from slipway.jobs.clusters.preflight.facts import gather
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from slipway.jobs.clusters.quotas import find_quotas, neighbourhood_of, request_increase, wait_for_quotas
from slipway.jobs.output import Column, json_option, print_table, say
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import find_containers

PREFLIGHT_COLUMNS = (
    Column(name="check"),
    Column(name="outcome"),
    Column(name="found"),
    Column(name="fix", absent="-"),
)


@click.command()
@cluster_argument
@overrides_option
@json_option
def preflight_command(cluster: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check everything that a deployment of CLUSTER needs, before anything is created.

    The command asks AWS (or the yard, if AWS_ENDPOINT_URL names it) and changes nothing. It ends with exit
    code 1 if a check failed. A check that AWS did not answer is unknown, and names the missing permission.

    \b
    slipway preflight dl1
    slipway preflight dl1 -c dl1.zone=us-east-1b -c dl1.max_nodes=2
    """
    say_project()
    declared = declared_cluster(cluster, overrides)
    facts = gather(declared, find_containers())
    judged = {name: check(declared, facts) for name, check in CHECKS.items()}
    verdicts = {name: each for name, each in judged.items() if as_json or not each.is_spared}
    rows = [{"check": name, **asdict(each), "fix": each.fix or None} for name, each in verdicts.items()]
    print_table(f"preflight of {cluster}", PREFLIGHT_COLUMNS, rows, as_json=as_json)
    outcomes = [verdict.outcome for verdict in verdicts.values()]
    say(", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in CheckOutcome))
    if CheckOutcome.FAILED in outcomes:
        raise click.exceptions.Exit(SlipwayError.exit_code)


# `slipway cluster quota`: shows the quotas that a cluster needs, and requests what the account lacks.
QUOTA_COLUMNS = (
    Column(name="purpose"),
    Column(name="name", title="quota"),
    Column(name="region"),
    Column(name="needed", align="right"),
    Column(name="counted", title="of it"),
    Column(name="allowed", align="right"),
    Column(name="requested", align="right", absent="-"),
    Column(name="unit", title="counted in"),
)


@click.command()
@cluster_argument
@click.option("--request", "asks", is_flag=True, help="Request what the account lacks, once.")
@click.option("--wait", is_flag=True, help="Wait until the quotas suffice; on AWS that can take days.")
@overrides_option
@json_option
def cluster_quota_command(
    cluster: str, asks: bool, wait: bool, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Show the quotas that CLUSTER needs: for all of its nodes and for baking its AMI, or for its jobs.

    A quota is one number for all that an account runs in a region: what is needed is the sum over this
    cluster, the others that are declared or deployed there, and machines that run besides. A fresh account
    may run 5 vCPUs of standard instances and no accelerated ones, and SageMaker has quotas of its own. AWS
    answers a request in minutes to days, and may ask what for.

    \b
    slipway cluster quota dl1
    slipway cluster quota dl1 -c dl1.max_nodes=2 --request
    """
    say_project()
    declared = declared_cluster(cluster, overrides)
    hood = neighbourhood_of(declared)
    found = find_quotas(declared, hood)
    if asks:
        found = [request_increase(quota) for quota in found]
    if wait:
        found = list(wait_for_quotas(declared, hood))
    print_table(f"quotas of {cluster}", QUOTA_COLUMNS, [asdict(each) for each in found], as_json=as_json)
