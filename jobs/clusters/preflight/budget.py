"""Checks of the budget, and of who hears about it."""

from __future__ import annotations

from slipway.infra.declare.types import Cluster
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.verdicts import Verdict, failed, ok, unknown
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.catalogue.regional import price_in

_NO_ADDRESS = ("example.com", "example.org", "example.net")  # RFC 2606


def budget(cluster: Cluster, _facts: Facts) -> Verdict:
    price = price_in(instance_type(cluster.instance_type), cluster.region)
    if price is None:
        return unknown(f"the price of {cluster.instance_type} in {cluster.region} is not known")
    hours = cluster.budget_usd_per_month / (price.usd_per_hour * cluster.max_nodes)
    said = (
        f"{cluster.budget_usd_per_month} USD a month cover {hours:.1f} hours of {cluster.max_nodes} nodes "
        f"(on demand, {price.region}, {price.date})"
    )
    return ok(said) if hours >= 1 else failed(said, "raise budget_usd_per_month, or lower max_nodes")


def alert_email(cluster: Cluster, _facts: Facts) -> Verdict:
    if cluster.alert_email.rpartition("@")[2] in _NO_ADDRESS:
        return failed(
            f"alarm and budget e-mails go to {cluster.alert_email}, which nobody reads",
            f"set alert_email in clusters.py, or -c {cluster.name}.alert_email=…",
        )
    return ok(cluster.alert_email)
