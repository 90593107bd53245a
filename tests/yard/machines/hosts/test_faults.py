"""EC2 takes hosts back, starts them late, and gives them bad links, when a fault says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts.boot_ways import BOOT_VARIABLE, IMITATED
from slipway.yard.machines.hosts.instances import REPLACE_VARIABLE
from slipway.yard.machines.settings import CLOCK_VARIABLE
from tests.yard.asking import switch
from tests.yard.machines.hosts.conftest import Site, new_site

SPOT = {"MarketType": "spot"}
HEARD = "/aws/events/spot"
PATTERN = {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}


@pytest.fixture(scope="module")
def fast(tier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a yard in which two minutes of notice, or a boot, take a little over two seconds."""
    settings = {REPLACE_VARIABLE: "0.1", CLOCK_VARIABLE: "0.02", BOOT_VARIABLE: IMITATED}
    yield from new_site(tmp_path_factory.mktemp("faults"), settings)


def listen(site: Site) -> None:
    """Let EventBridge write events about Spot into a log group."""
    logs, events = site.client("logs"), site.client("events")
    logs.create_log_group(logGroupName=HEARD)
    arn = f"arn:aws:logs:us-east-1:123456789012:log-group:{HEARD}"
    events.put_rule(Name="spot", EventPattern=json.dumps(PATTERN))
    events.put_targets(Rule="spot", Targets=[{"Id": "log", "Arn": arn}])


def heard(site: Site) -> list[dict[str, Any]]:
    found = site.client("logs").filter_log_events(logGroupName=HEARD)["events"]
    return [json.loads(event["message"]) for event in found]


def test_ec2_takes_a_spot_host_back_after_its_notice_and_the_group_starts_another(fast: Site) -> None:
    """F30."""
    listen(fast)
    vpc = fast.vpc()
    (host,) = vpc.start("nodes", vpc.security_group("members"), 1, InstanceMarketOptions=SPOT)
    (before,) = vpc.hosts("nodes")
    control(fast.yard, "POST", "/interrupt-host", {"host": host})
    said = json.loads(fast.metadata(host, "spot/instance-action"))
    assert said["action"] == "terminate"
    ends_at = datetime.strptime(said["time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert fast.metadata(host, "spot/termination-time") == said["time"]
    assert ends_at.year >= 2026
    (event,) = heard(fast)
    assert event["detail"] == {"instance-id": before["instance"], "instance-action": "terminate"}
    fast.until(lambda: before["instance"] not in {each["instance"] for each in vpc.hosts("nodes")})
    fast.until(lambda: [each for each in vpc.hosts("nodes") if each["state"] == "running"])
    vpc.delete()


def test_every_spot_host_is_interrupted_some_time_after_its_launch(fast: Site) -> None:
    vpc = fast.vpc()
    switch(fast.yard, spot_interruptions=2)
    vpc.start("nodes", vpc.security_group("members"), 1, InstanceMarketOptions=SPOT)
    (before,) = vpc.hosts("nodes")
    fast.until(lambda: before["instance"] not in {host["instance"] for host in vpc.hosts("nodes")})
    switch(fast.yard, spot_interruptions=0)
    vpc.delete()


def test_a_host_that_is_not_bought_as_spot_is_not_interrupted(fast: Site) -> None:
    vpc = fast.vpc()
    (host,) = vpc.start("nodes", vpc.security_group("members"), 1)
    with pytest.raises(SlipwayError, match="is on-demand; EC2 interrupts Spot instances only"):
        control(fast.yard, "POST", "/interrupt-host", {"host": host})
    vpc.delete()


def test_a_host_whose_launch_takes_a_while_boots_when_it_runs(fast: Site) -> None:
    vpc = fast.vpc()
    switch(fast.yard, launch_delay=1)
    assert len(vpc.start("nodes", vpc.security_group("members"), 1)) == 1
    assert [host["state"] for host in vpc.hosts("nodes")] == ["running"]
    switch(fast.yard, launch_delay=0)
    vpc.delete()


def test_the_link_of_a_running_host_gets_slow_and_well_again(fast: Site) -> None:
    """F13."""
    vpc = fast.vpc()
    (host,) = vpc.start("nodes", vpc.security_group("members"), 1)
    show = ("tc", "qdisc", "show", "dev", "eth0")
    switch(fast.yard, bandwidth=3, packet_loss=10)
    fast.until(lambda: "rate 3Mbit" in fast.on(host, *show).out)
    switch(fast.yard, bandwidth=0, packet_loss=0)
    fast.until(lambda: "tbf" not in fast.on(host, *show).out)
    vpc.delete()
