"""The clusters we deploy, one typed entry each. Override one with `cdk deploy --all -c dl1.max_nodes=4`."""

from __future__ import annotations

from infra.config import BatchCluster, MpiCluster

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
    # BERT fine-tuning on processors, over MPI. c6i.32xlarge has EFA, and twice the cores.
    MpiCluster(
        name="c6i",
        instance_type="c6i.16xlarge",
        max_nodes=4,
        region="us-east-1",
        zone="us-east-1a",
        budget_usd_per_month=1000,
        alert_email="you@example.com",
    ),
)
