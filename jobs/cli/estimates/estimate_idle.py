"""`slipway estimate --idle`: what a cluster costs a month while nothing runs, thing by thing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from slipway.jobs.cli.estimates.formats import rounded
from slipway.jobs.output import Column, print_table, say, warn

if TYPE_CHECKING:
    from slipway.infra.declare.types import Cluster
    from slipway.jobs.cloud.templates import Templates

COLUMNS = (
    Column(name="stack"),
    Column(name="item"),
    Column(name="count", align="right"),
    Column(name="usd_per_month", title="cost", unit="USD/month", align="right", format=rounded(2)),
    Column(name="note", title="price"),
)


def estimate_idle(name: str, *, as_json: bool) -> None:
    from slipway.infra.declare.declared import declared_cluster
    from slipway.jobs.clusters.standing import is_shared, standing_items, total_usd_per_month

    cluster = declared_cluster(name)
    templates, words = _templates(cluster)
    items = standing_items(templates, cluster.region)
    print_table(
        f"{name} while nothing runs, {words}, prices of {cluster.region}",
        COLUMNS,
        [asdict(item) for item in items],
        as_json=as_json,
    )
    own = [item for item in items if not is_shared(item.stack)]
    shared = [item for item in items if is_shared(item.stack)]
    say(f"{name}: {total_usd_per_month(own):.2f} USD a month, and what is stored; nodes are not counted")
    if shared:
        say(
            f"its bakery: {total_usd_per_month(shared):.2f} USD a month while its stacks stand; other images "
            "of the region share the network"
        )


def _templates(cluster: Cluster) -> tuple[Templates, str]:
    """Return the deployed templates, or else those that a deployment would have."""
    from slipway.jobs.cloud.aws import Unanswered
    from slipway.jobs.cloud.templates import declared_templates, deployed_templates, stack_names
    from slipway.jobs.clusters.standing import is_shared

    deployed = deployed_templates(stack_names(cluster), cluster.region)
    if isinstance(deployed, Unanswered):
        warn(f"{deployed.action} gave no answer ({deployed.code}), so this is what is declared")
    elif any(not is_shared(stack) for stack in deployed):
        return deployed, "as it is deployed"
    return declared_templates(cluster.name), "as it is declared"
