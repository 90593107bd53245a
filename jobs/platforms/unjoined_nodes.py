"""Reads why nodes of a cluster did not join it: each wrote its reason as a dimension of a metric."""

from __future__ import annotations

from slipway.jobs.cloud.aws import Unanswered, ask_all, reader
from slipway.jobs.words.names import (
    CLUSTER_DIMENSION,
    METRIC_NAMESPACE,
    NOT_JOINED_METRIC,
    REASON_DIMENSION,
    REASONS,
)

RECENT = "PT3H"  # the only period that ListMetrics knows


def why_nodes_did_not_join(cluster: str, region: str) -> tuple[str, ...] | Unanswered:
    """Return the reasons of the last three hours, in words."""
    found = ask_all(
        reader("cloudwatch", region),
        "ListMetrics",
        "Metrics",
        Namespace=METRIC_NAMESPACE,
        MetricName=NOT_JOINED_METRIC,
        Dimensions=[{"Name": CLUSTER_DIMENSION, "Value": cluster}, {"Name": REASON_DIMENSION}],
        RecentlyActive=RECENT,
    )
    if isinstance(found, Unanswered):
        return found
    reasons = {
        dimension["Value"]
        for metric in found
        for dimension in metric["Dimensions"]
        if dimension["Name"] == REASON_DIMENSION
    }
    return tuple(REASONS.get(reason, reason) for reason in sorted(reasons))
