"""The clusters of this project, one typed entry each: they replace those that come with Slipway.

`slipway preflight my-cluster` checks them against the account. To change a setting for one command:
`cdk deploy my-cluster -c my-cluster.max_nodes=4`. A wrong value is refused with what is allowed.
"""

from __future__ import annotations

from slipway.infra import BatchCluster

CLUSTERS = (
    # AWS Batch starts nodes for a job. The other kinds are MpiCluster, SlurmCluster and SageMakerCluster.
    BatchCluster(
        # The name of every stack begins with it. Each project in an account needs another name.
        name="my-cluster",
        # 64 vCPUs, no accelerator, no EFA. `slipway instance list` lists others with their prices. For one
        # with NVIDIA GPUs, such as g6.xlarge or p5.48xlarge, write its name here; that is enough.
        instance_type="c6i.16xlarge",
        # The most nodes at a time. They start for a job, end after it, and are billed by the second.
        max_nodes=2,
        # The most attempts of a job: a lost node ends an attempt, and the next one resumes.
        job_attempts=3,
        # The region and one of its zones: nodes that train together stand side by side.
        region="us-east-1",
        zone="us-east-1a",
        # Nodes are private, in a network of their own. Networks that will be connected must not overlap.
        vpc_cidr="10.20.0.0/16",
        # True keeps bucket, files, keys and logs when the cluster is destroyed; they still cost money.
        keep_data=True,
        # A mail says when 80 and 100 % of this is spent, and when nodes fail to start. Set your own address.
        budget_usd_per_month=500,
        alert_email="you@example.com",
    ),
)
