"""The record that infra writes is read unchanged by jobs, and a foreign one is named."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.words.targets import (
    MAX_BYTES,
    BatchTarget,
    DamagedTarget,
    MpiTarget,
    SageMakerTarget,
    SlurmTarget,
    Target,
    decode_target,
    encode_target,
    parameter_name,
)

TARGET = BatchTarget(
    name="dl1",
    account="123456789012",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="dl1.24xlarge",
    max_nodes=16,
    queue_arn="arn:aws:batch:us-east-1:123456789012:job-queue/slipway-dl1",
    job_definition_arn="arn:aws:batch:us-east-1:123456789012:job-definition/slipway-dl1:3",
    log_group="/slipway/dl1",
    bucket="slipway-dl1-data",
    image="gaudi",
    image_tag="1.18.0-0123456789ab",
    repository_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/slipway/gaudi",
    build_project="slipway-dl1-build",
    job_timeout_seconds=48 * 3600,
    job_attempts=3,
    efa_interfaces=4,
    file_system_id="fs-0123456789abcdef0",
    file_system_mount="/mnt/shared",
)

MPI_TARGET = MpiTarget(
    name="c6i",
    account="123456789012",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="c6i.16xlarge",
    is_spot=False,
    max_nodes=4,
    node_group="slipway-c6i",
    run_document="slipway-c6i-run",
    stop_document="slipway-c6i-stop",
    log_group="/slipway/c6i",
    bucket="slipway-c6i-data",
    machine_image="cpu-mpi",
    ami_parameter="/slipway/amis/cpu-mpi/id",
    mpi="open-mpi",
    job_timeout_seconds=24 * 3600,
    efa_interfaces=0,
    file_system_id="fs-0123456789abcdef0",
    file_system_mount="/mnt/shared",
)

SLURM_TARGET = SlurmTarget(
    name="trn1",
    account="123456789012",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="trn1.32xlarge",
    is_spot=False,
    max_nodes=16,
    scheduler_cluster="pcs_0123456789",
    queue="trn1",
    node_group="pcs_1123456789",
    login_group="pcs_2123456789",
    run_document="slipway-trn1-run",
    log_group="/slipway/trn1",
    bucket="slipway-trn1-data",
    machine_image="neuron-slurm",
    ami_parameter="/slipway/amis/neuron-slurm/id",
    slurm_version="25.05",
    job_timeout_seconds=48 * 3600,
    efa_interfaces=8,
    file_system_id="fs-0123456789abcdef0",
    file_system_mount="/shared",
    scratch_mount=None,
)


SAGEMAKER_TARGET = SageMakerTarget(
    name="gptj",
    account="123456789012",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="ml.p4d.24xlarge",
    is_spot=True,
    max_nodes=2,
    execution_role="arn:aws:iam::123456789012:role/slipway-gptj-training",
    bucket="slipway-gptj-data",
    subnet="subnet-0123456789abcdef0",
    security_group="sg-0123456789abcdef0",
    volume_gb=500,
    volume_key="arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555",
    output_key=None,
    machine_image="sagemaker-pytorch",
    image="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-sagemaker",
    job_timeout_seconds=24 * 3600,
    spot_wait_seconds=6 * 3600,
    warm_pool_seconds=0,
    efa_interfaces=4,
    file_system_id="fs-0123456789abcdef0",
    file_system_mount="/opt/ml/input/data/shared",
    file_system_path="/abcdefgh",
)


@pytest.mark.parametrize(
    "target", [TARGET, MPI_TARGET, SLURM_TARGET, SAGEMAKER_TARGET], ids=lambda target: target.kind
)
def test_what_infra_writes_is_what_jobs_read(target: Target) -> None:
    assert decode_target(encode_target(target), parameter="p") == target


@given(log_group=st.text(max_size=100), mount=st.none() | st.text(max_size=100), nodes=st.integers(1, 1000))
def test_any_text_survives_the_record(log_group: str, mount: str | None, nodes: int) -> None:
    target = replace(TARGET, log_group=log_group, file_system_mount=mount, max_nodes=nodes)
    assert decode_target(encode_target(target), parameter="p") == target


def test_a_long_record_still_fits_a_standard_parameter() -> None:
    long = replace(TARGET, name="n" * 64, log_group="l" * 512, repository_uri="r" * 300, queue_arn="q" * 250)
    assert len(encode_target(long).encode()) <= MAX_BYTES
    arn = "a" * 256  # of a role: 20 to 2,048 by the API, but an IAM path and name have 576 at most
    own = replace(SAGEMAKER_TARGET, name="n" * 64, execution_role="r" * 600, volume_key=arn, output_key=arn)
    text = encode_target(replace(own, image="i" * 255))
    assert len(text.encode()) <= MAX_BYTES
    assert own.log_group == "/aws/sagemaker/TrainingJobs"
    assert "log_group" not in json.loads(text), "SageMaker chose it"
    assert parameter_name("dl1") == "/slipway/targets/dl1"


def _record(**changes: object) -> str:
    record = json.loads(encode_target(TARGET)) | changes
    return json.dumps({key: value for key, value in record.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ami-0123456789", "is not JSON"),
        ("[]", "holds a list where a target is an object"),
        (_record(schema=0), "has schema 0, but this Slipway reads 1"),
        (_record(schema=...), "has schema None"),
        (_record(kind="pbs"), "has kind 'pbs'; known are batch, mpi, slurm, sagemaker"),
        (_record(kind=[]), "has kind"),
        (_record(bucket=..., image=...), "lacks bucket, lacks image"),
        (_record(nodes=4), "has the unknown field nodes"),
        (_record(max_nodes="16"), "has max_nodes = '16', not a whole number"),
        (_record(max_nodes=True), "has max_nodes = True, not a whole number"),
        (_record(file_system_id=7), "has file_system_id = 7, not a text or null"),
        (_record(bucket=None), "has bucket = None, not a text"),
    ],
)
def test_a_foreign_record_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(DamagedTarget) as refusal:
        decode_target(text, parameter="/slipway/targets/dl1")
    assert said in refusal.value.message
    assert "/slipway/targets/dl1" in refusal.value.message
    assert "deploy the cluster again" in refusal.value.hint
