"""The trn1 cluster of Slurm on AWS PCS keeps its promises to a job and its owner."""

from __future__ import annotations

import re
from typing import Any

import pytest

from slipway.infra.declare.types import Market
from slipway.infra.patterns.nodes.first_boot import MOST_BYTES
from slipway.jobs.words.installation import PACKAGE
from slipway.jobs.words.slurm import ACTIONS, EPILOG, NODE_MODULE, PROLOG, PYTHON
from slipway.jobs.words.targets import SlurmTarget, decode_target
from tests.infra.patterns.nodes.test_user_data import told_to_node
from tests.infra.synthesis import Properties, as_text, of_type, only, slurm_templates_of

GROUP = "AWS::PCS::ComputeNodeGroup"
RESERVED = "cr-0123456789abcdef0"
# All settings that differ from the defaults, in one synthesis.
LARGE: dict[str, Any] = {
    "instance_type": "trn1n.32xlarge",
    "max_nodes": 32,
    "scratch": True,
    "rest_api": True,
    "job_timeout_hours": 3,
    "ami_parameter": "/mine/ami",
    "ami_made_from": "neuron-slurm",
}
SOFTWARE = PACKAGE / "infra" / "boot" / "software"
GPU: dict[str, Any] = {"instance_type": "p5.48xlarge", "machine_image": None, "zone": "us-east-1a"}


def cluster(**changes: Any) -> Properties:
    return only(slurm_templates_of(**changes).compute, "AWS::PCS::Cluster")


def group(name: str, **changes: Any) -> Properties:
    groups = of_type(slurm_templates_of(**changes).compute, GROUP).values()
    (found,) = [each for each in groups if each["Name"] == name]
    return found


def launch(name: str, **changes: Any) -> Properties:
    wanted = group(name, **changes)["CustomLaunchTemplate"]["TemplateId"]["Ref"]
    templates = of_type(slurm_templates_of(**changes).compute, "AWS::EC2::LaunchTemplate")
    data: Properties = templates[wanted]["LaunchTemplateData"]
    return data


def told(name: str, **changes: Any) -> dict[str, Any]:
    return told_to_node(as_text(launch(name, **changes)["UserData"]))


def custom(settings: list[Properties]) -> dict[str, str]:
    return {each["ParameterName"]: each["ParameterValue"] for each in settings}


def statements(role: str, **changes: Any) -> dict[str, Properties]:
    policies = of_type(slurm_templates_of(**changes).compute, "AWS::IAM::ManagedPolicy")
    (found,) = [each for name, each in policies.items() if name.startswith(f"Access{role}")]
    return {each["Sid"]: each for each in found["PolicyDocument"]["Statement"]}


def test_the_controller_keeps_accounts_and_runs_the_images_release_of_slurm() -> None:
    found, large = cluster(), cluster(**LARGE)
    assert (found["Size"], large["Size"]) == ("SMALL", "MEDIUM")
    assert found["Name"] == "slipway-trn1"
    assert found["Scheduler"] == {"Type": "SLURM", "Version": "25.11"}
    slurm = found["SlurmConfiguration"]
    assert slurm["Accounting"] == {"Mode": "STANDARD", "DefaultPurgeTimeInDays": 365}
    assert slurm["ScaleDownIdleTimeInSeconds"] == 600
    assert "SlurmRest" not in slurm
    assert large["SlurmConfiguration"]["SlurmRest"] == {"Mode": "STANDARD"}


def test_a_node_is_looked_at_before_a_jobs_first_step_and_a_bad_one_puts_the_job_back() -> None:
    found = custom(cluster()["SlurmConfiguration"]["SlurmCustomSettings"])
    assert found.pop("AccountingStoreFlags") == "job_comment"
    assert found == {
        "Prolog": PROLOG,
        "Epilog": EPILOG,
        "PrologFlags": "Alloc",
        "JobRequeue": "1",
        "SchedulerParameters": "nohold_on_prolog_fail",
    }


def test_workers_come_with_a_job_and_the_login_node_stays() -> None:
    (placement,) = of_type(slurm_templates_of().compute, "AWS::EC2::PlacementGroup")
    assert launch("workers")["Placement"] == {"GroupName": {"Ref": placement}}
    assert "Placement" not in launch("login")
    assert group("workers")["ScalingConfiguration"] == {"MinInstanceCount": 0, "MaxInstanceCount": 16}
    login = group("login")
    assert login["ScalingConfiguration"] == {"MinInstanceCount": 1, "MaxInstanceCount": 1}
    assert login["InstanceConfigs"] == [{"InstanceType": "c6i.large"}]


def test_slurm_knows_sixteen_devices_in_both_of_its_files() -> None:
    assert "SlurmConfiguration" not in group("workers", **GPU)
    slurm = group("workers")["SlurmConfiguration"]
    assert slurm["GresCustomSettings"] == [{"Name": "neuron", "Count": "16"}]
    assert custom(slurm["SlurmCustomSettings"]) == {"Gres": "neuron:16"}
    assert "SlurmConfiguration" not in group("login")


def test_a_node_of_awss_own_ami_fetches_this_project_and_is_told_its_container() -> None:
    found = told("workers", **GPU)
    assert found["payload"]["url"]
    assert len(found["payload"]["sha256"]) == 64
    assert found["payload"]["installed_by"] == "slurm_first_boot.sh"
    assert (SOFTWARE / found["payload"]["installed_by"]).is_file()
    registry = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
    assert found["container_registry"] == registry
    assert found["container"].startswith(f"{registry}/pytorch:")
    assert told("login", **GPU)["payload"] == found["payload"]
    assert not {"payload", "container"} & set(told("workers"))
    text = as_text(launch("workers", **GPU)["UserData"])
    assert len(text.encode()) < MOST_BYTES - 2048, "it leaves AWS PCS its room"


def test_machines_of_awss_own_ami_may_fetch_one_object_more_and_pull_images() -> None:
    for role in ("Machine", "Login"):
        more = statements(role, **GPU).keys() - statements(role).keys()
        assert more == {"FetchSoftware", "LogInToPull", "PullImages", "PullAwsImages"}
        assert statements(role, **GPU)["FetchSoftware"]["Action"] == "s3:GetObject"


def test_the_queue_gives_whole_nodes_and_no_job_outlives_the_declared_hours() -> None:
    queue = only(slurm_templates_of(**LARGE).compute, "AWS::PCS::Queue")
    found = custom(queue["SlurmConfiguration"]["SlurmCustomSettings"])
    assert found == {"Default": "YES", "MaxTime": "180", "OverSubscribe": "EXCLUSIVE"}
    workers = [name for name in of_type(slurm_templates_of().compute, GROUP) if name.startswith("Workers")]
    assert queue["ComputeNodeGroupConfigurations"] == [
        {"ComputeNodeGroupId": {"Fn::GetAtt": [workers[0], "Id"]}}
    ]


@pytest.mark.parametrize(("changes", "count"), [({}, 8), (LARGE, 16)], ids=["trn1", "trn1n"])
def test_a_worker_opens_every_efa_interface_and_the_first_alone_has_an_address(
    changes: dict[str, Any], count: int
) -> None:
    interfaces = launch("workers", **changes)["NetworkInterfaces"]
    assert [each["InterfaceType"] for each in interfaces] == ["efa", *["efa-only"] * (count - 1)]
    assert [(each["NetworkCardIndex"], each["DeviceIndex"]) for each in interfaces] == [
        (card, 0) for card in range(count)
    ]
    assert [each["InterfaceType"] for each in launch("login")["NetworkInterfaces"]] == ["interface"]


def test_a_capacity_block_is_bought_as_pcs_wants_it_and_the_login_node_stays_on_demand() -> None:
    changes: dict[str, Any] = {"market": Market.CAPACITY_BLOCK, "reservation_id": RESERVED}
    assert group("workers", **changes)["PurchaseOption"] == "CAPACITY_BLOCK"
    data = launch("workers", **changes)
    assert data["InstanceType"] == "trn1.32xlarge"
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert "Placement" not in data
    assert group("login", **changes)["PurchaseOption"] == "ONDEMAND"
    unreserved = launch("login", **changes)["CapacityReservationSpecification"]
    assert unreserved == {"CapacityReservationPreference": "none"}
    changes["market"] = Market.TARGETED_RESERVATION
    target = launch("workers", **changes)["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": RESERVED}
    assert group("workers", **changes)["PurchaseOption"] == "ONDEMAND"


def test_spot_is_bought_by_the_node_group_and_jobs_listen_for_its_notice() -> None:
    assert group("workers", market=Market.SPOT)["PurchaseOption"] == "SPOT"
    assert "InstanceMarketOptions" not in launch("workers", market=Market.SPOT)
    assert launch("workers", market=Market.SPOT)["Placement"]
    assert group("login", market=Market.SPOT)["PurchaseOption"] == "ONDEMAND"
    parameter = only(slurm_templates_of(market=Market.SPOT).compute, "AWS::SSM::Parameter")
    target = decode_target(as_text(parameter["Value"]), parameter=parameter["Name"])
    assert isinstance(target, SlurmTarget)
    assert target.is_spot


def test_machines_and_their_disks_are_billed_with_their_cluster() -> None:
    for name in ("workers", "login"):
        tagged = {each["ResourceType"]: each["Tags"] for each in launch(name)["TagSpecifications"]}
        assert set(tagged) == {"instance", "volume"}
        for tags in tagged.values():
            assert {"Key": "slipway:cluster", "Value": "trn1"} in tags


def test_only_the_login_node_writes_what_commands_print_and_jobs_change_no_code() -> None:
    worker, login = statements("Machine"), statements("Login")
    assert "FindLogGroup" in login.keys() - worker.keys()
    for allowed in (worker, login):
        assert allowed["RegisterWithPcs"]["Action"] == "pcs:RegisterComputeNodeGroupInstance"
    written = [as_text(each).rpartition(">")[2] for each in worker["WriteObjects"]["Resource"]]
    assert written == ["/datasets/*", "/jobs/*"]


def test_the_login_node_reads_what_is_submitted_and_writes_no_object() -> None:
    login = statements("Login")
    read = [as_text(each).rpartition(">")[2] for each in login["ReadObjects"]["Resource"]]
    assert set(read) == {"/jobs/*/request.json", "/code/*"}
    assert "WriteObjects" not in login


def test_a_machine_is_told_what_its_services_need_and_nothing_that_is_secret() -> None:
    worker, login = told("workers"), told("login")
    assert worker["files"]["path"] == "/shared"
    assert (worker["instance_type"], worker["efa_interfaces"]) == ("trn1.32xlarge", 8)
    assert (login["instance_type"], login["efa_interfaces"]) == ("c6i.large", 0)
    assert (worker["file_system_mount"], worker["scratch_mount"]) == ("/shared", None)
    assert (worker["join"]["by"], worker["join"]["group"]) == ("pcs-agent", None)
    assert (worker["idle_report"]["work"], login["idle_report"]["work"]) == ("step", "login")
    assert set(worker) == {
        *("cluster", "account", "region", "join", "idle_report", "files", "bucket", "log_group"),
        *("file_system_mount", "scratch_mount", "instance_type", "efa_interfaces", "slurm_version"),
    }
    assert len(as_text(launch("workers", **LARGE)["UserData"]).encode()) < MOST_BYTES - 2048


def test_scratch_is_a_lustre_beside_the_shared_home() -> None:
    assert not of_type(slurm_templates_of().storage, "AWS::FSx::FileSystem")
    assert of_type(slurm_templates_of(**LARGE).storage, "AWS::FSx::FileSystem")
    found = told("workers", **LARGE)["scratch_files"]
    assert (found["kind"], found["path"]) == ("fsx-lustre", "/fsx")
    rules = of_type(slurm_templates_of(**LARGE).compute, "AWS::EC2::SecurityGroupIngress").values()
    assert {988, 2049} <= {rule.get("FromPort") for rule in rules}


def test_a_job_comes_in_by_a_document_whose_parameters_no_shell_can_read() -> None:
    found = only(slurm_templates_of().compute, "AWS::SSM::Document")
    assert found["Name"] == "slipway-trn1-slurm"
    parameters = found["Content"]["parameters"]
    (step,) = found["Content"]["mainSteps"]
    assert step["inputs"]["runCommand"] == [
        f"exec {PYTHON} -m {NODE_MODULE} '{{{{ Action }}}}' '{{{{ Request }}}}' '{{{{ Digest }}}}'"
    ]
    assert parameters["Action"]["allowedValues"] == list(ACTIONS)
    patterns = [parameters[name]["allowedPattern"] for name in ("Request", "Digest")]
    assert re.search(patterns[0], "jobs/neox-0123456789ab/request.json")
    assert re.search(patterns[1], "0" * 64)
    for hostile in ("'; reboot; '", "$(reboot)", "jobs/../x/request.json", "jobs/a/request.json\n;reboot"):
        assert not any(re.search(pattern, hostile) for pattern in patterns), hostile


def test_a_worker_that_cannot_be_started_or_cannot_join_is_mailed() -> None:
    templates = slurm_templates_of()
    counted = only(templates.compute, "AWS::Logs::MetricFilter")
    for reason in ("LAUNCH_FAILED", "BOOTSTRAP_FAILED"):
        assert reason in counted["FilterPattern"]
    (transformed,) = counted["MetricTransformations"]
    alarms = of_type(templates.observability, "AWS::CloudWatch::Alarm").values()
    (alarm,) = [each for each in alarms if each.get("MetricName") == transformed["MetricName"]]
    assert alarm["Namespace"] == transformed["MetricNamespace"] == "Slipway/trn1"
    assert alarm["AlarmActions"]
    assert only(templates.compute, "AWS::Logs::DeliverySource")["LogType"] == "PCS_SCALING_LOGS"


def test_endpoints_let_machines_reach_pcs_and_nothing_of_containers() -> None:
    endpoints = of_type(slurm_templates_of().network, "AWS::EC2::VPCEndpoint").values()
    services = {endpoint["ServiceName"].rpartition("us-east-1.")[2] for endpoint in endpoints}
    assert services >= {"pcs", "ssm", "ssmmessages", "logs", "monitoring"}
    assert not services & {"ecs", "ecr.api", "autoscaling"}


def test_the_target_tells_jobs_what_was_deployed() -> None:
    parameter = only(slurm_templates_of().compute, "AWS::SSM::Parameter")
    target = decode_target(as_text(parameter["Value"]), parameter=parameter["Name"])
    assert isinstance(target, SlurmTarget)
    assert (target.name, target.max_nodes, target.efa_interfaces) == ("trn1", 16, 8)
    assert (target.queue, target.slurm_version) == ("train", "25.11")
    assert target.run_document == "slipway-trn1-slurm"
    assert (target.file_system_mount, target.scratch_mount) == ("/shared", None)
    assert target.scheduler_cluster == target.node_group == target.login_group == "<…>"
