"""The types of the entries in clusters.py: what a user declares. A new setting is one field with its check.

Entries are not checked as they are made: checks/clusters.py looks at all of them together, so that every
mistake is reported at once. No CDK types here: commands read declarations, and run without aws_cdk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar

from slipway.infra.declare.checks.values import (
    all_among,
    between,
    cluster_name,
    fsx_capacity,
    known_instance_type,
    known_region,
    known_training_type,
    matching,
    one_of,
)
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.sagemaker import SHARED_FILES
from slipway.jobs.words.slurm import SHARED


class ClusterKind(StrEnum):
    BATCH = "batch"
    MPI = "mpi"
    SLURM = "slurm"
    SAGEMAKER = "sagemaker"


class Market(StrEnum):
    """Names how capacity is bought."""

    ON_DEMAND = "on-demand"
    OPEN_RESERVATION = "open-reservation"
    TARGETED_RESERVATION = "targeted-reservation"
    CAPACITY_BLOCK = "capacity-block"
    SPOT = "spot"  # AWS Batch runs no multi-node jobs on it, and says so only after submission


class Egress(StrEnum):
    """Names how private subnets reach AWS: through interface endpoints, or also through a NAT gateway."""

    ENDPOINTS = "endpoints"
    NAT = "nat"


class Mpi(StrEnum):
    """Names the MPI that starts a job's processes; the machine image has it."""

    OPEN_MPI = "open-mpi"
    INTEL_MPI = "intel-mpi"
    MPICH = "mpich"


class ControllerSize(StrEnum):
    """Names a size of AWS PCS's managed Slurm controller, which cannot change once it is deployed."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class FileSystem(StrEnum):
    NONE = "none"
    EFS = "efs"
    FSX_LUSTRE = "fsx-lustre"


# The periods that CloudWatch Logs keeps (PutRetentionPolicy, retentionInDays).
# fmt: off
_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731,
    1096, 1827, 2192, 2557, 2922, 3288, 3653,
)
# fmt: on

_ACCOUNT = matching(r"[0-9]{12}", "an account of twelve digits", longest=12)
_RESERVATION = matching(
    r"cr-([0-9a-f]{8}|[0-9a-f]{17})", "a capacity reservation such as cr-0123456789abcdef0", longest=20
)
# Services that every node calls; file systems have addresses of their own in the subnet.
_CALLED = (
    "logs",
    "monitoring",  # for the nodes' reports whether they are idle
    # Systems Manager's agent needs no ec2messages from release 3.3.40.0 on (its user guide, "Improve the
    # security of EC2 instances by using VPC endpoints for Systems Manager").
    "ssm",
    "ssmmessages",
    "secretsmanager",
    "sts",
)
ADDABLE = ("lustre-client", *Mpi)  # names in locks; drivers and agents come only with a machine image
_PARAMETER = matching(
    r"(/[A-Za-z0-9_.-]+)+", "a full SSM parameter name such as /slipway/amis/gaudi-ecs/id", longest=1011
)
_IMAGE = matching(r"[a-z0-9]+([._-][a-z0-9]+)*", "the name of a folder of containers/images", longest=64)
# EC2 Auto Scaling user guide, "Create scheduled actions": five fields, as in crontab.
_CRON = matching(
    r"[0-9*,/-]+( [0-9*,/-]+){2} [0-9A-Za-z*,/-]+ [0-9A-Za-z*,/-]+",
    "five fields such as 0 8 * * MON-FRI",
    longest=64,
)
_TIME_ZONE = matching(r"[A-Za-z]+(/[A-Za-z0-9_+-]+)*", "a time zone such as Europe/Berlin", longest=64)
_EMAIL = matching(r"[^@\s,;<>]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", "one e-mail address", longest=254)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Declares what every kind has: equal nodes in one zone, their network, files and budget."""

    kind: ClassVar[ClusterKind]
    services: ClassVar[tuple[str, ...]]  # AWS's, called by the machines; each becomes an interface endpoint
    shared_mount: ClassVar[str] = "/mnt/shared"  # path of the shared files on every node

    name: Annotated[str, cluster_name]
    instance_type: Annotated[str, known_instance_type]
    max_nodes: Annotated[int, between(1, 1000)]
    region: Annotated[str, known_region]
    zone: str
    account: Annotated[str, _ACCOUNT] | None = None  # None: the credentials' account
    efa_interfaces: int | None = None  # None: one for each network card, as many as the type has
    market: Market = Market.ON_DEMAND
    # The id of the targeted reservation or the capacity block.
    reservation_id: Annotated[str, _RESERVATION] | None = None
    vpc_cidr: str = "10.20.0.0/16"
    peer_cidrs: tuple[str, ...] = ()  # networks with which this one will be peered
    egress: Egress = Egress.ENDPOINTS
    file_system: FileSystem = FileSystem.EFS
    fsx_capacity_gib: Annotated[int, fsx_capacity] = 1200
    fsx_mbps_per_tib: Annotated[int, one_of(125, 250, 500, 1000)] = 125
    log_retention_days: Annotated[int, one_of(*_RETENTION_DAYS)] = 365
    budget_usd_per_month: Annotated[int, between(1, 100_000_000, "dollars")]
    alert_email: Annotated[str, _EMAIL]
    keep_data: bool = True  # False: bucket, repositories, file system and key are deleted with the stack
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def billing_tags(self) -> Mapping[str, str]:
        """Return the declared tags and the cluster's own, by which its budget counts."""
        return MappingProxyType({**self.tags, CLUSTER_TAG: self.name})

    @property
    def keeps_lustre(self) -> bool:
        """Return True if a Lustre outlives the cluster: it holds on to its subnet and its security group."""
        return self.keep_data and self.file_system is FileSystem.FSX_LUSTRE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCluster(Cluster):
    """Declares what is common to kinds with EC2 instances of your own account: the nodes' AMI and disk."""

    # What nodes boot; None: what the type's accelerators need (jobs/words/catalogue/hardware.py).
    machine_image: Annotated[str, _IMAGE] | None = None  # a folder of containers/images, or an AMI of AWS's
    ami_parameter: Annotated[str, _PARAMETER] | None = None  # None: where that image is published
    # For an AMI of your own: the machine image of Slipway's that it was made from, and what you added.
    ami_made_from: Annotated[str, _IMAGE] | None = None
    ami_adds: Annotated[tuple[str, ...], all_among(*ADDABLE)] = ()
    root_volume_gib: Annotated[int, between(50, 16384, "GiB")] = 200
    join_minutes: Annotated[int, between(15, 240, "minutes")] = 30  # a node that takes longer ends itself


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCluster(NodeCluster):
    """Declares a cluster for AWS Batch multi-node jobs, scaled from zero."""

    kind: ClassVar[ClusterKind] = ClusterKind.BATCH
    services: ClassVar[tuple[str, ...]] = (
        "ecr.api",
        "ecr.dkr",
        "ecs",
        "ecs-agent",
        "ecs-telemetry",
        *_CALLED,
    )

    max_nodes: Annotated[int, between(1, 1000, why="AWS Batch runs a job on at most 1000 nodes")]
    # A folder of containers/images; None: the one for the accelerators of the type.
    image: Annotated[str, _IMAGE] | None = None
    job_timeout_hours: Annotated[int, between(1, 8760, "hours")] = 48
    job_attempts: Annotated[int, between(1, 10, why="1 is no retry")] = 3
    runnable_timeout_minutes: Annotated[int, between(10, 1440, "minutes")] = 60

    @property
    def job_timeout(self) -> timedelta:
        return timedelta(hours=self.job_timeout_hours)

    @property
    def runnable_timeout(self) -> timedelta:
        return timedelta(minutes=self.runnable_timeout_minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiCluster(NodeCluster):
    """Declares machines that start jobs over MPI and ssh: all max_nodes run, or none."""

    kind: ClassVar[ClusterKind] = ClusterKind.MPI
    # Nodes find each other by EC2's answers, and stop Auto Scaling from removing one that has a job.
    services: ClassVar[tuple[str, ...]] = ("autoscaling", "ec2", *_CALLED)

    max_nodes: Annotated[
        int, between(1, 50, why="EC2 Auto Scaling protects 50 nodes of a group from scaling in, not more")
    ]
    vpc_cidr: str = "10.30.0.0/16"
    mpi: Mpi = Mpi.OPEN_MPI
    ssh_cidrs: tuple[str, ...] = ()  # networks that may reach port 22, besides the nodes themselves
    idle_minutes: Annotated[int, between(10, 1440, "minutes")] | None = 60  # then to none; None: never
    start_at: Annotated[str, _CRON] | None = None  # starts all nodes
    stop_at: Annotated[str, _CRON] | None = None  # stops all nodes as soon as no job runs
    time_zone: Annotated[str, _TIME_ZONE] = "Etc/UTC"  # of the two above
    job_timeout_hours: Annotated[int, between(1, 48, "hours", why="Systems Manager ends a command then")] = 48

    @property
    def job_timeout(self) -> timedelta:
        return timedelta(hours=self.job_timeout_hours)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmCluster(NodeCluster):
    """Declares a Slurm cluster on AWS PCS: a permanent login node, and workers from none to max_nodes."""

    kind: ClassVar[ClusterKind] = ClusterKind.SLURM
    # An instance calls PCS only to register.
    services: ClassVar[tuple[str, ...]] = ("pcs", *_CALLED)
    shared_mount: ClassVar[str] = SHARED

    max_nodes: Annotated[
        int,
        between(1, 2047, why="AWS PCS has at most 2048 nodes in a cluster, one of them to log in"),
    ]
    vpc_cidr: str = "10.50.0.0/16"
    # None: a small type with the workers' processor architecture, as it boots their AMI.
    login_instance_type: Annotated[str, known_instance_type] | None = None
    controller: ControllerSize | None = None  # None: the smallest that has room for max_nodes
    scratch: bool = False  # an FSx for Lustre besides the shared home: datasets and compiled graphs
    rest_api: bool = False  # slurmrestd, reachable only from the nodes
    idle_minutes: Annotated[int, between(1, 1440, "minutes")] = 10  # then a worker without a job ends
    job_timeout_hours: Annotated[int, between(1, 8760, "hours")] = 48  # the longest that a job may ask for

    @property
    def keeps_lustre(self) -> bool:
        return self.keep_data and (self.scratch or self.file_system is FileSystem.FSX_LUSTRE)

    @property
    def job_timeout(self) -> timedelta:
        return timedelta(hours=self.job_timeout_hours)


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerCluster(Cluster):
    """Declares what training jobs of SageMaker may use: it starts instances for a job, and ends them."""

    kind: ClassVar[ClusterKind] = ClusterKind.SAGEMAKER
    # SageMaker pulls the image and writes the log from a network of its own; a job's container reads S3 (its
    # developer guide, "Give training jobs access to resources in your Amazon VPC").
    services: ClassVar[tuple[str, ...]] = ()
    shared_mount: ClassVar[str] = SHARED_FILES

    instance_type: Annotated[str, known_training_type]  # with SageMaker's prefix: ml.p4d.24xlarge
    max_nodes: Annotated[int, between(1, 1000)]  # of one job
    vpc_cidr: str = "10.60.0.0/16"
    file_system: FileSystem = FileSystem.NONE
    machine_image: Annotated[str, _IMAGE] = "sagemaker-pytorch"  # its lock names AWS's training image
    volume_gb: Annotated[int, between(1, 16384, "GB")] = 200  # of an instance without local storage
    job_timeout_hours: Annotated[
        int, between(1, 672, "hours", why="SageMaker ends every training job after 28 days")
    ] = 24
    spot_wait_hours: Annotated[int, between(1, 672, "hours")] = 12  # for Spot, beside the job's own time
    # Billed after each job; 0: none. The developer guide ("Managed warm pools") has 60, the API's model 360.
    warm_pool_minutes: Annotated[int, between(0, 60, "minutes")] = 0

    @property
    def job_timeout(self) -> timedelta:
        return timedelta(hours=self.job_timeout_hours)

    @property
    def spot_wait(self) -> timedelta:
        """Return how long a job may wait for Spot; nothing for instances on demand."""
        return timedelta(hours=self.spot_wait_hours) if self.market is Market.SPOT else timedelta()

    @property
    def warm_pool(self) -> timedelta:
        return timedelta(minutes=self.warm_pool_minutes)
