"""A laptop starts an MPI cluster's nodes, waits for them, and tells them apart by their answers."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.mpi.nodes import Clock as NodeClock
from slipway.jobs.platforms.mpi.nodes import NotEnoughNodes, await_nodes, find_answers, find_members, shortage
from slipway.jobs.platforms.mpi.platform import node_rows
from slipway.jobs.platforms.platform import machine_warnings
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.words.errors import NoAnswer
from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.mpi import READY_KEY
from slipway.jobs.words.names import idle_alarm_name
from slipway.jobs.words.targets import MpiTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.jobs.conftest import Slipway
from tests.jobs.platforms.mpi.conftest import WELL, commands, deploy, say_ready
from tests.jobs.platforms.mpi.test_platform import JOB
from tests.jobs.submit.test_submission import Clock
from tests.yard.machines.hosts.conftest import Site, Vpc

# An alarm without reports; the yard leaves it in the state that the test sets.
IDLE = {
    "Namespace": "Test",
    "MetricName": "Idle",
    "Statistic": "Minimum",
    "Period": 300,
    "EvaluationPeriods": 6,
    "Threshold": 1,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "TreatMissingData": "ignore",
}


def test_fewer_ready_nodes_than_asked_are_counted_and_named_before_anything_is_sent(
    target: MpiTarget,
) -> None:
    say_ready(target, answered=False)
    silent = find_members(target.name, target.region)[1].name
    (warning,) = prepare(JOB, target.name).warnings
    assert f"1 of 2 nodes of {target.name} are ready ({silent}: no torch)" in warning
    time = Clock(pace=60)  # each look at the nodes is a dozen calls
    with pytest.raises(NotEnoughNodes, match=f"{silent}: no torch"):
        await_nodes(target, 2, lambda _: None, NodeClock(pause=time.pause, now=lambda: time.seconds))
    assert commands(target, target.run_document) == []


def never(seconds: float) -> None:
    raise AssertionError(f"it waits {seconds} s for what cannot come")


def test_a_node_that_lacks_what_no_waiting_brings_is_told_of_at_once(target: MpiTarget) -> None:
    say_ready(target, answered=False, lasts=True)
    silent = find_members(target.name, target.region)[1].name
    (warning,) = prepare(JOB, target.name).warnings
    assert warning.endswith("submitting refuses")
    with pytest.raises(NotEnoughNodes, match=rf"{silent}: no torch.*; waiting does not fix that"):
        await_nodes(target, 2, lambda _: None, NodeClock(pause=never))


def test_a_host_that_failed_is_told_of_at_once_with_what_mends_it(site: Site, target: MpiTarget) -> None:
    lacks_sshd = "#!/bin/bash\nsystemctl mask --now slipway-node.service\nrm -f /usr/sbin/sshd\n"
    vpc = site.vpc()
    encoded = base64.b64encode(lacks_sshd.encode()).decode()
    vpc.start("broken", vpc.security_group("broken"), 1, UserData=encoded)
    broken = deploy(site, vpc, "broken", WELL)
    with pytest.raises(NotEnoughNodes, match=r"sshd is not there; install it with .*set_up\.py machine"):
        await_nodes(broken, 1, lambda _: None, NodeClock(pause=never))
    vpc.delete()


def test_a_job_waits_until_systems_manager_reaches_the_main_node(site: Site, target: MpiTarget) -> None:
    """A node may answer the others before its agent has registered; SendCommand would refuse it then."""
    unknown: dict[str, list[object]] = {"InstanceInformationList": []}
    lost = {"InstanceInformationList": [{"InstanceId": "i-1", "PingStatus": "ConnectionLost"}]}
    respond = Fault(
        service="ssm",
        operation="DescribeInstanceInformation",
        kind=FaultKind.RESPOND,
        body=[unknown, lost],
        times=2,
    )
    script(site.yard, respond)
    said, time = list[str](), Clock(pace=20)
    main = await_nodes(target, 2, said.append, NodeClock(pause=time.pause, now=lambda: time.seconds))
    first = find_members(target.name, target.region)[0]
    assert main == first.instance_id
    why = f"{first.name}: Systems Manager does not reach its agent yet"
    assert said == [f"1 of 2 nodes of {target.name} are ready ({why})"]


def test_a_group_that_was_scaled_down_is_told_to_start_what_a_job_asks_for(
    site: Site, vpc: Vpc, target: MpiTarget
) -> None:
    said: list[str] = []
    time = Clock()

    def pause(seconds: float) -> None:
        time.pause(seconds)
        site.settle()
        say_ready(target, answered=True)

    main = await_nodes(target, 3, said.append, NodeClock(pause=pause, now=lambda: time.seconds))
    members = find_members(target.name, target.region)
    assert (len(members), members[0].instance_id) == (3, main)
    assert said[0] == f"{target.name} has 2 of 3 nodes; its group is told to start the others"


def test_nodes_of_a_job_that_comes_while_idle_ones_are_stopped_start_when_those_are_gone(
    site: Site, vpc: Vpc, target: MpiTarget
) -> None:
    """The alarm scales to zero as long as it is on, and would end the new nodes, too."""
    watch, scaling = (aws.client(service, target.region) for service in ("cloudwatch", "autoscaling"))
    alarm, time, said, wanted = idle_alarm_name(target.name), Clock(), list[str](), list[int]()
    watch.put_metric_alarm(AlarmName=alarm, **IDLE)
    watch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="idle")

    def pause(seconds: float) -> None:
        time.pause(seconds)
        group = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[target.node_group])
        wanted.append(group["AutoScalingGroups"][0]["DesiredCapacity"])
        watch.set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="no reports")
        site.settle()
        say_ready(target, answered=True)

    await_nodes(target, 4, said.append, NodeClock(pause=pause, now=lambda: time.seconds))
    assert said[0].startswith(f"{target.name} is just being stopped by its alarm {alarm}")
    assert wanted[0] < 4 == wanted[-1]


def test_readiness_that_cannot_be_read_is_not_taken_for_nodes_that_were_never_asked(
    target: MpiTarget,
) -> None:
    """Otherwise a job would wait a quarter of an hour for nodes that are ready."""
    with pytest.raises(NoAnswer, match=f"slipway-of-nobody/{READY_KEY}.* NoSuchBucket"):
        node_rows(replace(target, bucket="slipway-of-nobody"))


def test_status_of_a_cluster_says_which_nodes_are_not_ready_beside_its_jobs(
    target: MpiTarget, slipway: Slipway
) -> None:
    say_ready(target, answered=False)
    code, out, said = slipway("status", "--on", target.name, "--json")
    assert (code, json.loads(out)) == (0, [])
    silent = find_members(target.name, target.region)[1].name
    assert f"{silent} is not ready: no torch" in said
    rows = slipway.json("status", "--on", target.name, "--nodes", "--json")
    assert [(row["main"], row["answered"]) for row in rows][:2] == [(True, True), (False, False)]
    assert rows[1]["why"] == "no torch"
    with pytest.raises(DoesNotFit, match="has at most 4"):
        await_nodes(target, 5, lambda _: None)


def test_machines_that_ec2_has_not_are_told_of_in_the_sentence_that_says_what_is_missing(
    site: Site, target: MpiTarget
) -> None:
    """F39."""
    scaling = site.client("autoscaling")
    lack = Fault(service="ec2", operation="RunInstances", kind=FaultKind.INSUFFICIENT_CAPACITY, times=None)
    script(site.yard, lack)
    running = len(find_answers(target))
    scaling.set_desired_capacity(AutoScalingGroupName=target.node_group, DesiredCapacity=running + 1)
    said = shortage(target, find_answers(target), running + 1)
    (line,) = machine_warnings(target)
    scaling.set_desired_capacity(AutoScalingGroupName=target.node_group, DesiredCapacity=running)
    why = "AWS has too few free machines of this type in the cluster's zone"
    assert f"1 not running: {why}; ask again later" in said
    assert line.startswith(
        f"the last node that '{target.name}' asked for did not start: {why}; ask again later"
    )
