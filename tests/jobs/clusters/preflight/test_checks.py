"""The checks of preflight, one by one: what fails says why and how to fix it; no answer is never an ok."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from slipway.infra.declare.types import BatchCluster, Market, MpiCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.capacity import Quota, Reservation
from slipway.jobs.clusters.neighbours import QuotaShare
from slipway.jobs.clusters.preflight.checks import CHECKS
from slipway.jobs.clusters.preflight.facts import DefaultGroup, EbsKey, Facts, FoundAmi
from slipway.jobs.clusters.preflight.vcpu_limits import OwnMachines, VcpuNeed
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome, Verdict
from slipway.jobs.words.images.containers import Lock
from slipway.jobs.words.targets import DamagedTarget
from tests.jobs.declared import declared
from tests.jobs.words.test_targets import TARGET

CLUSTER = replace(declared("dl1", BatchCluster), alert_email="team@slipway.test", max_nodes=16)
DENIED = Unanswered(
    action="ec2:DescribeSomething", code="UnauthorizedOperation", message="You are not authorized"
)
RESERVED = replace(CLUSTER, market=Market.TARGETED_RESERVATION, reservation_id="cr-0123456789abcdef0")
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
BLOCK = replace(RESERVED, market=Market.CAPACITY_BLOCK, instance_type="p5.48xlarge")
RESERVATION = Reservation(state="active", zone="us-east-1a", instance_type="dl1.24xlarge", free=12, total=16)

BAKE = "cdk deploy slipway-bakery-gaudi-ecs && slipway image bake gaudi-ecs --wait --region us-east-1"
MANIFEST = {"synapseai": "1.18.0", "ecs-agent": "1.105.1-1"}


def need(vcpus: float, *others: QuotaShare, type_: str = "dl1.24xlarge", count: int = 16) -> VcpuNeed:
    """Return what a cluster's nodes need of a quota of so many vCPUs."""
    nodes = OwnMachines(purpose="", noun="nodes", instance_type=type_, market="on-demand", count=count)
    quota = Quota(code="L-6E", name="Running On-Demand DL instances", vcpus=vcpus)
    return VcpuNeed(quota=quota, own=(nodes,), others=others)


READY = Facts(
    account="123456789012",
    region_status="opt-in-not-required",
    zones=("us-east-1a", "us-east-1b"),
    vcpus=(need(1536.0),),
    parameter="ami-1",
    machine_image=FoundAmi(id="ami-1", architecture="x86_64", state="available"),
    manifest=MANIFEST,
    reservation=RESERVATION,
    bootstrap_version="21",
    owner=None,
    project=None,
    asked_at=NOW,
    bakery=None,
    ami_is_debian=False,
    ebs_key=EbsKey(id="alias/aws/ebs", is_of_aws=True),
    default_group=DefaultGroup(id="sg-1", admits_itself=True, lets_out=True),
    cost_tag="Active",
    controller=None,
    training=None,
    other_ways=(),
    target=replace(TARGET, image_tag="abc"),
    missing=(),
    pushed=True,
    lock=Lock(image={"synapseai": "1.18.0"}, host={"synapseai": "1.18.0"}),
    machine_lock_digest="abc",
    image_tag="abc",
    pinned=(),
    today=date(2026, 11, 26),
)


def verdict(check: str, cluster: Any = CLUSTER, **facts: Any) -> Verdict:
    return CHECKS[check](cluster, replace(READY, **facts))


def assert_fails(check: str, facts: dict[str, Any], found: str, fix: str) -> None:
    failed = verdict(check, **facts)
    assert failed.outcome is CheckOutcome.FAILED
    assert found in failed.found
    assert fix in failed.fix


def test_where_everything_is_ready_every_check_is_ok() -> None:
    for cluster in (CLUSTER, RESERVED):
        outcomes = {name: check(cluster, READY).outcome for name, check in CHECKS.items()}
        assert set(outcomes.values()) == {CheckOutcome.OK}, outcomes


def test_without_any_answer_no_check_that_needs_one_is_ok() -> None:
    asked: dict[str, Any] = {
        field.name: DENIED
        for field in fields(Facts)
        if field.name not in ("lock", "image_tag", "ami_is_debian", "pinned", "today")
    }
    facts = replace(READY, **asked)
    local = {"budget", "alert e-mail", "AMI and AWS Batch", "size of the controller", "end of support"}
    verdicts = {name: check(RESERVED, facts) for name, check in CHECKS.items() if name not in local}
    account = verdicts.pop("credentials and account")
    assert account.outcome is CheckOutcome.FAILED
    assert {name for name, each in verdicts.items() if each.outcome is not CheckOutcome.UNKNOWN} == set()
    fix = "allow ec2:DescribeSomething to your role: slipway cluster permissions CLUSTER --for deploy prints"
    assert all(each.fix.startswith(fix) for each in verdicts.values())


def test_machines_that_nobody_could_ask_about_are_unknown_and_never_ok() -> None:
    found = verdict("machines that start", missing=[DENIED])
    assert found.outcome is CheckOutcome.UNKNOWN
    assert found.found == DENIED.words


@pytest.mark.parametrize(
    ("check", "facts", "found", "fix"),
    [
        ("region enabled", {"region_status": "not-opted-in"}, "is not enabled", "aws account enable-region"),
        (
            "type offered in the zone",
            {"zones": ("us-east-1c", "us-east-1d")},
            "not offered in us-east-1a today, but in us-east-1c, us-east-1d",
            "-c dl1.zone=us-east-1c",
        ),
        ("type offered in the zone", {"zones": ()}, "in no zone of us-east-1", "try region us-west-2"),
        (
            "vCPU quota",
            {"vcpus": (need(0),)},
            "16 nodes × 96 vCPUs = 1536 vCPUs, but the quota 'Running On-Demand DL instances' is 0",
            "slipway cluster quota dl1 --request",
        ),
        ("vCPU quota", {"vcpus": (need(1535),)}, "is 1535", "slipway cluster quota dl1 --request"),
        (
            "machines that start",
            {"missing": [("no login node runs: AWS says why", "slipway cluster quota dl1 --request")]},
            "AWS says why",
            "slipway cluster quota dl1 --request",
        ),
        (
            "CDK bootstrap",
            {"bootstrap_version": None},
            "not bootstrapped",
            "cdk bootstrap aws://123456789012/us-east-1",
        ),
        (
            "CDK bootstrap",
            {"bootstrap_version": "5"},
            "is version 5, but at least 6 is needed",
            "cdk bootstrap",
        ),
        ("CDK bootstrap", {"bootstrap_version": "foreign"}, "is version foreign", "cdk bootstrap"),
        (
            "project",
            {"owner": "theirs-1", "project": "ours-1"},
            "belongs to project theirs-1; this one is ours-1",
            "another name",
        ),
        (
            "container image",
            {"pushed": False},
            "abc, which the job definition names, is not pushed",
            "slipway image build gaudi --on dl1",
        ),
        (
            "container image",
            {"image_tag": "def"},
            "names gaudi:abc, but containers/ here has the tag def",
            "cdk deploy",
        ),
        (
            "container image",
            {"target": DamagedTarget("the SSM parameter p is not JSON", hint="deploy again")},
            "is not JSON",
            "deploy again",
        ),
    ],
)
def test_what_fails_says_why_and_what_to_do(check: str, facts: dict[str, Any], found: str, fix: str) -> None:
    assert_fails(check, facts, found, fix)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"reservation": None}, "there is no cr-0123456789abcdef0 in us-east-1"),
        ({"reservation": replace(RESERVATION, state="expired")}, "is expired"),
        (
            {"reservation": replace(RESERVATION, zone="us-east-1b")},
            "is in us-east-1b, but the cluster is in us-east-1a",
        ),
        ({"reservation": replace(RESERVATION, instance_type="p5.48xlarge")}, "is for p5.48xlarge"),
        ({"reservation": replace(RESERVATION, total=8)}, "has 8 instances, but max_nodes is 16"),
        (
            {"reservation": replace(RESERVATION, placement_group="arn:aws:ec2:us-east-1::placement-group/p")},
            "is of the placement group p, and nodes are in one of their own",
        ),
    ],
)
def test_a_reservation_that_cannot_serve_is_refused(changes: dict[str, Any], found: str) -> None:
    failed = verdict("capacity reservation", RESERVED, **changes)
    assert failed.outcome is CheckOutcome.FAILED
    assert found in failed.found
    assert failed.fix


def of_a_block(**changes: Any) -> Verdict:
    found = replace(RESERVATION, instance_type="p5.48xlarge", is_block=True, begins=NOW)
    found = replace(found, **{"ends": NOW + timedelta(hours=24), **changes})
    return verdict("capacity reservation", BLOCK, reservation=found)


def test_of_a_capacity_block_preflight_says_when_it_begins_and_when_ec2_takes_its_nodes() -> None:
    runs = of_a_block()
    assert runs.outcome is CheckOutcome.OK
    assert "ends its instances from 2026-12-02 11:30 UTC on, so a job may take 23.5 hours" in runs.found
    waits = of_a_block(begins=NOW + timedelta(hours=6), state="scheduled")
    assert waits.outcome is CheckOutcome.WARNING
    assert "begins at 2026-12-01 18:00 UTC" in waits.found
    assert "60 minutes (runnable_timeout_minutes)" in waits.fix
    assert of_a_block(ends=NOW + timedelta(minutes=29)).outcome is CheckOutcome.FAILED
    assert of_a_block(ends=None).outcome is CheckOutcome.UNKNOWN


def test_a_reservation_is_bought_as_the_market_says() -> None:
    no_block = of_a_block(is_block=False)
    assert no_block.outcome is CheckOutcome.FAILED
    assert no_block.fix == "set market to Market.TARGETED_RESERVATION"
    block = verdict("capacity reservation", RESERVED, reservation=replace(RESERVATION, is_block=True))
    assert block.fix == "set market to Market.CAPACITY_BLOCK"


def test_credentials_of_another_account_than_declared_are_refused() -> None:
    failed = verdict("credentials and account", replace(CLUSTER, account="999999999999"))
    assert failed.outcome is CheckOutcome.FAILED
    assert "of 123456789012, but dl1 is declared for 999999999999" in failed.found


def test_an_image_of_a_cluster_that_is_not_deployed_is_unknown() -> None:
    unknown = verdict("container image", target=None, pushed=None)
    assert unknown.outcome is CheckOutcome.UNKNOWN
    assert "is not deployed" in unknown.found


def test_an_example_address_is_refused_for_alarms() -> None:
    failed = verdict("alert e-mail", replace(CLUSTER, alert_email="you@example.com"))
    assert failed.outcome is CheckOutcome.FAILED
    assert "you@example.com, which nobody reads" in failed.found


def test_a_budget_below_one_hour_of_all_nodes_is_refused() -> None:
    assert verdict("budget", replace(CLUSTER, budget_usd_per_month=209)).outcome is CheckOutcome.FAILED
    assert verdict("budget", replace(CLUSTER, budget_usd_per_month=210)).outcome is CheckOutcome.OK


def test_a_budget_is_not_judged_without_a_price() -> None:
    assert verdict("budget", replace(CLUSTER, instance_type="p5e.48xlarge")).outcome is CheckOutcome.UNKNOWN


def test_machines_need_no_image_and_are_judged_like_the_rest() -> None:
    machines = replace(declared("c6i", MpiCluster), alert_email="team@slipway.test")
    lock = Lock(image={}, host={"open-mpi": "4.1"})
    told: dict[str, Any] = {
        "target": None,
        "pushed": None,
        "image_tag": None,
        "lock": lock,
        "manifest": {"open-mpi": "4.1"},
        "vcpus": (need(256, type_="c6i.16xlarge", count=4),),
    }
    verdicts = {name: check(machines, replace(READY, **told)) for name, check in CHECKS.items()}
    assert {each.outcome for each in verdicts.values()} == {CheckOutcome.OK}, verdicts
    assert "needs none" in verdicts["container image"].found
    assert "4 nodes × 64 vCPUs = 256" in verdicts["vCPU quota"].found
    assert "91.9 hours of 4 nodes" in verdicts["budget"].found
    other = verdict("locked versions", machines, lock=lock, manifest={"open-mpi": "5.0"})
    assert other.outcome is CheckOutcome.FAILED
    assert "open-mpi is 5.0, locked is 4.1" in other.found
    assert "containers/images/cpu-mpi/lock.toml" in other.fix or "slipway image bake cpu-mpi" in other.fix
