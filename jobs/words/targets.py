"""Deployed clusters, to which jobs can be submitted: infra writes each as one SSM parameter, jobs reads it.

A new fact is one field here and one argument where infra makes the target; a new kind is a class and a row of
KINDS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.text import decode_json, refuse_newer

SCHEMA_VERSION = 1
PARAMETER_ROOT = "/slipway/targets"
MAX_BYTES = 4096  # limit of a standard SSM parameter


class DamagedTarget(SlipwayError):
    """Slipway did not write this record, or something else has changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTarget:
    """Describes a deployed Batch cluster. Infra fills it with CDK tokens, so nothing is checked here."""

    kind: ClassVar[str] = "batch"
    is_spot: ClassVar[bool] = False  # AWS Batch runs multi-node jobs on no Spot instances

    name: str
    account: str
    region: str
    zone: str
    instance_type: str
    max_nodes: int
    queue_arn: str
    job_definition_arn: str  # of the deployed revision
    log_group: str
    bucket: str
    image: str  # a folder of containers/images
    image_tag: str  # in the job definition; `slipway image build` pushes it
    repository_uri: str
    build_project: str  # the CodeBuild project that `slipway image build` starts
    job_timeout_seconds: int  # of one attempt; a job may ask for less
    job_attempts: int
    efa_interfaces: int  # of a node
    file_system_id: str | None  # None: the cluster has no shared files
    file_system_mount: str | None  # its path in containers
    has_internet: bool = False  # True: nodes reach more than AWS's endpoints
    capacity_block: str | None = None  # its nodes' reservation, which has an end


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiTarget:
    """Describes a deployed cluster of equal machines that run one mpirun at a time."""

    kind: ClassVar[str] = "mpi"
    capacity_block: ClassVar[None] = None  # AWS sells them for types that no cluster of this kind drives

    name: str
    account: str
    region: str
    zone: str
    instance_type: str
    is_spot: bool  # True: AWS may take its machines back at two minutes' notice
    max_nodes: int
    node_group: str  # the name of its Auto Scaling group
    run_document: str  # Systems Manager document that starts a job on the main node
    stop_document: str  # Systems Manager document that ends a job's leftovers on any node
    log_group: str  # for the output of the run document
    bucket: str  # for requests, code and the cluster's readiness
    machine_image: str  # a folder of containers/images
    ami_parameter: str  # the SSM parameter with the AMI's id
    mpi: str  # of the AMI: a key of MPIS in jobs/words/mpi.py
    job_timeout_seconds: int
    efa_interfaces: int  # of a node
    file_system_id: str | None  # None: the cluster has no shared files
    file_system_mount: str | None
    has_internet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmTarget:
    """Describes a deployed AWS PCS cluster: one queue, its workers, and a login node that takes jobs."""

    kind: ClassVar[str] = "slurm"

    name: str
    account: str
    region: str
    zone: str
    instance_type: str
    is_spot: bool
    max_nodes: int
    scheduler_cluster: str  # PCS's id of its cluster
    queue: str  # its name, which is Slurm's partition
    node_group: str  # the id of the workers' compute node group
    login_group: str  # the id of the login node's group: jobs/words/slurm.py, GROUP_TAG
    run_document: str  # of Systems Manager: it acts on the login node
    log_group: str  # for the output of the run document
    bucket: str
    machine_image: str  # a folder of containers/images
    ami_parameter: str
    slurm_version: str
    job_timeout_seconds: int
    efa_interfaces: int  # of a node
    file_system_id: str | None  # None: nodes share no files, and jobs have no logs
    file_system_mount: str | None
    scratch_mount: str | None  # mount point of FSx for Lustre
    has_internet: bool = False
    capacity_block: str | None = None  # its nodes' reservation, which has an end
    container: str | None = None  # URI of the ranks' image; None: they run on the node itself
    capacity: str = "pcs"  # the only value; records of deployed clusters have it


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerTarget:
    """Describes what a training job of SageMaker may use: no machine exists before a job asks for it."""

    kind: ClassVar[str] = "sagemaker"
    log_group: ClassVar[str] = "/aws/sagemaker/TrainingJobs"  # SageMaker's choice, for all jobs of an account
    capacity_block: ClassVar[None] = None  # SageMaker uses no reservation of EC2

    name: str
    account: str
    region: str
    zone: str
    instance_type: str  # with SageMaker's prefix: ml.p4d.24xlarge
    is_spot: bool
    max_nodes: int  # instances of one job
    execution_role: str  # its ARN
    bucket: str
    subnet: str
    security_group: str
    volume_gb: int
    volume_key: str | None  # the ARN of a KMS key; None: SageMaker's own
    output_key: str | None  # the ARN of a KMS key; None: S3's own
    machine_image: str  # the training image's name: a folder of containers/images
    image: str  # the training image's URI
    job_timeout_seconds: int  # MaxRuntimeInSeconds
    spot_wait_seconds: int  # how long a job may wait for Spot, besides its own time
    warm_pool_seconds: int  # for which instances are kept, and billed, after a job; 0: not at all
    efa_interfaces: int  # of an instance
    file_system_id: str | None  # FSx for Lustre; None: jobs share no files
    file_system_mount: str | None  # its path in a training container
    file_system_path: str | None  # path of the mounted folder in the file system; begins with its mount name
    has_internet: bool = False


Target = BatchTarget | MpiTarget | SlurmTarget | SageMakerTarget

KINDS: Mapping[str, type[Target]] = {
    kind.kind: kind for kind in (BatchTarget, MpiTarget, SlurmTarget, SageMakerTarget)
}


def parameter_name(cluster: str) -> str:
    return f"{PARAMETER_ROOT}/{cluster}"


def encode_target(target: Target) -> str:
    text = json.dumps({"schema": SCHEMA_VERSION, "kind": target.kind, **asdict(target)}, ensure_ascii=False)
    assert len(text.encode()) <= MAX_BYTES, (
        f"the record of target {target.name} does not fit an SSM parameter"
    )
    return text


def decode_target(text: str, *, parameter: str) -> Target:
    """Decode a record; `parameter` names it in errors."""
    try:
        record = decode_json(text)
    except ValueError as error:
        raise _damaged(parameter, f"is not JSON ({error})") from None
    if not isinstance(record, dict):
        raise _damaged(parameter, f"holds a {type(record).__name__} where a target is an object")
    # Takes `schema` and `kind` out of the record; the rest are the target's fields.
    schema, kind = record.pop("schema", None), record.pop("kind", None)
    refuse_newer(schema, SCHEMA_VERSION, f"the SSM parameter {parameter}")
    if schema != SCHEMA_VERSION:
        raise _damaged(parameter, f"has schema {schema!r}, but this Slipway reads {SCHEMA_VERSION}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise _damaged(parameter, f"has kind {kind!r}; known are {', '.join(KINDS)}")
    target_type = KINDS[kind]
    known = [field.name for field in fields(target_type)]
    wrong = wrong_fields(target_type, record)
    wrong += [f"has the unknown field {name}" for name in record if name not in known]
    if wrong:
        raise _damaged(parameter, ", ".join(wrong))
    return target_type(**record)


def _damaged(parameter: str, what: str) -> DamagedTarget:
    return DamagedTarget(
        f"the SSM parameter {parameter} {what}",
        hint="deploy the cluster again with this version of Slipway: that writes the parameter again",
    )
