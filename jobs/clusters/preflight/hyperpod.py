"""Checks of a cluster on HyperPod: what the account may run, and what stands there whatever runs."""

from __future__ import annotations

from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.declared import DeclaredCluster
from slipway.jobs.clusters.neighbours import share_words
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.hyperpod_limits import HYPERPOD_KIND, standing_nodes
from slipway.jobs.clusters.preflight.training_limits import SERVICE
from slipway.jobs.clusters.preflight.verdicts import Verdict, failed, ok, unanswered, unknown, warning

_NONE = "no cluster on HyperPod"


def instances(cluster: DeclaredCluster, facts: Facts) -> Verdict:
    """Judge every quota; the first that is too low is told with the command that raises it."""
    needs = facts.hyperpod
    if needs is None:
        return ok(_NONE)
    if isinstance(needs, Unanswered):
        return unanswered(needs)
    for need in needs:
        if need.quota is not None and need.needed > need.quota.value:
            beside = f" and {share_words(need.others)}" if need.others else ""
            return failed(
                f"{need.instances} nodes{beside}, the quota '{need.name}' is {need.quota.value:.0f}",
                f"aws service-quotas request-service-quota-increase --service-code {SERVICE} "
                f"--quota-code {need.quota.code} --desired-value {need.needed} --region {cluster.region}",
            )
    unlisted = [f"'{need.name}'" for need in needs if need.quota is None]
    if unlisted:
        found = f"Service Quotas lists no {' and no '.join(unlisted)}"
        return unknown(found, "look in the Service Quotas console")
    return ok("; ".join(f"{need.needed} of '{need.name}'" for need in needs))


def standing(cluster: DeclaredCluster, facts: Facts) -> Verdict:
    """Warn of what is billed while nothing runs; a declaration is no consent to it."""
    if cluster.kind != HYPERPOD_KIND:
        return ok(_NONE)
    nodes = " and ".join(f"{count} {kind}" for kind, count in standing_nodes(cluster).items())
    return warning(
        f"{nodes} are billed from the cluster's creation to its deletion, whatever runs",
        f"slipway destroy {cluster.name} ends it; AWS PCS starts workers for jobs alone",
    )
