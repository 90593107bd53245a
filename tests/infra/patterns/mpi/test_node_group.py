"""The nodes of c6i are equal and close, have one thread per core, and are not ended under a job."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.infra.declare.types import Market
from slipway.infra.patterns.observability.alarms import REPORT_EVERY_MINUTES
from tests.infra.mpi_cluster import GROUP, group, launch, policies, told
from tests.infra.synthesis import OTHER_MPI, Properties, as_text, mpi_templates_of, of_type, only

RESERVATION = "cr-0123456789abcdef0"
POLICY = "AWS::AutoScaling::ScalingPolicy"
SCHEDULED = "AWS::AutoScaling::ScheduledAction"


def alarm_called(part: str, **changes: Any) -> Properties:
    alarms = of_type(mpi_templates_of(**changes).compute, "AWS::CloudWatch::Alarm")
    (found,) = [each for name, each in alarms.items() if part in name]
    return found


def test_all_nodes_run_or_none_does_in_one_subnet_and_one_cluster_placement_group() -> None:
    found = group(**OTHER_MPI)
    assert (found["MinSize"], found["MaxSize"]) == ("0", "8")
    assert len(found["VPCZoneIdentifier"]) == 1
    (placement,) = of_type(mpi_templates_of(**OTHER_MPI).compute, "AWS::EC2::PlacementGroup")
    assert found["PlacementGroup"] == {"Ref": placement}


def test_no_deployment_starts_a_machine_that_no_job_asked_for() -> None:
    assert "DesiredCapacity" not in group()
    assert "DesiredCapacity" not in group(**OTHER_MPI)


def test_a_cluster_that_never_stops_by_itself_is_of_a_fixed_size() -> None:
    found = group(idle_minutes=None)
    assert (found["MinSize"], found["MaxSize"]) == ("4", "4")
    assert not of_type(mpi_templates_of(idle_minutes=None).compute, POLICY)


def test_nodes_that_all_idle_for_the_declared_time_stop() -> None:
    template = mpi_templates_of(**OTHER_MPI).compute
    (policy_name,) = of_type(template, POLICY)
    policy, alarm = only(template, POLICY), alarm_called("AllIdle", **OTHER_MPI)
    assert (policy["AdjustmentType"], policy["ScalingAdjustment"]) == ("ExactCapacity", 0)
    assert alarm["AlarmActions"] == [{"Ref": policy_name}]
    reports = alarm["Metrics"][0]["MetricStat"]
    assert reports["Period"] * alarm["EvaluationPeriods"] == 30 * 60
    assert (reports["Stat"], alarm["Threshold"]) == ("Minimum", 1), "one node at work keeps all of them"
    assert alarm["TreatMissingData"] == "notBreaching", "a cluster that is down is not stopped again"


def test_the_alarm_reads_what_the_nodes_report() -> None:
    alarm = alarm_called("AllIdle")
    report, reports = told()["idle_report"], alarm["Metrics"][0]["MetricStat"]
    read = reports["Metric"]
    assert (report["namespace"], report["metric"]) == (read["Namespace"], read["MetricName"])
    assert read["Dimensions"] == [{"Name": report["dimension"], "Value": "c6i"}]
    assert reports["Period"] == REPORT_EVERY_MINUTES * 60
    assert report["work"] == "process"


def test_nodes_that_have_stopped_do_not_keep_the_alarm_on_and_stop_the_next_ones() -> None:
    """A period without a report counts as work; an alarm on the bare metric would use older values."""
    alarm = alarm_called("AllIdle")
    reports, idle = alarm["Metrics"]
    assert (reports["Id"], reports["ReturnData"]) == ("reports", False)
    assert (idle["Expression"], idle["ReturnData"]) == ("FILL(reports, 0)", True)
    assert alarm["AlarmName"] == "c6i-all-idle"


def test_nodes_that_cannot_say_that_they_idle_stop_after_six_hours_and_somebody_is_told() -> None:
    alarm = alarm_called("TooLong")
    (policy,) = of_type(mpi_templates_of().compute, POLICY)
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/AutoScaling", "GroupInServiceInstances")
    assert alarm["Period"] * alarm["EvaluationPeriods"] == 6 * 3600
    stops, tells = alarm["AlarmActions"]
    assert stops == {"Ref": policy}
    assert "Alerts" in str(tells), "the topic of its observability"
    assert group()["MetricsCollection"] == [
        {"Granularity": "1Minute", "Metrics": ["GroupInServiceInstances"]}
    ]
    assert not of_type(mpi_templates_of(idle_minutes=None).compute, "AWS::CloudWatch::Alarm")


def test_nodes_start_and_stop_by_the_clock_where_it_is_declared() -> None:
    actions = of_type(mpi_templates_of(**OTHER_MPI).compute, SCHEDULED).values()
    found = {action["Recurrence"]: (action["DesiredCapacity"], action["TimeZone"]) for action in actions}
    assert found == {"0 8 * * MON-FRI": (8, "Europe/Berlin"), "30 19 * * *": (0, "Europe/Berlin")}
    assert not of_type(mpi_templates_of().compute, SCHEDULED)


def test_no_deployment_takes_a_node_away_and_a_new_template_reaches_new_nodes() -> None:
    template = mpi_templates_of().compute
    (name,) = of_type(template, GROUP)
    (launch_template,) = of_type(template, "AWS::EC2::LaunchTemplate")
    assert "UpdatePolicy" not in template["Resources"][name]
    assert group()["LaunchTemplate"] == {
        "LaunchTemplateId": {"Ref": launch_template},
        "Version": {"Fn::GetAtt": [launch_template, "LatestVersionNumber"]},
    }


def test_a_running_job_may_keep_its_nodes_from_being_taken_and_no_others() -> None:
    (statement,) = (found["ProtectJobs"] for found in policies() if "ProtectJobs" in found)
    assert statement["Action"] == "autoscaling:SetInstanceProtection"
    assert as_text(statement["Resource"]).endswith(f":autoScalingGroupName/{group()['AutoScalingGroupName']}")


@pytest.mark.parametrize(
    ("type_name", "efa", "cores"),
    [("c6i.16xlarge", 0, 32), ("c6i.32xlarge", 1, 64), ("c6in.32xlarge", 2, 64)],
)
def test_a_node_has_the_efa_of_its_size_and_one_thread_on_every_core(
    type_name: str, efa: int, cores: int
) -> None:
    data = launch(instance_type=type_name)
    assert data["InstanceType"] == type_name
    assert data["CpuOptions"] == {"CoreCount": cores, "ThreadsPerCore": 1}
    sorts = [interface["InterfaceType"] for interface in data["NetworkInterfaces"]]
    assert sorts == (["efa", "efa-only"][:efa] or ["interface"])
    assert told(instance_type=type_name)["smt"] == "on"


def test_bare_metal_is_asked_for_no_cpu_options_and_does_it_at_boot() -> None:
    assert "CpuOptions" not in launch(instance_type="c6i.metal")
    assert told(instance_type="c6i.metal")["smt"] == "off"


def test_a_type_with_one_thread_a_core_is_left_as_it_is() -> None:
    changes = {"instance_type": "hpc6id.32xlarge", "region": "us-east-2", "zone": "us-east-2b"}
    assert "CpuOptions" not in launch(**changes)
    assert told(**changes)["smt"] == "on"


def test_nodes_are_bought_as_declared() -> None:
    assert launch()["CapacityReservationSpecification"] == {"CapacityReservationPreference": "none"}
    assert launch(**OTHER_MPI)["InstanceMarketOptions"] == {"MarketType": "spot"}
    reserved = launch(market=Market.TARGETED_RESERVATION, reservation_id=RESERVATION)
    assert reserved["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": RESERVATION}
    }


def test_a_spot_node_is_not_exchanged_under_a_job_before_ec2_takes_it() -> None:
    assert group(**OTHER_MPI)["CapacityRebalance"] is False


def test_every_node_carries_the_cluster_and_the_users_tags_to_be_found_and_billed_by() -> None:
    template = mpi_templates_of(**OTHER_MPI).compute
    tags = {tag["Key"]: tag for tag in only(template, GROUP)["Tags"]}
    assert {key: each["Value"] for key, each in tags.items()} == {
        "Name": "c6i",
        "slipway:cluster": "c6i",
        "team": "nlp",
    }
    assert all(tag["PropagateAtLaunch"] for tag in tags.values())
