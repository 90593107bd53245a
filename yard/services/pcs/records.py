"""What was created of AWS PCS, and how its three kinds of resource are told apart and found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.services.recorded import Store, StoredRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsKind:
    noun: str  # in the operations: CreateComputeNodeGroup
    path: str  # in ARNs: …/computenodegroup/<id>
    in_cluster: bool = True

    @property
    def member(self) -> str:
        return self.noun[0].lower() + self.noun[1:]


CLUSTER = PcsKind(noun="Cluster", path="cluster", in_cluster=False)
GROUP = PcsKind(noun="ComputeNodeGroup", path="computenodegroup")
QUEUE = PcsKind(noun="Queue", path="queue")
KINDS = (CLUSTER, GROUP, QUEUE)

store = Store()


def groups_of(cluster: StoredRecord) -> list[StoredRecord]:
    return store.of_kind(GROUP.noun, cluster.region, cluster.arn)


def queues_of(cluster: StoredRecord) -> list[StoredRecord]:
    return store.of_kind(QUEUE.noun, cluster.region, cluster.arn)


def find(kind: PcsKind, wanted: str, region: str, cluster: StoredRecord | None = None) -> StoredRecord:
    """Find by name or by id, within the cluster."""
    for record in store.of_kind(kind.noun, region, cluster.arn if cluster else ""):
        if wanted in (record.name, record.facts["id"]):
            return record
    raise missing(kind.member, wanted)


def missing(what: str, identifier: str) -> ApiError:
    return ApiError("ResourceNotFoundException", f"there is no {what} '{identifier}'", status=404)


def custom_settings(record: StoredRecord) -> dict[str, str]:
    """Return Slurm's own settings of a resource, by their names."""
    given: Mapping[str, Any] = record.given.get("slurmConfiguration") or {}
    return {each["parameterName"]: each["parameterValue"] for each in given.get("slurmCustomSettings") or ()}
