"""The clusters we deploy, one typed entry each. Override one with `cdk deploy --all -c dl1.max_nodes=4`."""

from __future__ import annotations

from infra.config import BatchCluster

CLUSTERS = (
    # BERT pre-training with DeepSpeed on first-generation Gaudi: eight accelerators a node.
    BatchCluster(
        name="dl1",
        instance_type="dl1.24xlarge",
        max_nodes=16,
        region="us-east-1",
        zone="us-east-1a",
        budget_usd_per_month=5000,
        alert_email="you@example.com",
    ),
)
