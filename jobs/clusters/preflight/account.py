"""Checks of the account: region, type and zone, quota, reservation, bootstrap, budget and its mails."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from slipway.infra.declare.types import Cluster, Market
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.capacity import Reservation, in_utc
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.training_limits import TRAINING_KIND
from slipway.jobs.clusters.preflight.vcpu_limits import VcpuNeed
from slipway.jobs.clusters.preflight.verdicts import (
    CheckOutcome,
    Verdict,
    failed,
    ok,
    unanswered,
    unknown,
    warning,
)
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.catalogue.regional import price_in

# The version that CheckBootstrapVersion demands, a rule that aws-cdk-lib 2 writes into every template.
LEAST_BOOTSTRAP_VERSION = 6
_GRAVITY = (CheckOutcome.FAILED, CheckOutcome.UNKNOWN, CheckOutcome.WARNING, CheckOutcome.OK)
_USABLE_RESERVATIONS = ("active", "scheduled", "pending")


def account(cluster: Cluster, facts: Facts) -> Verdict:
    if isinstance(facts.account, Unanswered):
        return failed(
            f"no account: {facts.account.code}, {facts.account.message[:200]}",
            'sign in (for example `aws sso login`), or use the yard: eval "$(slipway yard env)"',
        )
    if cluster.account and cluster.account != facts.account:
        return failed(
            f"the credentials are of {facts.account}, but {cluster.name} is declared for {cluster.account}",
            "set AWS_PROFILE to a profile of that account",
        )
    return ok(f"account {facts.account}")


def region(cluster: Cluster, facts: Facts) -> Verdict:
    if isinstance(facts.region_status, Unanswered):
        return unanswered(facts.region_status)
    if facts.region_status == "not-opted-in":
        return failed(
            f"{cluster.region} is not enabled in this account",
            f"aws account enable-region --region-name {cluster.region}",
        )
    return ok(f"{cluster.region} is enabled")


def offered(cluster: Cluster, facts: Facts) -> Verdict:
    if isinstance(facts.zones, Unanswered):
        return unanswered(facts.zones)
    type_ = cluster.instance_type
    if cluster.zone in facts.zones:
        return ok(f"{type_} is offered in {cluster.zone} today")
    if facts.zones:
        return failed(
            f"{type_} is not offered in {cluster.zone} today, but in {', '.join(facts.zones)}",
            f"set zone to one of these, or -c {cluster.name}.zone={facts.zones[0]}",
        )
    others = [each for each in instance_type(type_).regions if each != cluster.region]
    return failed(
        f"{type_} is offered in no zone of {cluster.region} to this account today",
        f"try region {' or '.join(others)}, or another instance type"
        if others
        else "choose another instance type",
    )


def quota(cluster: Cluster, facts: Facts) -> Verdict:
    """Judge every quota that counts machines of the cluster; return the worst verdict with all findings."""
    if cluster.kind == TRAINING_KIND or facts.vcpus is None:
        return ok("instances of SageMaker count against quotas of its own")
    if isinstance(facts.vcpus, Unanswered):
        return unanswered(facts.vcpus)
    if not facts.vcpus:
        return ok("capacity blocks do not count against the on-demand quota")
    judged = [_quota(need, cluster) for need in facts.vcpus]
    verdicts = sorted(judged, key=lambda verdict: _GRAVITY.index(verdict.outcome))
    return replace(verdicts[0], found="; ".join(verdict.found for verdict in verdicts))


def _quota(need: VcpuNeed, cluster: Cluster) -> Verdict:
    if need.quota is None:
        found = f"{need.words}; no quota of EC2 counts {need.own[0].instance_type}"
        return unknown(found, "look in the Service Quotas console")
    if need.needed <= need.quota.vcpus:
        return ok(f"{need.words}, the quota is {need.quota.vcpus:.0f}")
    short = f"{need.words}, but the quota '{need.quota.name}' is {need.quota.vcpus:.0f}"
    fix = f"slipway cluster quota {cluster.name} --request"
    if need.needed_beside_what_stands <= need.quota.vcpus:
        return warning(
            f"{short}: enough unless clusters that are declared and not deployed are deployed, too", fix
        )
    return failed(short, fix)


def reservation(cluster: Cluster, facts: Facts) -> Verdict:
    if cluster.reservation_id is None:
        return ok(f"market {cluster.market} needs none of its own")
    found = facts.reservation
    if isinstance(found, Unanswered):
        return unanswered(found)
    name = cluster.reservation_id
    if found is None:
        return failed(f"there is no {name} in {cluster.region}", "set reservation_id to one that you own")
    if found.state not in _USABLE_RESERVATIONS:
        return failed(f"{name} is {found.state}", "set reservation_id to one that is active")
    if found.zone != cluster.zone:
        return failed(
            f"{name} is in {found.zone}, but the cluster is in {cluster.zone}", f"set zone to {found.zone}"
        )
    if found.instance_type != cluster.instance_type:
        return failed(f"{name} is for {found.instance_type}", f"set instance_type to {found.instance_type}")
    if found.total < cluster.max_nodes:
        return failed(
            f"{name} has {found.total} instances, but max_nodes is {cluster.max_nodes}",
            f"-c {cluster.name}.max_nodes={found.total}, or reserve more",
        )
    # An instance has to match it (EC2 user guide, "Capacity Reservation Resource Groups").
    if found.placement_group:
        group = found.placement_group.rpartition("/")[2]
        return failed(
            f"{name} is of the placement group {group}, and nodes are in one of their own: EC2 starts none",
            "reserve capacity outside a placement group, and set reservation_id to that",
        )
    if found.is_block is not (cluster.market is Market.CAPACITY_BLOCK):
        market = Market.CAPACITY_BLOCK if found.is_block else Market.TARGETED_RESERVATION
        return failed(
            f"{name} is {'a' if found.is_block else 'no'} capacity block, and market is {cluster.market}: "
            "EC2 would start no node",
            f"set market to Market.{market.name}",
        )
    if found.is_block:
        return _block(cluster, found, facts.asked_at)
    return ok(f"{name} is {found.state}, {found.free} of {found.total} instances free")


def _block(cluster: Cluster, found: Reservation, now: datetime) -> Verdict:
    """Judge whether a capacity block is over, running or still to begin, and say how long a job may take."""
    last, left = found.last_minute, found.seconds_left(now)
    if last is None or left is None:
        return unknown(f"EC2 does not say when {cluster.reservation_id} ends")
    until = f"EC2 ends its instances from {in_utc(last)} on"
    if left <= 0:
        return failed(f"{cluster.reservation_id} is over: {until}", "set reservation_id to another block")
    if found.begins and found.begins > now:
        minutes = getattr(cluster, "runnable_timeout_minutes", None)
        longest = "its time limit" if minutes is None else f"{minutes} minutes (runnable_timeout_minutes)"
        return warning(
            f"{cluster.reservation_id} begins at {in_utc(found.begins)}, and {until}",
            f"submit jobs then: one that waits longer than {longest} is cancelled",
        )
    return ok(
        f"{cluster.reservation_id} is {found.state}, {found.free} of {found.total} instances free; {until}, "
        f"so a job may take {left / 3600:.1f} hours"
    )


def bootstrap(cluster: Cluster, facts: Facts) -> Verdict:
    version = facts.bootstrap_version
    if isinstance(version, Unanswered):
        return unanswered(version)
    home = facts.account if isinstance(facts.account, str) else "ACCOUNT"
    fix = f"cdk bootstrap aws://{home}/{cluster.region}"
    if version is None:
        return failed(f"{cluster.region} is not bootstrapped for the CDK", fix)
    if not version.isdecimal() or int(version) < LEAST_BOOTSTRAP_VERSION:
        return failed(
            f"the bootstrap stack is version {version}, but at least {LEAST_BOOTSTRAP_VERSION} is needed", fix
        )
    return ok(f"version {version}")


# Checks of the budget, and of the address that its mails go to.
_NO_ADDRESS = ("example.com", "example.org", "example.net")  # RFC 2606


def budget(cluster: Cluster, _facts: Facts) -> Verdict:
    price = price_in(instance_type(cluster.instance_type), cluster.region)
    if price is None:
        return unknown(f"the price of {cluster.instance_type} in {cluster.region} is not known")
    hours = cluster.budget_usd_per_month / (price.usd_per_hour * cluster.max_nodes)
    said = (
        f"{cluster.budget_usd_per_month} USD a month cover {hours:.1f} hours of {cluster.max_nodes} nodes "
        f"(on demand, {price.region}, {price.date})"
    )
    return ok(said) if hours >= 1 else failed(said, "raise budget_usd_per_month, or lower max_nodes")


def alert_email(cluster: Cluster, _facts: Facts) -> Verdict:
    if cluster.alert_email.rpartition("@")[2] in _NO_ADDRESS:
        return failed(
            f"alarm and budget e-mails go to {cluster.alert_email}, which nobody reads",
            f"set alert_email in clusters.py, or -c {cluster.name}.alert_email=…",
        )
    return ok(cluster.alert_email)
