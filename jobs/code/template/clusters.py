"""The clusters of this project, one typed entry each: they replace those that come with Slipway.

`slipway preflight my-cluster` checks them against the account. A setting can be changed for one command:
`cdk deploy my-cluster -c my-cluster.max_nodes=4`. A wrong one is refused with what is allowed.
"""

from __future__ import annotations

from slipway.infra import MpiCluster

CLUSTERS = (
    # Machines that start a job over MPI. The other kinds are BatchCluster, SlurmCluster and SageMakerCluster.
    MpiCluster(
        # Begins the name of every stack. Another project of the account needs another one.
        name="my-cluster",
        # 64 vCPUs, no accelerator, no EFA. `slipway instance list` lists others with their prices.
        instance_type="c6i.16xlarge",
        # They all run while a job does, and are billed by the second.
        max_nodes=2,
        # So long after the last job they end.
        idle_minutes=30,
        # The region and one of its zones: nodes that train together stand side by side.
        region="us-east-1",
        zone="us-east-1a",
        # Nodes are private, in a network of their own. Networks that will be connected must not overlap.
        vpc_cidr="10.30.0.0/16",
        # True keeps bucket, files, keys and logs when the cluster is destroyed, and they cost money then.
        keep_data=True,
        # A mail says when this much of it is spent, and when machines fail to start. Set your own address.
        budget_usd_per_month=500,
        alert_email="you@example.com",
    ),
)
