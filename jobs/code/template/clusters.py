"""The clusters of this project, one typed entry each: they replace those that come with Slipway.

`slipway preflight my-cluster` checks them against the account. A setting can be changed for one command:
`cdk deploy my-cluster -c my-cluster.max_nodes=4`. A wrong one is refused with what is allowed.
"""

from __future__ import annotations

from slipway.infra import BatchCluster

CLUSTERS = (
    # AWS Batch starts nodes for a job. The other kinds are MpiCluster, SlurmCluster and SageMakerCluster.
    BatchCluster(
        # Begins the name of every stack. Another project of the account needs another one.
        name="my-cluster",
        # 64 vCPUs, no accelerator, no EFA. `slipway instance list` lists others with their prices. Those with
        # NVIDIA GPUs, as g6.xlarge or p5.48xlarge, need no more than their name here.
        instance_type="c6i.16xlarge",
        # The most at a time. They come with a job, end after it, and are billed by the second.
        max_nodes=2,
        # A job runs so often at most: a lost node ends an attempt, and the next one resumes.
        job_attempts=3,
        # The region and one of its zones: nodes that train together stand side by side.
        region="us-east-1",
        zone="us-east-1a",
        # Nodes are private, in a network of their own. Networks that will be connected must not overlap.
        vpc_cidr="10.20.0.0/16",
        # True keeps bucket, files, keys and logs when the cluster is destroyed, and they cost money then.
        keep_data=True,
        # A mail says when this much of it is spent, and when machines fail to start. Set your own address.
        budget_usd_per_month=500,
        alert_email="you@example.com",
    ),
)
