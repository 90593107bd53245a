"""The cluster that app.py adds to its network. Slipway's commands read this file, too."""

from __future__ import annotations

from slipway.infra import BatchCluster, Egress

CLUSTERS = (
    BatchCluster(
        name="guest",
        instance_type="dl1.24xlarge",
        max_nodes=2,
        region="us-east-1",
        zone="us-east-1b",
        egress=Egress.NAT,  # through the NAT gateway of the VPC in app.py
        budget_usd_per_month=2000,
        alert_email="you@example.com",
    ),
)
