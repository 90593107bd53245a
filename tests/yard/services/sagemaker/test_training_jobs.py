"""A training job runs by AWS's own toolkit and ends as on SageMaker, or is refused in its words."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.jobs.platforms.sagemaker.request import build_request
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.yard.endpoint import control
from slipway.yard.errors import ApiError
from slipway.yard.machines.isolation.tiers import TIERS
from slipway.yard.services.sagemaker.training import checks, plan
from tests.jobs.words.test_targets import SAGEMAKER_TARGET
from tests.yard.asking import make_role
from tests.yard.services.sagemaker.training_site import BUCKET, BY_SAGEMAKER, IMAGE, TrainingSite

JOB = Job(name="saves", recipe="smoke", nodes=1)


def test_a_job_is_refused_before_it_starts_where_the_toolkit_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "TOOLKIT", ("no_such_toolkit",))
    with pytest.raises(
        ApiError, match=r"no_such_toolkit\) is not installed: pip install 'slipway\[toolkit\]'"
    ):
        plan.refuse_unknown(IMAGE, "us-east-1")


# One text for each print: the toolkit ends a line at each write of an unbuffered script.
CONTRACT = """
import json, os, pathlib, socket, sys
print(f"arguments {sys.argv[1:]}")
print(f"host {os.environ['SM_CURRENT_HOST']} of {os.environ['SM_HOSTS']}")
print(f"second {socket.gethostbyname('algo-2')}")
print(f"job {os.environ['TRAINING_JOB_NAME']} says {os.environ['GREETING']}")
config = json.loads(pathlib.Path("/opt/ml/input/config/resourceconfig.json").read_text())
print(f"resources {config['current_host']} {config['hosts']} {config['network_interface_name']}")
words = pathlib.Path(os.environ["SM_CHANNEL_WORDS"], "deep/words.txt")
print(f"words {words.read_text()}")
print("loss=2.5")
print("loss=0.125")
host = os.environ["SM_CURRENT_HOST"]
pathlib.Path("/opt/ml/model", host).write_text(host)
pathlib.Path("/opt/ml/output/data", "notes").write_text(host)
pathlib.Path("/opt/ml/output/tensorboard", "events").write_text(host)
"""
FAILS = "raise ValueError('the loss is not a number')"
WAITS = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.1)"
HEARS = """
import os, pathlib, signal, sys
def end(*_):
    pathlib.Path("/opt/ml/model/saved").touch()
    print("saved in time", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True: signal.pause()
"""
RESUMES = """
import pathlib, time
step = pathlib.Path("/opt/ml/checkpoints/step")
if step.exists():
    print(f"resumed at {step.read_text()}")
else:
    step.write_text("7")
    print("ready", flush=True)
    while True: time.sleep(0.1)
"""
SAVES = """
import os, pathlib, signal, sys, time
step = pathlib.Path("/opt/ml/checkpoints/step")
def save(*_):
    step.write_text(str(int(step.read_text()) + 1) if step.exists() else "1")
    print(f"saved {step.read_text()}", flush=True)
    sys.exit(143)
print(f"resumed at {step.read_text()}" if step.exists() else "began", flush=True)
time.sleep(0.5)  # it does not listen from the start
signal.signal(signal.SIGTERM, save)
while True: signal.pause()
"""


@pytest.fixture(scope="module")
def contract(site: TrainingSite) -> dict[str, Any]:
    """Two instances that show what they were given, once they have ended."""
    site.s3.put_object(Bucket=BUCKET, Key="words/deep/words.txt", Body=b"rain and shine")
    place = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/words"}
    site.train(
        "contract",
        CONTRACT,
        resources={"InstanceCount": 2},
        hyper_parameters={"learning-rate": 0.5},
        algorithm={"MetricDefinitions": [{"Name": "loss", "Regex": r"loss=([0-9.]+)"}]},
        Environment={"GREETING": "hello"},
        Tags=[{"Key": "run", "Value": "contract"}],
        TensorBoardOutputConfig={"S3OutputPath": f"s3://{BUCKET}/charts"},
        InputDataConfig=[{"ChannelName": "words", "DataSource": {"S3DataSource": place}}],
    )
    return site.ended("contract")


def test_every_instance_trains_in_the_container_contract(
    site: TrainingSite, contract: dict[str, Any]
) -> None:
    lines = "\n".join(site.lines("contract"))
    assert contract["TrainingJobStatus"] == "Completed", (contract.get("FailureReason"), lines)
    assert lines.count("arguments ['--learning-rate', '0.5']") == 2
    assert 'host algo-1 of ["algo-1","algo-2"]' in lines
    assert lines.count("second 10.0.0.11") == 2
    assert "resources algo-2 ['algo-1', 'algo-2'] eth0" in lines
    assert lines.count("job contract says hello") == 2
    assert lines.count("words rain and shine") == 2
    assert lines.count("Reporting training SUCCESS") == 2


def test_a_completed_job_leaves_an_archive_and_a_log_of_each_instance_and_charts_for_the_sdk(
    site: TrainingSite, contract: dict[str, Any]
) -> None:
    model = contract["ModelArtifacts"]["S3ModelArtifacts"]
    assert model == f"s3://{BUCKET}/jobs/contract/output/model.tar.gz"
    assert site.names_in(model) == ["algo-1", "algo-2"]
    assert site.names_in(model.replace("model.tar", "output.tar")) == ["notes"]
    first, second = site.streams("contract")
    assert first.startswith("contract/algo-1-")
    assert second.startswith("contract/algo-2-")
    assert site.keys("charts") == ["charts/contract/tensorboard-output/events"]


def test_a_job_says_what_it_went_through_and_measured(contract: dict[str, Any]) -> None:
    went_through = [entry["Status"] for entry in contract["SecondaryStatusTransitions"]]
    assert went_through == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    (loss,) = contract["FinalMetricDataList"]
    assert (loss["MetricName"], loss["Value"]) == ("loss", 0.125)
    assert contract["BillableTimeInSeconds"] <= contract["TrainingTimeInSeconds"] + 1


def test_a_job_is_found_by_name_state_and_tags(site: TrainingSite, contract: dict[str, Any]) -> None:
    listed = site.sagemaker.list_training_jobs(NameContains="contr", StatusEquals="Completed")
    assert [row["TrainingJobName"] for row in listed["TrainingJobSummaries"]] == ["contract"]
    arn = contract["TrainingJobArn"]
    site.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "cost", "Value": "mine"}])
    tags = {tag["Key"]: tag["Value"] for tag in site.sagemaker.list_tags(ResourceArn=arn)["Tags"]}
    assert tags == {"run": "contract", "cost": "mine"}
    with pytest.raises(ClientError, match=r"ResourceInUse.*names must be unique within an AWS account"):
        site.train("contract", CONTRACT)


def test_a_failed_job_passes_on_what_the_script_said(site: TrainingSite) -> None:
    site.train("fails", FAILS)
    job = site.ended("fails")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Failed", "Failed")
    assert job["FailureReason"].startswith("AlgorithmError: ExecuteUserScriptError:")
    assert "the loss is not a number" in job["FailureReason"]
    assert job["FailureReason"].endswith("exit code: 1")
    assert "ModelArtifacts" not in job


def test_a_script_in_awss_image_never_hears_of_a_stop(site: TrainingSite) -> None:
    site.train("deaf", HEARS)
    site.until(lambda: "ready" in site.lines("deaf"), "deaf")
    site.sagemaker.stop_training_job(TrainingJobName="deaf")
    job = site.ended("deaf")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert "saved in time" not in site.lines("deaf")
    with pytest.raises(ClientError, match="rejected because the training job is in status Stopped"):
        site.sagemaker.stop_training_job(TrainingJobName="deaf")


def test_the_entry_point_of_a_job_hears_of_a_stop_and_keeps_its_model(site: TrainingSite) -> None:
    site.train_alone("hears", HEARS)
    site.until(lambda: "ready" in site.lines("hears"), "hears")
    site.sagemaker.stop_training_job(TrainingJobName="hears")
    job = site.ended("hears")
    assert job["TrainingJobStatus"] == "Stopped"
    assert "saved in time" in site.lines("hears")
    assert site.names_in(job["ModelArtifacts"]["S3ModelArtifacts"]) == ["saved"]


def test_a_job_ends_when_its_time_is_over(site: TrainingSite) -> None:
    site.train_alone("endless", WAITS, StoppingCondition={"MaxRuntimeInSeconds": 60})
    job = site.ended("endless")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")


def test_an_interrupted_spot_job_goes_on_from_its_checkpoints(site: TrainingSite) -> None:
    site.train_alone(
        "spot",
        RESUMES,
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 86400, "MaxWaitTimeInSeconds": 86400},
        CheckpointConfig={"S3Uri": f"s3://{BUCKET}/kept"},
    )
    site.until(lambda: site.keys("kept"), "spot")
    control(site.yard, "POST", "/interrupt-training", {"job": "spot"})
    job = site.ended("spot")
    assert job["TrainingJobStatus"] == "Completed", job
    assert "resumed at 7" in site.lines("spot")
    assert len(site.streams("spot")) == 2
    assert "Interrupted" in [entry["Status"] for entry in job["SecondaryStatusTransitions"]]


def test_a_job_that_loses_an_instance_starts_again_as_often_as_it_may(site: TrainingSite) -> None:
    more = {
        "resources": {"InstanceCount": 2},
        "CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/lost"},
        "RetryStrategy": {"MaximumRetryAttempts": 1},
    }
    site.train_alone("lost", RESUMES, **more)
    site.until(lambda: site.keys("lost"), "lost")
    assert control(site.yard, "POST", "/kill-node", {"job": "los", "node": 1}) == "lost"
    job = site.ended("lost")
    assert job["TrainingJobStatus"] == "Completed", job
    assert site.lines("lost").count("resumed at 7") == 2
    assert statuses(site, "lost").count("Starting") == 2


def test_a_job_without_retries_fails_as_sagemakers_own_fault_when_it_loses_an_instance(
    site: TrainingSite,
) -> None:
    site.train_alone("falls", WAITS, resources={"InstanceCount": 2})
    site.until(lambda: site.lines("falls").count("ready") == 2, "falls")
    with pytest.raises(SlipwayError, match="job falls has no node 2; it has 0 to 1"):
        control(site.yard, "POST", "/kill-node", {"job": "falls", "node": 2})
    control(site.yard, "POST", "/kill-node", {"job": "falls", "node": 0})
    job = site.ended("falls")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Failed", "Failed")
    assert job["FailureReason"].startswith("InternalServerError: ")


def test_a_job_of_ours_saves_when_it_is_interrupted_and_when_it_is_stopped(site: TrainingSite) -> None:
    ours = build_request(JOB, SAGEMAKER_TARGET, module="a.module", code="c" * 64).create
    name, entry = "saves", ours["AlgorithmSpecification"].get("ContainerEntrypoint")
    site.train(
        name,
        SAVES,
        algorithm={"ContainerEntrypoint": entry} if entry else {},
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 86400, "MaxWaitTimeInSeconds": 86400},
        CheckpointConfig={"S3Uri": f"s3://{BUCKET}/saves"},
    )
    site.until(lambda: "began" in site.lines(name), name)
    control(site.yard, "POST", "/interrupt-training", {"job": name})
    site.until(lambda: "Interrupted" in statuses(site, name), name)
    assert "saved 1" in site.lines(name)
    site.until(lambda: "resumed at 1" in site.lines(name), name)
    site.sagemaker.stop_training_job(TrainingJobName=name)
    assert site.ended(name)["TrainingJobStatus"] == "Stopped"
    assert "saved 2" in site.lines(name)
    assert site.s3.get_object(Bucket=BUCKET, Key="saves/step")["Body"].read() == b"2"


def statuses(site: TrainingSite, name: str) -> list[str]:
    return [entry["Status"] for entry in site.describe(name)["SecondaryStatusTransitions"]]


# The yard refuses the training jobs that SageMaker refuses, before anything starts.
ELSEWHERE = "training-site-elsewhere"
SPOT: dict[str, Any] = {"EnableManagedSpotTraining": True}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no role", {"RoleArn": "arn:aws:iam::123456789012:role/nobody"}, "Could not assume role .*nobody"),
    (
        "no bucket",
        {"OutputDataConfig": {"S3OutputPath": "s3://there-is-no-such-bucket/jobs"}},
        "Please ensure that the bucket exists in the selected region \\(us-east-1\\)",
    ),
    (
        "a bucket of another region",
        {"CheckpointConfig": {"S3Uri": f"s3://{ELSEWHERE}/kept"}},
        "No S3 bucket training-site-elsewhere for CheckpointConfig .* in the selected region \\(us-east-1\\)",
    ),
    ("spot without a wait", SPOT, "MaxWaitTimeInSeconds. It must be present and be greater than or equal"),
    (
        "an image of another region",
        {"algorithm": {"TrainingImage": IMAGE.replace("us-east-1", "eu-west-1")}},
        "takes its image from its own region",
    ),
    ("no image of ECR", {"algorithm": {"TrainingImage": "docker.io/pytorch:2"}}, "Invalid image URI"),
    (
        "an unknown subnet",
        {"VpcConfig": {"Subnets": ["subnet-12345678"], "SecurityGroupIds": ["sg-12345678"]}},
        "The subnet ID 'subnet-12345678' does not exist",
    ),
    (
        "a key for disks that encrypt themselves",
        {"resources": {"InstanceType": "ml.p4d.24xlarge", "VolumeKmsKeyId": "alias/training"}},
        "VolumeKmsKeyId cannot be given for ml.p4d.24xlarge",
    ),
    ("another algorithm", {"algorithm": {"TrainingImage": IMAGE.replace("pytorch", "xgboost")}}, "xgboost"),
    (
        "Debugger",
        {"DebugHookConfig": {"S3OutputPath": f"s3://{BUCKET}/tensors"}},
        "CreateTrainingJob as it was asked \\(DebugHookConfig\\): .* without debugger_hook_config=False",
    ),
    ("Debugger's profiler", {"ProfilerConfig": {"DisableProfiler": False}}, "asked \\(ProfilerConfig\\)"),
    (
        "too many hyper-parameters",
        {"hyper_parameters": {f"setting-{number}": number for number in range(101)}},
        "have length less than or equal to 100",
    ),
]


@pytest.mark.parametrize(("changes", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_job_that_aws_would_refuse_is_refused(
    site: TrainingSite, changes: dict[str, Any], words: str
) -> None:
    buckets = [bucket["Name"] for bucket in site.s3.list_buckets()["Buckets"]]
    if ELSEWHERE not in buckets:
        where = {"LocationConstraint": "eu-west-1"}
        site.yard.client("s3", "eu-west-1").create_bucket(Bucket=ELSEWHERE, CreateBucketConfiguration=where)
    with pytest.raises(ClientError, match=words):
        site.sagemaker.create_training_job(**site.request("refused", **changes))
    with pytest.raises(ClientError, match=r"ValidationException.*Requested resource not found"):
        site.sagemaker.describe_training_job(TrainingJobName="refused")


def test_a_role_of_another_service_cannot_train(site: TrainingSite) -> None:
    role = make_role(site.yard, "machine", {"Service": "ec2.amazonaws.com"})
    with pytest.raises(ClientError, match=r"allows principal 'sagemaker.amazonaws.com' to assume the role"):
        site.sagemaker.create_training_job(**site.request("refused", RoleArn=role))


def test_more_instances_than_the_quota_has_are_refused(site: TrainingSite) -> None:
    quota = "ml.c5.xlarge for training job usage"
    control(site.yard, "POST", "/grant-quota", {"code": quota, "vcpus": 1})
    two = site.request("refused", resources={"InstanceType": "ml.c5.xlarge", "InstanceCount": 2})
    words = f"ResourceLimitExceeded.*'{quota}' is 1 Instances, .* request delta of 2 Instances"
    with pytest.raises(ClientError, match=words):
        site.sagemaker.create_training_job(**two)


def test_a_fresh_account_starts_none_of_the_large_types_until_it_has_asked(site: TrainingSite) -> None:
    large = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1}
    quotas = site.yard.client("service-quotas")
    listed = {
        each["QuotaName"]: each for each in quotas.list_service_quotas(ServiceCode="sagemaker")["Quotas"]
    }
    found = listed["ml.p4d.24xlarge for training job usage"]
    assert (found["QuotaCode"], found["Value"]) == ("L-09B4A649", 0)
    refused = r"ResourceLimitExceeded.*'ml.p4d.24xlarge for training job usage' is 0 Instances"
    with pytest.raises(ClientError, match=refused):
        site.sagemaker.create_training_job(**site.request("large", resources=large))
    asked = {"ServiceCode": "sagemaker", "QuotaCode": found["QuotaCode"]}
    quotas.request_service_quota_increase(**asked, DesiredValue=1)
    site.until(lambda: quotas.get_service_quota(**asked)["Quota"]["Value"] == 1, "large")
    site.train_alone("large", "print('done')", resources=large)
    assert site.ended("large")["TrainingJobStatus"] == "Completed"


def test_a_job_longer_than_the_account_allows_is_refused(site: TrainingSite) -> None:
    long = site.request("long", StoppingCondition={"MaxRuntimeInSeconds": 432_001})
    with pytest.raises(ClientError, match=r"'Longest run time for a training job' is 432000 Seconds"):
        site.sagemaker.create_training_job(**long)


def test_a_role_without_rights_fails_the_job_by_name(site: TrainingSite) -> None:
    role = make_role(site.yard, "powerless", BY_SAGEMAKER)
    place = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/code"}
    channel = {"ChannelName": "code", "DataSource": {"S3DataSource": place}}
    site.sagemaker.create_training_job(**site.request("powerless", RoleArn=role, InputDataConfig=[channel]))
    job = site.ended("powerless")
    assert job["TrainingJobStatus"] == "Failed"
    assert "ClientError: Data download failed" in job["FailureReason"]
    assert "AccessDenied" in job["FailureReason"]


def test_a_machine_without_namespaces_says_so(site: TrainingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "best_tier", lambda: TIERS[-1])
    with pytest.raises(ApiError, match=r"cannot give each instance its own /opt/ml .*plain processes"):
        checks.refuse(site.request("plain"), "us-east-1")
