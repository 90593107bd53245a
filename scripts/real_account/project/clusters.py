"""Declare the clusters of `scripts/acceptance` without a bake, in a project like that of `slipway init`."""

from __future__ import annotations

from dataclasses import replace

from slipway.infra import BatchCluster

_CPU = BatchCluster(
    name="acceptance-cpu",
    instance_type="c6i.xlarge",
    max_nodes=2,
    region="us-east-1",
    zone="us-east-1a",
    budget_usd_per_month=30,
    alert_email="you@example.com",
)
CLUSTERS = (_CPU, replace(_CPU, name="acceptance-gpu", instance_type="g6.xlarge"))
