"""`slipway quota`: shows the quotas that a cluster needs, and requests what the account lacks."""

from __future__ import annotations

from dataclasses import asdict

import click

from slipway.jobs.cli.options import overrides_option
from slipway.jobs.cli.which_project import say_project
from slipway.jobs.output import Column, json_option, print_table

COLUMNS = (
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
@click.argument("cluster")
@click.option("--request", "asks", is_flag=True, help="Request what the account lacks, once.")
@click.option("--wait", is_flag=True, help="Wait until the quotas suffice; on AWS that can take days.")
@overrides_option
@json_option
def command(cluster: str, asks: bool, wait: bool, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the quotas that CLUSTER needs: for all of its nodes and for baking its AMI, or for its jobs.

    A quota is one number for all that an account runs in a region: what is needed is the sum over this
    cluster, the others that are declared or deployed there, and machines that run besides. A fresh account
    may run 5 vCPUs of standard instances and no accelerated ones, and SageMaker has quotas of its own. AWS
    answers a request in minutes to days, and may ask what for.

    \b
    slipway quota dl1
    slipway quota dl1 -c dl1.max_nodes=2 --request
    """
    from slipway.infra.declare.declared import declared_cluster
    from slipway.jobs.clusters.quotas import (
        find_quotas,
        neighbourhood_of,
        request_increase,
        wait_for_quotas,
    )

    say_project()
    declared = declared_cluster(cluster, overrides)
    hood = neighbourhood_of(declared)
    found = find_quotas(declared, hood)
    if asks:
        found = [request_increase(quota) for quota in found]
    if wait:
        found = list(wait_for_quotas(declared, hood))
    print_table(f"quotas of {cluster}", COLUMNS, [asdict(each) for each in found], as_json=as_json)
