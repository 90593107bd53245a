"""EC2's quotas of vCPUs in preflight: every one that counts the cluster's machines, and all else there."""

from __future__ import annotations

from dataclasses import replace

from slipway.jobs.clusters.neighbours import QuotaShare
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from tests.jobs.clusters.preflight.test_checks import need, verdict


def test_what_is_deployed_beside_the_cluster_fails_it_and_the_sum_is_asked_for() -> None:
    found = verdict("vCPU quota", vcpus=(need(1536, QuotaShare(who="dl2", amount=96, stands=True)),))
    assert found.outcome is CheckOutcome.FAILED
    assert "16 nodes × 96 vCPUs = 1536 vCPUs and 96 of dl2, 1632 in all, but the quota" in found.found
    assert "--desired-value 1632" in found.fix


def test_a_quota_of_exactly_what_is_needed_suffices() -> None:
    assert verdict("vCPU quota", vcpus=(need(1536),)).outcome is CheckOutcome.OK


def test_what_is_only_declared_warns_before_it_takes_the_quota() -> None:
    found = verdict("vCPU quota", vcpus=(need(1536, QuotaShare(who="dl2", amount=96, stands=False)),))
    assert found.outcome is CheckOutcome.WARNING
    assert "1632 in all" in found.found
    assert "enough as long as what is only declared is not deployed" in found.found
    assert "--desired-value 1632" in found.fix


def test_the_quota_of_a_login_node_is_judged_as_that_of_the_nodes_is() -> None:
    login = need(1, type_="c6i.large", count=1)
    found = verdict("vCPU quota", vcpus=(need(1536), login))
    assert found.outcome is CheckOutcome.FAILED
    assert "1 nodes × 2 vCPUs = 2 vCPUs, but the quota" in found.found


def test_a_quota_that_nobody_lists_is_unknown() -> None:
    assert verdict("vCPU quota", vcpus=(replace(need(0), quota=None),)).outcome is CheckOutcome.UNKNOWN
