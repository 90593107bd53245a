"""AWS PCS: clusters, compute node groups and queues. They are kept and checked; no node starts.

Another kind of resource is one entry of KINDS: the operations follow from its noun, as in PCS's own model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.recorded import TAG_OPERATIONS, Store, StoredRecord, kept, new_id, page
from slipway.yard.services.registry import not_emulated

SLURMCTLD_PORT = "6817"


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsKind:
    noun: str  # in the operations: CreateComputeNodeGroup
    path: str  # in ARNs: …/computenodegroup/<id>
    in_cluster: bool = True

    @property
    def member(self) -> str:
        return self.noun[0].lower() + self.noun[1:]


KINDS = (
    PcsKind(noun="Cluster", path="cluster", in_cluster=False),
    PcsKind(noun="ComputeNodeGroup", path="computenodegroup"),
    PcsKind(noun="Queue", path="queue"),
)
CLUSTER = KINDS[0]

_ENDPOINTS = {"endpoints": [{"type": "SLURMCTLD", "privateIpAddress": "127.0.0.1", "port": SLURMCTLD_PORT}]}

Parameters = Mapping[str, Any]
_store = Store()


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    if operation in TAG_OPERATIONS:
        return _store.tag_call(operation, parameters, _missing("resource", parameters["resourceArn"]))
    if operation not in _OPERATIONS:
        raise not_emulated("pcs", operation)
    act, kind = _OPERATIONS[operation]
    return act(kind, parameters, region)


def reset() -> None:
    _store.clear()


def _create(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters[f"{kind.member}Name"]
    cluster = _cluster_of(kind, parameters, region)
    conflict = ApiError("ConflictException", f"a {kind.member} named '{name}' is there already", status=409)
    parent_arn = cluster.arn if cluster else ""
    repeated = _by_token(kind, region, parameters)
    if repeated is None and any(
        other.name == name for other in _store.of_kind(kind.noun, region, parent_arn)
    ):
        raise conflict
    _check_groups(cluster, parameters)
    identifier = new_id("pcs_")
    base = parent_arn or f"arn:aws:pcs:{region}:{ACCOUNT}:cluster"
    record = StoredRecord(
        arn=f"{base}/{kind.path}/{identifier}" if parent_arn else f"{base}/{identifier}",
        kind=kind.noun,
        region=region,
        name=name,
        given=kept(parameters, f"{kind.member}Name", "clusterIdentifier"),
        facts={"id": identifier, **({"clusterId": cluster.facts["id"]} if cluster else _ENDPOINTS)},
        tags=dict(parameters.get("tags", {})),
        parent_arn=parent_arn,
        client_token=parameters.get("clientToken", ""),
    )
    return {kind.member: {**_view(_store.add(record, conflict)), "status": "CREATING"}}


def _get(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    return {kind.member: _view(_named(kind, parameters, region))}


def _list(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    cluster = _cluster_of(kind, parameters, region)
    found = [_view(record) for record in _store.of_kind(kind.noun, region, cluster.arn if cluster else "")]
    shown, more = page(found, parameters)
    return {f"{kind.member}s": shown, **more}


def _update(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    record = _named(kind, parameters, region)
    _check_groups(_cluster_of(kind, parameters, region), parameters)
    changes = kept(parameters, f"{kind.member}Identifier", "clusterIdentifier")
    slurm = {**record.given.get("slurmConfiguration", {}), **changes.get("slurmConfiguration", {})}
    scheduler = {**record.given.get("scheduler", {}), **changes.get("scheduler", {})}
    merged = {"slurmConfiguration": slurm} | ({"scheduler": scheduler} if scheduler else {})
    _store.change(record, {**record.given, **changes, **merged})
    return {kind.member: {**_view(record), "status": "UPDATING"}}


def _delete(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    record = _named(kind, parameters, region)
    users = [other.name for other in _store.everything() if _uses(other, record)]
    if users:
        raise ApiError(
            "ConflictException", f"{kind.member} '{record.name}' is used by {', '.join(users)}", status=409
        )
    _store.remove(record)
    return {}


def _uses(other: StoredRecord, record: StoredRecord) -> bool:
    groups = [
        item.get("computeNodeGroupId") for item in other.given.get("computeNodeGroupConfigurations", [])
    ]
    return other.parent_arn == record.arn or record.facts["id"] in groups


def _named(kind: PcsKind, parameters: Parameters, region: str) -> StoredRecord:
    """Find by name or by id, within the cluster."""
    wanted = parameters[f"{kind.member}Identifier"]
    cluster = _cluster_of(kind, parameters, region)
    for record in _store.of_kind(kind.noun, region, cluster.arn if cluster else ""):
        if wanted in (record.name, record.facts["id"]):
            return record
    raise _missing(kind.member, wanted)


def _cluster_of(kind: PcsKind, parameters: Parameters, region: str) -> StoredRecord | None:
    return _named(CLUSTER, parameters, region) if kind.in_cluster else None


def _check_groups(cluster: StoredRecord | None, parameters: Parameters) -> None:
    """A queue's node groups are its cluster's."""
    if cluster is None:
        return
    known = {group.facts["id"] for group in _store.of_kind("ComputeNodeGroup", cluster.region, cluster.arn)}
    for item in parameters.get("computeNodeGroupConfigurations", []):
        if item["computeNodeGroupId"] not in known:
            raise _missing("computeNodeGroup", item["computeNodeGroupId"])


def _by_token(kind: PcsKind, region: str, parameters: Parameters) -> StoredRecord | None:
    token = parameters.get("clientToken")
    same = (record for record in _store.everything() if (record.kind, record.region) == (kind.noun, region))
    return next((record for record in same if token and record.client_token == token), None)


def _view(record: StoredRecord) -> dict[str, Any]:
    view = record.view()
    if "endpoints" in record.facts:  # a cluster also shows where Slurm keeps its key
        secret = (
            f"arn:aws:secretsmanager:{record.region}:{ACCOUNT}:secret:pcs!slurm-secret-{record.facts['id']}"
        )
        key = {"authKey": {"secretArn": secret, "secretVersion": "1"}}
        view["slurmConfiguration"] = {**view.get("slurmConfiguration", {}), **key}
    times = {"createdAt": record.created_at, "modifiedAt": record.modified_at}
    return {"computeNodeGroupConfigurations": [], **view, **times, "status": "ACTIVE"}


def _missing(what: str, identifier: str) -> ApiError:
    return ApiError("ResourceNotFoundException", f"there is no {what} '{identifier}'", status=404)


_Act = Callable[[PcsKind, Parameters, str], dict[str, Any]]
_VERBS: Mapping[str, _Act] = {"Create": _create, "Get": _get, "Update": _update, "Delete": _delete}
_OPERATIONS: Mapping[str, tuple[_Act, PcsKind]] = {
    **{verb + kind.noun: (act, kind) for verb, act in _VERBS.items() for kind in KINDS},
    **{f"List{kind.noun}s": (_list, kind) for kind in KINDS},
}


def operations() -> frozenset[str]:
    """List what it answers; the rest is refused."""
    return frozenset({*_OPERATIONS, *TAG_OPERATIONS})
