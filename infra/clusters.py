"""The clusters we deploy and the machine images we bake, one typed entry each.

Override a cluster's setting with `cdk deploy --all -c dl1.max_nodes=4`.
"""

from __future__ import annotations

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import BatchCluster, MpiCluster, SageMakerCluster, SlurmCluster

CLUSTERS = (
    # BERT pre-training with DeepSpeed on first-generation Gaudi: eight accelerators in each node.
    BatchCluster(
        name="dl1",
        instance_type="dl1.24xlarge",
        max_nodes=16,
        region="us-east-1",
        zone="us-east-1a",
        budget_usd_per_month=5000,
        alert_email="you@example.com",
    ),
    # The same training over MPI: AWS Batch supports multi-node jobs only on Amazon Linux, Habana only Ubuntu.
    MpiCluster(
        name="dl1-mpi",
        instance_type="dl1.24xlarge",
        machine_image="gaudi-mpi",
        ami_parameter="/slipway/amis/gaudi-mpi/id",
        max_nodes=16,
        region="us-east-1",
        zone="us-east-1a",
        vpc_cidr="10.40.0.0/16",
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
    # GPT-NeoX under Slurm on Trainium: sixteen devices and eight network cards in each node.
    SlurmCluster(
        name="trn1",
        instance_type="trn1.32xlarge",
        max_nodes=16,
        region="us-east-1",
        zone="us-east-1a",
        budget_usd_per_month=20000,
        alert_email="you@example.com",
    ),
    # GPT-J 6B fine-tuning in training jobs of SageMaker, which starts instances of eight A100 for each job.
    # An account may run none until SageMaker's own quota is raised; a warm pool has another quota, and is
    # billed.
    SageMakerCluster(
        name="sagemaker",
        instance_type="ml.p4d.24xlarge",
        max_nodes=2,
        region="us-east-1",
        zone="us-east-1a",
        budget_usd_per_month=2000,
        alert_email="you@example.com",
    ),
)

# Each lock names a release of Ubuntu as the parent; `slipway image pin` moves it with the packages.
_EVERY_NODE = ("base-apt", "ssh-hardening", "efa", "efs-utils")
_BOOT = ("payload", "node-boot")

MACHINE_IMAGES = (
    # For clusters over MPI. Built on a small type; EFA itself is tested only on nodes that have it.
    MachineImage(
        name="cpu-mpi",
        runs_on="c6i.32xlarge",
        instance_type="c6i.16xlarge",
        region="us-east-1",
        zone="us-east-1a",
        parent="ssm:/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id",
        components=(*_EVERY_NODE, *_BOOT, "open-mpi", "python-venv", "slipway-node"),
    ),
    # For Slurm on Trn1, where a driver newer than the SDK's breaks training: built on a type with a device.
    MachineImage(
        name="neuron-slurm",
        runs_on="trn1.32xlarge",
        instance_type="trn1.2xlarge",
        region="us-east-1",
        zone="us-east-1a",
        parent="ssm:/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
        components=(
            *_EVERY_NODE,
            *_BOOT,
            "neuron-driver",
            "neuron-tools",
            "python-venv",
            "neuron-training",
            "pcs-agent",
            "slurm-client",
            "slurm-node",
        ),
        root_volume_gib=60,
    ),
    # For AWS Batch on first-generation Gaudi, whose only type is large and expensive: built without a device.
    MachineImage(
        name="gaudi-ecs",
        runs_on="dl1.24xlarge",
        instance_type="c6i.16xlarge",
        region="us-east-1",
        zone="us-east-1a",
        parent="ssm:/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
        components=(*_EVERY_NODE, *_BOOT, "habanalabs", "container-runtime", "ecs-agent"),
        root_volume_gib=60,
    ),
    # For Gaudi over MPI: ranks run on the machine itself, in the vendor's PyTorch.
    MachineImage(
        name="gaudi-mpi",
        runs_on="dl1.24xlarge",
        instance_type="c6i.16xlarge",
        region="us-east-1",
        zone="us-east-1a",
        parent="ssm:/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
        components=(
            *_EVERY_NODE,
            *_BOOT,
            "habanalabs",
            "gaudi-training",
            "open-mpi",
            "python-venv",
            "slipway-node",
        ),
        root_volume_gib=60,
    ),
)
