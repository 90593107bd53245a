"""The c6i cluster of MPI machines: what a job and its owner were promised."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from infra.config import FileSystem, Market, Mpi
from infra.patterns.user_data import MOST_BYTES
from jobs.core.errors import SlipwayError
from jobs.core.targets import MpiTarget, decode_target
from tests.infra.synthesis import (
    MPI_CLUSTER,
    Properties,
    as_text,
    mpi_templates_of,
    of_type,
    only,
    synthesize_mpi,
)
from tests.infra.test_user_data import written_files

RESERVATION = "cr-0123456789abcdef0"
GROUP, POLICY = "AWS::AutoScaling::AutoScalingGroup", "AWS::AutoScaling::ScalingPolicy"
SCHEDULED = "AWS::AutoScaling::ScheduledAction"


def launch(**changes: Any) -> Properties:
    data: Properties = only(mpi_templates_of(**changes).mpi, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    return data


def group(**changes: Any) -> Properties:
    return only(mpi_templates_of(**changes).mpi, GROUP)


def told(**changes: Any) -> dict[str, Any]:
    """What a node reads at its first boot."""
    found: dict[str, Any] = json.loads(
        written_files(as_text(launch(**changes)["UserData"]))["/etc/slipway/node.json"]["content"]
    )
    return found


def statements() -> dict[str, Properties]:
    policy = only(mpi_templates_of().mpi, "AWS::IAM::ManagedPolicy")
    return {each["Sid"]: each for each in policy["PolicyDocument"]["Statement"]}


def document(beginning: str, **changes: Any) -> Properties:
    documents = of_type(mpi_templates_of(**changes).mpi, "AWS::SSM::Document")
    (found,) = [each for name, each in documents.items() if name.startswith(beginning)]
    return found


def test_all_nodes_run_or_none_does_in_one_subnet_and_one_cluster_placement_group() -> None:
    found = group(max_nodes=8)
    assert (found["MinSize"], found["MaxSize"], found["DesiredCapacity"]) == ("0", "8", "8")
    assert len(found["VPCZoneIdentifier"]) == 1
    (placement,) = of_type(mpi_templates_of().mpi, "AWS::EC2::PlacementGroup")
    assert found["PlacementGroup"] == {"Ref": placement}


def test_a_cluster_that_never_stops_by_itself_is_of_a_fixed_size() -> None:
    found = group(idle_minutes=None)
    assert (found["MinSize"], found["MaxSize"], found["DesiredCapacity"]) == ("4", "4", "4")
    assert not of_type(mpi_templates_of(idle_minutes=None).mpi, POLICY)


def test_nodes_that_all_idle_for_the_declared_time_stop() -> None:
    template = mpi_templates_of(idle_minutes=30).mpi
    (policy_name,) = of_type(template, POLICY)
    policy, alarm = only(template, POLICY), only(template, "AWS::CloudWatch::Alarm")
    assert (policy["AdjustmentType"], policy["ScalingAdjustment"]) == ("ExactCapacity", 0)
    assert alarm["AlarmActions"] == [{"Ref": policy_name}]
    assert alarm["Period"] * alarm["EvaluationPeriods"] == 30 * 60
    assert (alarm["Statistic"], alarm["Threshold"]) == ("Minimum", 1), "one node at work keeps all of them"
    assert alarm["TreatMissingData"] == "notBreaching", "a cluster that is down is not stopped again"


def test_the_alarm_reads_what_the_nodes_report() -> None:
    alarm = only(mpi_templates_of().mpi, "AWS::CloudWatch::Alarm")
    report = told()["idle_report"]
    assert (report["namespace"], report["metric"]) == (alarm["Namespace"], alarm["MetricName"])
    assert alarm["Dimensions"] == [{"Name": report["dimension"], "Value": "c6i"}]
    assert report["every_minutes"] * 60 == alarm["Period"]
    assert report["work"] == "process"


def test_nodes_start_and_stop_by_the_clock_where_it_is_declared() -> None:
    clock = {"start_at": "0 8 * * MON-FRI", "stop_at": "30 19 * * *", "time_zone": "Europe/Berlin"}
    actions = of_type(mpi_templates_of(**clock).mpi, SCHEDULED).values()
    found = {each["Recurrence"]: (each["DesiredCapacity"], each["TimeZone"]) for each in actions}
    assert found == {"0 8 * * MON-FRI": (4, "Europe/Berlin"), "30 19 * * *": (0, "Europe/Berlin")}
    assert not of_type(mpi_templates_of().mpi, SCHEDULED)


def test_no_deployment_takes_a_node_away_and_a_new_template_reaches_new_nodes() -> None:
    template = mpi_templates_of().mpi
    (name,) = of_type(template, GROUP)
    (launch_template,) = of_type(template, "AWS::EC2::LaunchTemplate")
    assert "UpdatePolicy" not in template["Resources"][name]
    assert group()["LaunchTemplate"] == {
        "LaunchTemplateId": {"Ref": launch_template},
        "Version": {"Fn::GetAtt": [launch_template, "LatestVersionNumber"]},
    }


def test_a_running_job_may_keep_its_nodes_from_being_taken_and_no_others() -> None:
    statement = statements()["ProtectJobs"]
    assert statement["Action"] == "autoscaling:SetInstanceProtection"
    assert as_text(statement["Resource"]).endswith(f":autoScalingGroupName/{group()['AutoScalingGroupName']}")


@pytest.mark.parametrize(
    ("type_name", "efa", "cores"),
    [("c6i.16xlarge", 0, 32), ("c6i.32xlarge", 1, 64), ("c6in.32xlarge", 2, 64), ("c6i.24xlarge", 0, 48)],
)
def test_a_node_has_the_efa_of_its_size_and_one_thread_on_every_core(
    type_name: str, efa: int, cores: int
) -> None:
    data = launch(instance_type=type_name)
    assert data["InstanceType"] == type_name
    assert data["CpuOptions"] == {"CoreCount": cores, "ThreadsPerCore": 1}
    sorts = [each["InterfaceType"] for each in data["NetworkInterfaces"]]
    assert sorts == (["efa"] * efa if efa else ["interface"])
    assert told(instance_type=type_name)["smt"] == "on"


def test_bare_metal_is_asked_for_no_cpu_options_and_does_it_at_boot() -> None:
    assert "CpuOptions" not in launch(instance_type="c6i.metal")
    assert told(instance_type="c6i.metal")["smt"] == "off"


def test_a_type_with_one_thread_a_core_is_left_as_it_is() -> None:
    changes = {"instance_type": "hpc6id.32xlarge", "region": "us-east-2", "zone": "us-east-2b"}
    assert "CpuOptions" not in launch(**changes)
    assert told(**changes)["smt"] == "on"


def test_efa_on_a_size_without_it_is_refused_even_without_the_declarations_check() -> None:
    with pytest.raises(SlipwayError, match=r"efa_interfaces is 1, but c6i\.16xlarge has no EFA"):
        mpi_templates_of(instance_type="c6i.16xlarge", efa_interfaces=1)


def test_a_node_asks_for_tokens_encrypts_its_disk_and_has_no_key_and_no_public_address() -> None:
    data = launch(root_volume_gib=77)
    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpPutResponseHopLimit": 1,
        "HttpTokens": "required",
    }
    (disk,) = data["BlockDeviceMappings"]
    assert (disk["Ebs"]["Encrypted"], disk["Ebs"]["VolumeSize"]) == (True, 77)
    assert "KeyName" not in data
    assert data["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is False


def test_nodes_are_bought_as_declared() -> None:
    assert launch()["CapacityReservationSpecification"] == {"CapacityReservationPreference": "none"}
    assert launch(market=Market.SPOT)["InstanceMarketOptions"] == {"MarketType": "spot"}
    reserved = launch(market=Market.TARGETED_RESERVATION, reservation_id=RESERVATION)
    assert reserved["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": RESERVATION}
    }


def test_a_spot_node_is_not_exchanged_under_a_job_before_ec2_takes_it() -> None:
    assert group(market=Market.SPOT)["CapacityRebalance"] is False


def test_everything_passes_between_nodes_and_nothing_comes_in_from_outside() -> None:
    template = mpi_templates_of().mpi
    (name,) = of_type(template, "AWS::EC2::SecurityGroup")
    own = {"Fn::GetAtt": [name, "GroupId"]}
    rules = of_type(template, "AWS::EC2::SecurityGroupIngress").values()
    to_nodes = [rule for rule in rules if rule["GroupId"] == own]
    assert [(rule["IpProtocol"], rule["SourceSecurityGroupId"]) for rule in to_nodes] == [("-1", own)]
    assert "SecurityGroupIngress" not in only(template, "AWS::EC2::SecurityGroup")
    out = of_type(template, "AWS::EC2::SecurityGroupEgress").values()
    assert [rule["IpProtocol"] for rule in out if rule.get("DestinationSecurityGroupId") == own] == ["-1"]


def test_ssh_is_open_where_it_is_asked_for_and_opens_that_port_alone() -> None:
    opened = only(mpi_templates_of(ssh_cidrs=("10.9.0.0/16",)).mpi, "AWS::EC2::SecurityGroup")
    (rule,) = opened["SecurityGroupIngress"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 22, 22)
    assert rule["CidrIp"] == "10.9.0.0/16"


def test_the_secret_is_made_by_aws_and_read_by_the_nodes_alone() -> None:
    template = mpi_templates_of().mpi
    (name,), (role,) = (
        of_type(template, "AWS::SecretsManager::Secret"),
        of_type(template, "AWS::IAM::Role"),
    )
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
    found = told(mpi=Mpi.INTEL_MPI)
    assert {"cluster": "c6i", "region": "us-east-1", "nodes": 4, "mpi": "intel-mpi"}.items() <= found.items()
    assert found["file_system_mount"] == found["files"]["path"] == "/mnt/shared"
    assert set(found) == {
        *("cluster", "region", "scratch", "idle_report", "files", "secret_arn", "bucket", "smt"),
        *("file_system_mount", "nodes", "mpi", "log_group"),
    }


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
    parameters = document("DocumentsRun", job_timeout_hours=3)["Content"]["parameters"]
    assert parameters["TimeoutSeconds"]["default"] == "10800"


def test_nodes_write_only_below_their_prefixes_and_read_code_that_they_cannot_change() -> None:
    found = statements()
    written = [as_text(each).rpartition(">")[2] for each in found["WriteObjects"]["Resource"]]
    read = [as_text(each).rpartition(">")[2] for each in found["ReadObjects"]["Resource"]]
    assert written == ["/cluster/*", "/data/*", "/datasets/*", "/jobs/*"]
    assert set(read) == {"/code/*", *written}


def test_endpoints_let_nodes_reach_what_they_call_and_nothing_of_containers() -> None:
    endpoints = of_type(mpi_templates_of().network, "AWS::EC2::VPCEndpoint").values()
    services = {each["ServiceName"].rpartition("us-east-1.")[2] for each in endpoints}
    assert services >= {"ssm", "ssmmessages", "ec2messages", "secretsmanager", "ec2", "autoscaling", "logs"}
    assert not any(service.startswith("ec") and service not in ("ec2", "ec2messages") for service in services)


def test_a_node_that_could_not_be_started_is_mailed_with_the_reason() -> None:
    rule = only(mpi_templates_of().observability, "AWS::Events::Rule")
    assert rule["EventPattern"]["detail-type"] == ["EC2 Instance Launch Unsuccessful"]
    assert rule["EventPattern"]["detail"] == {"AutoScalingGroupName": [group()["AutoScalingGroupName"]]}
    assert "$.detail.StatusMessage" in rule["Targets"][0]["InputTransformer"]["InputPathsMap"].values()


def test_nothing_is_kept_for_images_that_no_job_of_this_kind_runs() -> None:
    templates = mpi_templates_of()
    assert not of_type(templates.storage, "AWS::ECR::Repository")
    assert len(of_type(templates.observability, "AWS::Logs::LogGroup")) == 1


@pytest.mark.parametrize("sort", FileSystem)
def test_the_target_tells_jobs_what_was_deployed(sort: FileSystem) -> None:
    parameter = only(mpi_templates_of(file_system=sort).mpi, "AWS::SSM::Parameter")
    target = decode_target(as_text(parameter["Value"]), parameter=parameter["Name"])
    assert isinstance(target, MpiTarget)
    assert (target.name, target.max_nodes, target.efa_interfaces) == ("c6i", 4, 1)
    assert target.node_group == group()["AutoScalingGroupName"]
    assert target.run_document == document("DocumentsRun")["Name"]
    assert target.stop_document == document("DocumentsStop")["Name"]
    assert (target.machine_image, target.mpi) == ("cpu-mpi", "open-mpi")
    assert target.ami_parameter == mpi_templates_of().mpi["Parameters"]["NodeImage"]["Default"]
    shares = sort is not FileSystem.NONE
    assert (target.file_system_id, target.file_system_mount) == (
        ("<…>", "/mnt/shared") if shares else (None, None)
    )


def test_every_node_carries_the_cluster_and_the_users_tags_to_be_found_and_billed_by() -> None:
    template = synthesize_mpi(replace(MPI_CLUSTER, tags={"team": "nlp"})).mpi
    tags = {each["Key"]: each for each in only(template, GROUP)["Tags"]}
    assert {key: each["Value"] for key, each in tags.items()} == {
        "Name": "c6i",
        "slipway:cluster": "c6i",
        "team": "nlp",
    }
    assert all(each["PropagateAtLaunch"] for each in tags.values())
