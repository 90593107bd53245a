"""The sagemaker cluster keeps its promises to a training job and its owner."""

from __future__ import annotations

import json
from typing import Any

from slipway.infra.declare.types import Egress, FileSystem, Market
from slipway.jobs.words.targets import MAX_BYTES, SCHEMA_VERSION, SageMakerTarget
from tests.infra.synthesis import Properties, as_text, of_type, only, sagemaker_templates_of

# All settings that differ from the defaults, in one synthesis.
SMALL: dict[str, Any] = {
    "instance_type": "ml.m5.large",
    "market": Market.SPOT,
    "file_system": FileSystem.FSX_LUSTRE,
    "egress": Egress.NAT,
    "job_timeout_hours": 1,
    "volume_gb": 30,
    "keep_data": False,
}


def target(**changes: Any) -> SageMakerTarget:
    record = only(sagemaker_templates_of(**changes).compute, "AWS::SSM::Parameter")
    assert record["Name"] == "/slipway/targets/sagemaker"
    text = as_text(record["Value"])
    assert len(text.encode()) < MAX_BYTES - 1024, "expressions become ARNs of up to a hundred letters"
    told = json.loads(text)
    assert (told.pop("schema"), told.pop("kind")) == (SCHEMA_VERSION, "sagemaker")
    return SageMakerTarget(**told)


def statements(**changes: Any) -> dict[str, Properties]:
    policy = only(sagemaker_templates_of(**changes).compute, "AWS::IAM::ManagedPolicy")
    return {each["Sid"]: each for each in policy["PolicyDocument"]["Statement"]}


def test_the_target_tells_jobs_what_they_may_use() -> None:
    found = target()
    assert (found.instance_type, found.max_nodes, found.efa_interfaces) == ("ml.p4d.24xlarge", 2, 4)
    assert found.image == (
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker"
    )
    assert (found.is_spot, found.spot_wait_seconds, found.has_internet) == (False, 0, False)
    assert (found.file_system_id, found.file_system_mount, found.file_system_path) == (None, None, None)


def test_every_job_ends_and_no_instance_outlives_it_unless_that_was_declared() -> None:
    assert (target().job_timeout_seconds, target().warm_pool_seconds) == (24 * 3600, 0)
    assert target(**SMALL).job_timeout_seconds == 3600
    assert target(warm_pool_minutes=30).warm_pool_seconds == 1800


def test_spot_waits_as_long_as_was_declared() -> None:
    found = target(**SMALL)
    assert (found.is_spot, found.spot_wait_seconds) == (True, 12 * 3600)


def test_a_volume_has_our_key_but_where_the_host_encrypts_its_own_disks() -> None:
    assert target().volume_key is None, "SageMaker refuses a key for a type with local storage"
    assert target(**SMALL).volume_key is not None
    assert target().output_key is not None


def test_a_lustre_is_mounted_where_containers_look_for_shared_files() -> None:
    found = target(**SMALL)
    assert found.file_system_mount == "/opt/ml/input/data/shared"
    assert found.file_system_path is not None
    assert found.file_system_path.startswith("/")
    rules = of_type(sagemaker_templates_of(**SMALL).compute, "AWS::EC2::SecurityGroupIngress").values()
    assert 988 in {rule.get("FromPort") for rule in rules}


def test_the_role_may_look_for_a_lustre_only_where_one_is_declared() -> None:
    found = statements(**SMALL)["FindTheFiles"]
    assert (found["Action"], found["Resource"]) == ("fsx:DescribeFileSystems", "*")  # takes no resource
    assert "FindTheFiles" not in statements()


def test_the_role_is_for_sagemaker_in_this_account_alone() -> None:
    role = only(sagemaker_templates_of().compute, "AWS::IAM::Role")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    assert "ManagedPolicyArns" not in role


def test_a_job_writes_its_own_results_and_changes_no_code() -> None:
    written = [as_text(each).rpartition(">")[2] for each in statements()["WriteObjects"]["Resource"]]
    assert written == ["/datasets/*", "/jobs/*"]


def test_the_role_hands_the_key_on_to_volumes_alone() -> None:
    found = statements()["EncryptVolumes"]
    assert found["Action"] == "kms:CreateGrant"
    assert found["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_the_role_pulls_one_image_of_aws_and_logs_where_sagemaker_does() -> None:
    pulled = as_text(statements()["PullTheTrainingImage"]["Resource"])
    assert pulled.endswith(":ecr:us-east-1:763104351884:repository/pytorch")
    logged = as_text(statements()["WriteLogs"]["Resource"])
    assert logged.endswith(":log-group:/aws/sagemaker/TrainingJobs:log-stream:*")
    metrics = statements()["ReportMetrics"]["Condition"]
    assert metrics == {"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/TrainingJobs"}}


def test_the_role_makes_interfaces_in_one_subnet_and_one_group() -> None:
    made = [as_text(each) for each in statements()["MakeInterfaces"]["Resource"]]
    assert sum(":subnet/" in each for each in made) == 1
    assert sum(":security-group/" in each for each in made) == 1
    assert not any(each.endswith((":subnet/*", ":security-group/*")) for each in made)
    assert "ec2:Subnet" in statements()["HandInterfacesToSageMaker"]["Condition"]["ArnEquals"]


def test_a_job_that_failed_is_mailed_with_its_reason_and_raises_an_alarm_that_arrives() -> None:
    template = sagemaker_templates_of().compute
    rule = only(template, "AWS::Events::Rule")
    (role,) = of_type(template, "AWS::IAM::Role")
    assert rule["EventPattern"] == {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Training Job State Change"],
        "detail": {"TrainingJobStatus": ["Failed"], "RoleArn": [{"Fn::GetAtt": [role, "Arn"]}]},
    }
    (mail,) = rule["Targets"]
    assert "$.detail.FailureReason" in json.dumps(mail["InputTransformer"])
    alarm = only(template, "AWS::CloudWatch::Alarm")
    assert alarm["AlarmActions"] == [mail["Arn"]]


def test_the_topic_of_another_stack_lets_events_and_alarms_publish() -> None:
    policy = only(sagemaker_templates_of().observability, "AWS::SNS::TopicPolicy")
    services = [
        each["Principal"].get("Service")
        for each in policy["PolicyDocument"]["Statement"]
        if each["Effect"] == "Allow"
    ]
    assert {"cloudwatch.amazonaws.com", "events.amazonaws.com"} <= set(services)
    assert of_type(sagemaker_templates_of().observability, "AWS::Budgets::Budget")


def test_nothing_but_storage_and_keys_stands_while_no_job_runs() -> None:
    """SageMaker brings machines, log and image, so no interface endpoint is needed."""
    templates = sagemaker_templates_of()
    kinds = {each["Type"] for template in templates.all() for each in template["Resources"].values()}
    assert not any(kind.startswith("AWS::SageMaker::") for kind in kinds)
    endpoints = of_type(templates.network, "AWS::EC2::VPCEndpoint").values()
    assert [each["VpcEndpointType"] for each in endpoints] == ["Gateway"]
    assert not of_type(templates.network, "AWS::EC2::NatGateway")
    assert "NodeImage" not in templates.network.get("Parameters", {})
