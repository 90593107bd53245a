"""A cluster on HyperPod: what SageMaker, a node and whoever pays were promised."""

from __future__ import annotations

import json
from typing import Any

from botocore.session import Session
from botocore.validate import ParamValidator

from slipway.jobs.words.targets import MAX_BYTES, SlurmTarget
from tests.infra.synthesis import Properties, as_text, hyperpod_templates_of, of_type, only

WITH_LOGIN: dict[str, Any] = {
    "login_instance_type": "ml.c6i.xlarge",
    "instance_type": "ml.c6i.32xlarge",
    "max_nodes": 2,
    "threads_per_core": 2,
    "node_recovery": False,
    "keep_data": False,
}


def cluster(**changes: Any) -> Properties:
    return only(hyperpod_templates_of(**changes).hyperpod, "AWS::SageMaker::Cluster")


def groups(**changes: Any) -> dict[str, Properties]:
    return {each["InstanceGroupName"]: each for each in cluster(**changes)["InstanceGroups"]}


def statements() -> dict[str, Properties]:
    policy = only(hyperpod_templates_of().hyperpod, "AWS::IAM::ManagedPolicy")
    return {each["Sid"]: each for each in policy["PolicyDocument"]["Statement"]}


def target(**changes: Any) -> SlurmTarget:
    for record in of_type(hyperpod_templates_of(**changes).hyperpod, "AWS::SSM::Parameter").values():
        if record["Name"] == "/slipway/targets/pod":
            text = as_text(record["Value"])
            assert len(text.encode()) < MAX_BYTES - 1024, "expressions become ARNs of up to a hundred letters"
            told = json.loads(text)
            assert told.pop("kind") == "slurm"
            del told["schema"]
            return SlurmTarget(**told)
    raise AssertionError("no target was written")


def test_there_is_one_controller_and_every_worker_is_in_the_partition_of_jobs() -> None:
    found = groups()
    assert {name: each["InstanceCount"] for name, each in found.items()} == {"controller": 1, "workers": 16}
    assert found["controller"]["SlurmConfig"] == {"NodeType": "Controller"}
    assert found["workers"]["SlurmConfig"] == {"NodeType": "Compute", "PartitionNames": ["train"]}
    assert cluster()["Orchestrator"] == {"Slurm": {"SlurmConfigStrategy": "Managed"}}


def test_a_declared_login_node_is_a_group_of_its_own_and_takes_the_jobs() -> None:
    assert groups(**WITH_LOGIN)["login"]["SlurmConfig"] == {"NodeType": "Login"}
    assert (target().login_group, target(**WITH_LOGIN).login_group) == ("controller", "login")


def test_recovery_threads_and_disks_are_as_declared() -> None:
    assert cluster()["NodeRecovery"] == "Automatic"
    assert cluster(**WITH_LOGIN)["NodeRecovery"] == "None"
    assert groups()["workers"]["ThreadsPerCore"] == 1
    assert groups(**WITH_LOGIN)["workers"]["ThreadsPerCore"] == 2
    disk, _ = groups()["workers"]["InstanceStorageConfigs"]
    assert disk == {"EbsVolumeConfig": {"VolumeSizeInGB": 200}}


def test_every_node_mounts_the_lustre_where_slurms_jobs_look_for_it() -> None:
    for group in groups().values():
        _, files = group["InstanceStorageConfigs"]
        assert files["FsxLustreConfig"]["MountPath"] == "/shared"
    assert target().file_system_mount == "/shared"
    files = only(hyperpod_templates_of().storage, "AWS::FSx::FileSystem")
    assert "KmsKeyId" in files, "the files have our key, which HyperPod's own disks do not take"


def test_a_node_copies_its_scripts_from_a_prefix_that_is_theirs_alone() -> None:
    found = {as_text(group["LifeCycleConfig"]["SourceS3Uri"]) for group in groups().values()}
    assert len(found) == 1
    prefix = found.pop().rpartition("<…>")[2]
    assert prefix.startswith("/sagemaker-lifecycle/pod/")
    script = groups()["workers"]["LifeCycleConfig"]["OnInitComplete"]
    assert script.endswith(".sh")
    assert "/" not in script
    read = as_text(statements()["ReadTheLifecycle"]["Resource"])
    assert read.endswith(f"{prefix}*")
    assert statements()["FindTheLifecycle"]["Condition"] == {
        "StringLike": {"s3:prefix": [f"{prefix.removeprefix('/')}*"]}
    }


def test_another_checkout_is_another_prefix_so_that_no_node_reads_old_files() -> None:
    own = as_text(groups()["workers"]["LifeCycleConfig"]["SourceS3Uri"])
    other = as_text(groups(**WITH_LOGIN)["workers"]["LifeCycleConfig"]["SourceS3Uri"])
    assert own != other, "nodes with processors alone install less"


def test_the_request_is_one_that_sagemakers_own_model_takes() -> None:
    request = json.loads(json.dumps(cluster(**WITH_LOGIN)), object_hook=_literal)
    shape = Session().get_service_model("sagemaker").operation_model("CreateCluster").input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()


def test_the_role_is_for_sagemaker_in_this_account_and_has_no_policy_of_aws() -> None:
    role = only(hyperpod_templates_of().hyperpod, "AWS::IAM::Role")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    assert "ManagedPolicyArns" not in role


def test_a_job_writes_its_own_results_and_changes_no_code_and_no_script() -> None:
    written = [as_text(each).rpartition(">")[2] for each in statements()["WriteObjects"]["Resource"]]
    assert written == ["/data/*", "/datasets/*", "/jobs/*"]


def test_nodes_log_where_hyperpod_does_in_groups_of_this_cluster_alone() -> None:
    found = as_text(statements()["WriteHyperPodsLog"]["Resource"])
    assert found.endswith(":log-group:/aws/sagemaker/Clusters/pod/*:log-stream:*")


def test_nodes_are_told_of_their_cluster_before_the_first_one_comes() -> None:
    template = hyperpod_templates_of().hyperpod
    (name, facts), *_ = (
        (name, each)
        for name, each in of_type(template, "AWS::SSM::Parameter").items()
        if each["Name"] == "/slipway/nodes/pod"
    )
    told = json.loads(as_text(facts["Value"]))
    assert (told["cluster"], told["instance_type"], told["file_system_mount"]) == (
        "pod",
        "ml.trn1.32xlarge",
        "/shared",
    )
    (nodes,) = (each for each in template["Resources"].values() if each["Type"] == "AWS::SageMaker::Cluster")
    assert name in nodes["DependsOn"]
    assert as_text(statements()["ReadTheFacts"]["Resource"]).endswith(":parameter/slipway/nodes/pod")


def test_jobs_enter_by_a_session_since_hyperpod_takes_no_command() -> None:
    document = only(hyperpod_templates_of().hyperpod, "AWS::SSM::Document")
    assert document["DocumentType"] == "Session"
    assert document["Content"]["sessionType"] == "NonInteractiveCommands"
    assert set(document["Content"]["parameters"]) == {"Action", "Request", "Digest"}
    assert (target().run_document, target().capacity) == (document["Name"], "hyperpod")


def test_nodes_that_bill_until_they_are_deleted_are_counted_by_the_budget() -> None:
    assert {"Key": "slipway:cluster", "Value": "pod"} in cluster()["Tags"]
    assert only(hyperpod_templates_of().observability, "AWS::Budgets::Budget")


def test_a_cluster_that_fails_is_mailed_with_hyperpods_reason() -> None:
    rule = only(hyperpod_templates_of().hyperpod, "AWS::Events::Rule")
    assert rule["EventPattern"]["detail"] == {
        "ClusterName": ["pod"],
        "ClusterStatus": ["Failed", "RollingBack"],
    }
    (mail,) = rule["Targets"]
    assert "FailureMessage" in json.dumps(mail["InputTransformer"])


def _literal(value: dict[str, Any]) -> Any:
    """Give each expression a text that AWS would take in its place: an ARN of a role, or an id."""
    if "Fn::GetAtt" in value and value["Fn::GetAtt"][1] == "Arn":
        return "arn:aws:iam::123456789012:role/a"
    if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
        found = value.get("Fn::Join")
        return "".join(found[1]) if found else "fs-0123456789abcdef0"
    return value
