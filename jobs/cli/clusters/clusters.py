"""`slipway clusters`: the declared clusters, whether they are deployed, and their price per hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from slipway.jobs.cli.which_project import say_project
from slipway.jobs.output import Column, json_option, print_record, print_table, print_text, say, warn

if TYPE_CHECKING:
    from slipway.infra.declare.types import Cluster
    from slipway.jobs.cloud.aws import Unanswered
    from slipway.jobs.cloud.deployed import DeployedStack

LISTED = (
    Column(name="name"),
    Column(name="kind"),
    Column(name="instance_type"),
    Column(name="region"),
    Column(name="state"),
    Column(name="running_nodes", title="running", align="right"),
    Column(name="max_nodes", title="at most", align="right"),
    Column(name="usd_per_hour_now", title="now", unit="USD/h", align="right"),
    Column(name="usd_per_hour_full", title="all nodes", unit="USD/h", align="right"),
    Column(name="usd_per_month_idle", title="idle", unit="USD/month", align="right"),
    Column(name="price.region", title="price region"),
    Column(name="price.date", title="price date"),
)

IN_FULL = (
    *LISTED,
    Column(name="zone"),
    Column(name="market"),
    Column(name="price.usd_per_hour", title="price of a node on demand", unit="USD/h"),
    Column(name="price.source", title="source of the price"),
    Column(name="not_counted"),
)

STACKS = (Column(name="stack"), Column(name="status"))
RESOURCES = (Column(name="service"), Column(name="count", align="right"), Column(name="resources"))

# The state of a stack that needs a hand, and the next command.
NEXT_COMMANDS: Mapping[str, str] = {
    "CREATE_FAILED": "cdk destroy {stack}, then cdk deploy",
    "ROLLBACK_COMPLETE": "cdk destroy {stack}, then cdk deploy",
    "ROLLBACK_FAILED": "cdk destroy {stack}, then cdk deploy",
    "UPDATE_ROLLBACK_FAILED": "cdk rollback {stack}",
    "DELETE_FAILED": "look at its events, then cdk destroy {stack} again",
    "REVIEW_IN_PROGRESS": "cdk deploy {stack}",
}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def command(names: tuple[str, ...], as_json: bool) -> None:
    """List the declared clusters: whether they are deployed, how many nodes run, and what they cost.

    "idle" is what the deployed stacks cost a month while nothing runs: slipway estimate --idle lists it.

    Prices are on-demand prices, each shown with its region and date. Billed items that have no price in the
    catalogue are listed as not counted; an unknown price is shown as unknown.

    \b
    slipway clusters
    slipway clusters dl1 --json
    """
    from slipway.infra.declare.declared import declared_cluster, declared_clusters

    say_project()
    clusters = [declared_cluster(name) for name in dict.fromkeys(names)] or declared_clusters()
    rows = [_row(cluster) for cluster in clusters]
    if len(names) == 1:
        print_record("", IN_FULL, rows[0], as_json=as_json)
        if not as_json:
            _print_created(rows[0])
    else:
        print_table("clusters, prices on demand", LISTED, rows, as_json=as_json)
        _say_not_counted(rows)


def _row(cluster: Cluster) -> Mapping[str, object]:
    from slipway.infra.declare.declared import build_type
    from slipway.jobs.cloud.aws import Unanswered
    from slipway.jobs.cloud.deployed import count_running_nodes, find_stacks
    from slipway.jobs.cloud.templates import deployed_templates
    from slipway.jobs.clusters.bill import bill, count_resources

    stacks = find_stacks(cluster.name, cluster.region)
    running = stacks if isinstance(stacks, Unanswered) else count_running_nodes(cluster.name, cluster.region)
    names = [] if isinstance(stacks, Unanswered) else [stack.name for stack in stacks]
    templates = stacks if isinstance(stacks, Unanswered) else deployed_templates(names, cluster.region)
    _tell(cluster.name, stacks, running)
    return {
        "kind": cluster.kind,
        **asdict(cluster),
        "build_type": build_type(cluster),
        "state": _state(stacks),
        "running_nodes": None if isinstance(running, Unanswered) else running,
        "stacks": None if isinstance(stacks, Unanswered) else {stack.name: stack.status for stack in stacks},
        "resources": count_resources(stacks),
        **asdict(bill(cluster, templates, running)),
    }


def _state(stacks: Sequence[DeployedStack] | Unanswered) -> str | None:
    from slipway.jobs.cloud.aws import Unanswered

    if isinstance(stacks, Unanswered):
        return None
    if not stacks:
        return "not deployed"
    unsettled = [f"{stack.name} {stack.status}" for stack in stacks if not _is_settled(stack)]
    return ", ".join(unsettled) or f"deployed, {len(stacks)} stacks"


def _is_settled(stack: DeployedStack) -> bool:
    return stack.status.endswith("_COMPLETE") and stack.status not in NEXT_COMMANDS


def _tell(cluster: str, stacks: Sequence[DeployedStack] | Unanswered, running: int | Unanswered) -> None:
    from slipway.jobs.cloud.aws import Unanswered

    for answer in dict.fromkeys(each for each in (stacks, running) if isinstance(each, Unanswered)):
        warn(f"{cluster}: {answer.action} gave no answer: {answer.code}, {answer.message[:200]}")
    for stack in () if isinstance(stacks, Unanswered) else stacks:
        if stack.status in NEXT_COMMANDS:
            next_command = NEXT_COMMANDS[stack.status].format(stack=stack.name)
            warn(f"{stack.name} is {stack.status}; next: {next_command}")


def _print_created(row: Mapping[str, object]) -> None:
    """Print the stacks and the resources that exist in AWS, one line per service."""
    stacks, resources = row["stacks"], row["resources"]
    if isinstance(stacks, Mapping) and stacks:
        print_text("")
        print_table("", STACKS, [{"stack": name, "status": stacks[name]} for name in stacks], as_json=False)
    if isinstance(resources, Mapping) and resources:
        print_text("")
        print_table("", RESOURCES, _by_service(resources), as_json=False)


def _by_service(resources: Mapping[str, int]) -> list[Mapping[str, object]]:
    services: dict[str, dict[str, int]] = {}
    for type_, count in resources.items():
        _, service, name = type_.split("::", 2)
        services.setdefault(service, {})[name] = count
    return [
        {
            "service": service,
            "count": sum(found.values()),
            "resources": ", ".join(
                name if count == 1 else f"{name} × {count}" for name, count in found.items()
            ),
        }
        for service, found in services.items()
    ]


def _say_not_counted(rows: Sequence[Mapping[str, object]]) -> None:
    for row in rows:
        not_counted = row["not_counted"]
        if isinstance(not_counted, tuple) and not_counted:
            say(f"not counted for {row['name']}: {', '.join(not_counted)}")
