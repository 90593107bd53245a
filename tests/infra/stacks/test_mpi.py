"""The c6i cluster of MPI machines keeps its promises to a job and its owner."""

from __future__ import annotations

import re
from typing import Any

import pytest

from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.nodes.first_boot import MOST_BYTES
from slipway.jobs.words.targets import MpiTarget, decode_target
from tests.infra.mpi_cluster import document, group, launch, node_role, policies, statements, told
from tests.infra.synthesis import OTHER_MPI, as_text, mpi_templates_of, of_type, only


def test_everything_passes_between_nodes_and_nothing_comes_in_from_outside() -> None:
    template = mpi_templates_of().compute
    (name,) = of_type(template, "AWS::EC2::SecurityGroup")
    own = {"Fn::GetAtt": [name, "GroupId"]}
    rules = of_type(template, "AWS::EC2::SecurityGroupIngress").values()
    to_nodes = [rule for rule in rules if rule["GroupId"] == own]
    assert [(rule["IpProtocol"], rule["SourceSecurityGroupId"]) for rule in to_nodes] == [("-1", own)]
    assert "SecurityGroupIngress" not in only(template, "AWS::EC2::SecurityGroup")
    out = of_type(template, "AWS::EC2::SecurityGroupEgress").values()
    assert [rule["IpProtocol"] for rule in out if rule.get("DestinationSecurityGroupId") == own] == ["-1"]


def test_ssh_is_open_where_it_is_asked_for_and_opens_that_port_alone() -> None:
    opened = only(mpi_templates_of(**OTHER_MPI).compute, "AWS::EC2::SecurityGroup")
    (rule,) = opened["SecurityGroupIngress"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 22, 22)
    assert rule["CidrIp"] == "10.9.0.0/16"


def test_the_secret_is_made_by_aws_and_read_by_the_nodes_alone() -> None:
    template = mpi_templates_of().compute
    (name,) = of_type(template, "AWS::SecretsManager::Secret")
    role = node_role()
    secret = only(template, "AWS::SecretsManager::Secret")
    assert secret["GenerateSecretString"] == {"PasswordLength": 64, "ExcludePunctuation": True}
    (key,) = of_type(template, "AWS::KMS::Key")
    assert secret["KmsKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    policy = only(template, "AWS::SecretsManager::ResourcePolicy")
    (denied,) = policy["ResourcePolicy"]["Statement"]
    assert (denied["Effect"], denied["Action"]) == ("Deny", "secretsmanager:GetSecretValue")
    assert denied["Condition"] == {"StringNotEquals": {"aws:PrincipalArn": {"Fn::GetAtt": [role, "Arn"]}}}
    assert statements()["ReadTheClustersSecret"]["Resource"] == {"Ref": name}


def test_a_node_is_told_what_its_services_need_and_nothing_that_is_secret() -> None:
    found = told(**OTHER_MPI)
    assert {"cluster": "c6i", "region": "us-east-1", "nodes": 8, "mpi": "intel-mpi"}.items() <= found.items()
    assert found["file_system_mount"] == found["files"]["path"] == "/mnt/shared"
    assert set(found) == {
        *("cluster", "region", "join", "idle_report", "files", "secret_arn", "bucket", "smt"),
        "job_role_arn",
        *("file_system_mount", "nodes", "mpi", "log_group"),
    }


def test_a_node_that_does_not_join_may_leave_its_own_group_and_no_other() -> None:
    assert told()["join"]["group"] == group()["AutoScalingGroupName"]
    allowed = statements()["LeaveGroup"]
    assert allowed["Action"] == "autoscaling:TerminateInstanceInAutoScalingGroup"
    assert as_text(allowed["Resource"]).endswith(f":autoScalingGroupName/{group()['AutoScalingGroupName']}")


def test_a_node_without_shared_files_is_told_of_none() -> None:
    assert told(file_system=FileSystem.NONE)["file_system_mount"] is None


@pytest.mark.parametrize("sort", FileSystem)
def test_the_first_boot_fits_what_ec2_takes(sort: FileSystem) -> None:
    assert len(as_text(launch(file_system=sort)["UserData"]).encode()) < MOST_BYTES - 2048


def test_a_job_comes_in_by_a_document_whose_parameters_no_shell_can_read() -> None:
    found = document("DocumentsRun")
    assert found["Name"] == "slipway-c6i-run"
    parameters = found["Content"]["parameters"]
    (step,) = found["Content"]["mainSteps"]
    assert step["inputs"]["runCommand"] == [
        "exec /opt/slipway/venv/bin/slipway-node run '{{ RequestKey }}'",
    ]
    assert step["inputs"]["timeoutSeconds"] == "{{ TimeoutSeconds }}"
    patterns = {name: each["allowedPattern"] for name, each in parameters.items()}
    assert re.search(patterns["RequestKey"], "jobs/glue-0123456789ab/request.json")
    assert re.search(patterns["TimeoutSeconds"], "172800")
    for hostile in (
        "'; reboot; '",
        "$(reboot)",
        "jobs/../x/request.json",
        "jobs/a/request.json\n;reboot",
        "",
    ):
        assert not any(re.search(pattern, hostile) for pattern in patterns.values()), hostile


def test_what_a_job_leaves_is_ended_by_a_document_of_its_own() -> None:
    found = document("DocumentsStop")
    assert found["Name"] == "slipway-c6i-stop"
    assert found["Content"]["mainSteps"][0]["inputs"]["runCommand"] == [
        "exec /opt/slipway/venv/bin/slipway-node stop '{{ Job }}'"
    ]
    assert not re.search(found["Content"]["parameters"]["Job"]["allowedPattern"], "a b")


def test_a_job_ends_after_the_declared_hours_unless_it_asks_for_less() -> None:
    parameters = document("DocumentsRun", **OTHER_MPI)["Content"]["parameters"]
    assert parameters["TimeoutSeconds"]["default"] == "10800"


def test_jobs_write_only_below_their_prefixes_and_read_code_that_they_cannot_change() -> None:
    (found,) = (each for each in policies() if "ReadSecretsOfJobs" in each)
    written = [as_text(each).rpartition(">")[2] for each in found["WriteObjects"]["Resource"]]
    read = [as_text(each).rpartition(">")[2] for each in found["ReadObjects"]["Resource"]]
    assert written == ["/datasets/*", "/jobs/*"]
    assert set(read) == {"/code/*", "/sources/*", *written}


def test_a_node_itself_reads_requests_and_writes_the_readiness_of_its_cluster_alone() -> None:
    found = statements()
    read = [as_text(each).rpartition(">")[2] for each in found["ReadObjects"]["Resource"]]
    assert set(read) == {"/jobs/*/request.json", "/cluster/ready.json"}
    assert as_text(found["WriteObjects"]["Resource"]).endswith("/cluster/ready.json")
    assert "ProtectJobs" not in found


def test_endpoints_let_nodes_reach_what_they_call_and_nothing_of_containers() -> None:
    endpoints = of_type(mpi_templates_of().network, "AWS::EC2::VPCEndpoint").values()
    services = {endpoint["ServiceName"].rpartition("us-east-1.")[2] for endpoint in endpoints}
    assert services >= {"ssm", "ssmmessages", "secretsmanager", "ec2", "autoscaling", "logs"}
    assert not any(service.startswith("ec") and service != "ec2" for service in services)


def test_a_node_that_could_not_be_started_is_mailed_with_the_reason() -> None:
    rule = only(mpi_templates_of().observability, "AWS::Events::Rule")
    assert rule["EventPattern"]["detail-type"] == ["EC2 Instance Launch Unsuccessful"]
    assert rule["EventPattern"]["detail"] == {"AutoScalingGroupName": [group()["AutoScalingGroupName"]]}
    assert "$.detail.StatusMessage" in rule["Targets"][0]["InputTransformer"]["InputPathsMap"].values()


def test_nothing_is_kept_for_images_that_no_job_of_this_kind_runs() -> None:
    templates = mpi_templates_of()
    assert not of_type(templates.storage, "AWS::ECR::Repository")
    assert len(of_type(templates.observability, "AWS::Logs::LogGroup")) == 1


@pytest.mark.parametrize(("changes", "is_spot"), [({}, False), (OTHER_MPI, True)])
def test_the_target_says_whether_its_machines_may_be_taken_back(
    changes: dict[str, Any], is_spot: bool
) -> None:
    parameter = only(mpi_templates_of(**changes).compute, "AWS::SSM::Parameter")
    target = decode_target(as_text(parameter["Value"]), parameter=parameter["Name"])
    assert isinstance(target, MpiTarget)
    assert target.is_spot is is_spot


@pytest.mark.parametrize("sort", FileSystem)
def test_the_target_tells_jobs_what_was_deployed(sort: FileSystem) -> None:
    parameter = only(mpi_templates_of(file_system=sort).compute, "AWS::SSM::Parameter")
    target = decode_target(as_text(parameter["Value"]), parameter=parameter["Name"])
    assert isinstance(target, MpiTarget)
    assert (target.name, target.max_nodes, target.efa_interfaces) == ("c6i", 4, 1)
    assert target.node_group == group()["AutoScalingGroupName"]
    assert target.run_document == document("DocumentsRun")["Name"]
    assert target.stop_document == document("DocumentsStop")["Name"]
    assert (target.machine_image, target.mpi) == ("cpu-mpi", "open-mpi")
    assert target.ami_parameter == mpi_templates_of().compute["Parameters"]["NodeImage"]["Default"]
    shares = sort is not FileSystem.NONE
    assert (target.file_system_id, target.file_system_mount) == (
        ("<…>", "/mnt/shared") if shares else (None, None)
    )


def test_jobs_have_a_role_that_reads_no_secret_of_the_cluster_and_that_nodes_alone_hand_on() -> None:
    (jobs,) = [
        found for found in policies() if "ProtectJobs" in found and "ReadTheClustersSecret" not in found
    ]
    assert jobs.pop("ReadSecretsOfJobs")  # users' secrets, below a prefix that the cluster's own lacks
    actions = {action for job in jobs.values() for action in [job["Action"]] if isinstance(action, str)}
    actions |= {
        action for job in jobs.values() if isinstance(job["Action"], list) for action in job["Action"]
    }
    assert not [action for action in actions if action.startswith(("secretsmanager:", "ssm", "ec2messages:"))]
    (hand_on,) = [found["HandOn"] for found in policies() if "HandOn" in found]
    (role,) = set(of_type(mpi_templates_of().compute, "AWS::IAM::Role")) - {node_role()}
    assert hand_on["Action"] == "sts:AssumeRole"
    assert hand_on["Resource"] == {"Fn::GetAtt": [role, "Arn"]}
    assert told()["job_role_arn"]
