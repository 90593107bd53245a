"""SageMaker's clusters on HyperPod: made, described, changed and deleted. Another operation is a line below.

Nothing runs in them: no node of HyperPod's AMI is played here, so no lifecycle script and no Slurm. What AWS
refuses is refused (checks.py), and a cluster whose role may not read its scripts fails as it does there.
"""

from __future__ import annotations

import copy
import secrets
import string
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.recorded import page
from slipway.yard.services.sagemaker.clusters import checks

Parameters = Mapping[str, Any]

UNPLAYED = "The yard plays no node of HyperPod: nothing runs on it."
_ID_LETTERS = string.ascii_lowercase + string.digits
_SETTINGS = ("NodeProvisioningMode", "NodeRecovery", "Orchestrator", "VpcConfig")
_lock = threading.RLock()
_clusters: dict[tuple[str, str], HyperPodRecord] = {}  # (region, id)


@dataclass(slots=True, kw_only=True)
class HyperPodRecord:
    """One cluster. moto's AddTags and ListTags find it by its ARN, and its tags by this name."""

    name: str
    region: str
    given: dict[str, Any]
    tags: list[dict[str, str]]
    failure: str = ""
    id: str = field(default_factory=lambda: "".join(secrets.choice(_ID_LETTERS) for _ in range(12)))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        return f"arn:aws:sagemaker:{self.region}:{ACCOUNT}:cluster/{self.id}"

    @property
    def summary(self) -> dict[str, Any]:
        return {
            "ClusterArn": self.arn,
            "ClusterName": self.name,
            "ClusterStatus": "Failed" if self.failure else "InService",
            "CreationTime": self.created,
        }

    @property
    def groups(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.given["InstanceGroups"]
        return found


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    with _lock:
        return _OPERATIONS[operation](parameters, region)


def reset() -> None:
    with _lock:
        _clusters.clear()


def in_use(instance_type: str, region: str, besides: str = "") -> int:
    """Count the instances of a type in all clusters but one."""
    return sum(
        group["InstanceCount"]
        for (where, key), cluster in _clusters.items()
        for group in cluster.groups
        if where == region and key != besides and group.get("InstanceType") == instance_type
    )


def _create(parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters["ClusterName"]
    if any(each.name == name and each.region == region for each in _clusters.values()):
        raise ApiError("ResourceInUse", f"Resource Already Exists: Cluster with name {name} already exists.")
    checks.refuse(parameters, region)
    checks.refuse_above_quota(parameters["InstanceGroups"], region, lambda kind: in_use(kind, region))
    given = copy.deepcopy({key: value for key, value in parameters.items() if value is not None})
    cluster = HyperPodRecord(name=name, region=region, given=given, tags=list(parameters.get("Tags") or ()))
    cluster.failure = checks.lifecycle_failure(cluster.groups, region)
    _fill(cluster)
    _clusters[region, cluster.id] = cluster
    _backend(region).clusters[cluster.id] = cluster
    return {"ClusterArn": cluster.arn}


def _update(parameters: Parameters, region: str) -> dict[str, Any]:
    cluster = _known(parameters, region)
    if groups := parameters.get("InstanceGroups"):
        checks.refuse({**cluster.given, "InstanceGroups": groups}, region)
        checks.refuse_above_quota(groups, region, lambda kind: in_use(kind, region, cluster.id))
        left = {group["InstanceGroupName"] for group in groups}
        kept = [group for group in cluster.groups if group["InstanceGroupName"] not in left]
        gone = set(parameters.get("InstanceGroupsToDelete") or ())
        cluster.given["InstanceGroups"] = [
            *(group for group in kept if group["InstanceGroupName"] not in gone),
            *copy.deepcopy(list(groups)),
        ]
        cluster.failure = checks.lifecycle_failure(cluster.groups, region)
        _fill(cluster)
    if recovery := parameters.get("NodeRecovery"):
        cluster.given["NodeRecovery"] = recovery
    return {"ClusterArn": cluster.arn}


def _fill(cluster: HyperPodRecord) -> None:
    """Have as many nodes in each group as it says; a cluster that failed has none."""
    nodes: dict[str, dict[str, Any]] = {}
    for group in [] if cluster.failure else cluster.groups:
        own = [node for node in cluster.nodes.values() if node["group"] == group["InstanceGroupName"]]
        made = (
            {
                "id": f"i-{secrets.token_hex(9)[:17]}",
                "group": group["InstanceGroupName"],
                "at": datetime.now(UTC),
            }
            for _ in range(group["InstanceCount"])
        )
        nodes.update((node["id"], node) for node in [*own, *made][: group["InstanceCount"]])
    cluster.nodes = nodes


def _describe(parameters: Parameters, region: str) -> dict[str, Any]:
    cluster = _known(parameters, region)
    counts = Counter(node["group"] for node in cluster.nodes.values())
    groups = [
        {
            **group,
            "CurrentCount": counts[group["InstanceGroupName"]],
            "TargetCount": group["InstanceCount"],
            "Status": "Failed" if cluster.failure else "InService",
        }
        for group in cluster.groups
    ]
    settings = {name: cluster.given[name] for name in _SETTINGS if cluster.given.get(name)}
    return {**cluster.summary, **settings, "FailureMessage": cluster.failure, "InstanceGroups": groups}


def _list(parameters: Parameters, region: str) -> dict[str, Any]:
    part = parameters.get("NameContains") or ""
    found = [each for each in _clusters.values() if each.region == region and part in each.name]
    found.sort(key=lambda each: each.created, reverse=parameters.get("SortOrder") == "Descending")
    return _page([each.summary for each in found], parameters, "ClusterSummaries")


def _list_nodes(parameters: Parameters, region: str) -> dict[str, Any]:
    cluster, part = _known(parameters, region), parameters.get("InstanceGroupNameContains") or ""
    rows = [row for row in _rows(cluster) if part in row["InstanceGroupName"]]
    return _page(rows, parameters, "ClusterNodeSummaries")


def _describe_node(parameters: Parameters, region: str) -> dict[str, Any]:
    cluster, wanted = _known(parameters, region), parameters.get("NodeId")
    for row in _rows(cluster):
        if row["InstanceId"] == wanted:
            return {"NodeDetails": row}
    raise ApiError("ResourceNotFound", f"Could not find node '{wanted}' in cluster '{cluster.name}'.")


def _delete(parameters: Parameters, region: str) -> dict[str, Any]:
    cluster = _known(parameters, region)
    del _clusters[region, cluster.id]
    _backend(region).clusters.pop(cluster.id, None)
    return {"ClusterArn": cluster.arn}


def _rows(cluster: HyperPodRecord) -> Iterator[dict[str, Any]]:
    types = {group["InstanceGroupName"]: group.get("InstanceType", "") for group in cluster.groups}
    for node in cluster.nodes.values():
        yield {
            "InstanceGroupName": node["group"],
            "InstanceId": node["id"],
            "InstanceType": types[node["group"]],
            "LaunchTime": node["at"],
            "InstanceStatus": {"Status": "Running", "Message": UNPLAYED},
        }


def _known(parameters: Parameters, region: str) -> HyperPodRecord:
    wanted = str(parameters["ClusterName"])
    for cluster in _clusters.values():
        if cluster.region == region and wanted in (cluster.name, cluster.arn):
            return cluster
    raise ApiError("ResourceNotFound", f"Could not find cluster '{wanted}'.")


def _page(rows: list[dict[str, Any]], parameters: Parameters, name: str) -> dict[str, Any]:
    asked = {"nextToken": parameters.get("NextToken"), "maxResults": parameters.get("MaxResults") or 10}
    shown, more = page(rows, asked)
    return {name: shown, **({"NextToken": more} if more else {})}


def _backend(region: str) -> Any:
    from moto.sagemaker.models import sagemaker_backends

    return sagemaker_backends[ACCOUNT][region]


_OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "CreateCluster": _create,
    "DeleteCluster": _delete,
    "DescribeCluster": _describe,
    "DescribeClusterNode": _describe_node,
    "ListClusterNodes": _list_nodes,
    "ListClusters": _list,
    "UpdateCluster": _update,
}
