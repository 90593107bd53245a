"""`slipway preflight`: checks whether a cluster could be deployed today, and names a fix for each problem."""

from __future__ import annotations

from dataclasses import asdict

import click

from slipway.jobs.cli.options import overrides_option
from slipway.jobs.cli.which_project import say_project
from slipway.jobs.output import Column, json_option, print_table, say
from slipway.jobs.words.errors import SlipwayError

COLUMNS = (
    Column(name="check"),
    Column(name="outcome"),
    Column(name="found"),
    Column(name="fix", absent="-"),
)


@click.command()
@click.argument("cluster")
@overrides_option
@json_option
def command(cluster: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check everything that a deployment of CLUSTER needs, before anything is created.

    The command asks AWS (or the yard, if AWS_ENDPOINT_URL names it) and changes nothing. It ends with exit
    code 1 if a check failed. A check that AWS did not answer is unknown, and names the missing permission.

    \b
    slipway preflight dl1
    slipway preflight dl1 -c dl1.zone=us-east-1b -c dl1.max_nodes=2
    """
    from slipway.infra.declare.declared import declared_cluster
    from slipway.jobs.clusters.preflight.checks import CHECKS
    from slipway.jobs.clusters.preflight.facts import gather
    from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
    from slipway.jobs.words.installation import find_containers

    say_project()
    declared = declared_cluster(cluster, overrides)
    facts = gather(declared, find_containers())
    verdicts = {name: check(declared, facts) for name, check in CHECKS.items()}
    rows = [{"check": name, **asdict(each), "fix": each.fix or None} for name, each in verdicts.items()]
    print_table(f"preflight of {cluster}", COLUMNS, rows, as_json=as_json)
    outcomes = [verdict.outcome for verdict in verdicts.values()]
    say(", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in CheckOutcome))
    if CheckOutcome.FAILED in outcomes:
        raise click.exceptions.Exit(SlipwayError.exit_code)
