"""The API of AWS PCS: clusters, compute node groups and queues. clusters.py runs the clusters.

To add a kind of resource: an entry of KINDS. The operations follow from its noun, as in PCS's own model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.services.pcs import checks, clusters, slurm_conf
from slipway.yard.services.pcs.slurm_conf import CLUSTER, KINDS, QUEUE, PcsKind, store
from slipway.yard.services.recorded import TAG_OPERATIONS, StoredRecord, kept, new_id, paged

Parameters = Mapping[str, Any]

_REGISTER = "RegisterComputeNodeGroupInstance"


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    if operation in TAG_OPERATIONS:
        return store.tag_call(
            operation, parameters, slurm_conf.missing("resource", parameters["resourceArn"])
        )
    if operation == _REGISTER:
        return _register(parameters, region)
    if operation not in _OPERATIONS:
        raise not_emulated("pcs", operation)
    act, kind = _OPERATIONS[operation]
    return act(kind, parameters, region)


def reset() -> None:
    clusters.reset()
    store.clear()


def _create(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters[f"{kind.member}Name"]
    cluster = _cluster_of(kind, parameters, region)
    token = parameters.get("clientToken")
    for known in store.everything() if token else ():
        if (known.kind, known.region, known.client_token) == (kind.noun, region, token):
            return {kind.member: _view(known)}
    parent_arn = cluster.arn if cluster else ""
    conflict = ApiError("ConflictException", f"a {kind.member} named '{name}' is there already", status=409)
    if any(other.name == name for other in store.of_kind(kind.noun, region, parent_arn)):
        raise conflict
    checks.check_number(kind, cluster, region)
    checks.check(kind, cluster, parameters, region)
    identifier = new_id("pcs_")
    cluster_arn = f"arn:aws:pcs:{region}:{ACCOUNT}:cluster/{identifier}"
    made = StoredRecord(
        arn=f"{cluster.arn}/{kind.path}/{identifier}" if cluster else cluster_arn,
        kind=kind.noun,
        region=region,
        name=name,
        given=kept(parameters, f"{kind.member}Name", "clusterIdentifier"),
        facts={"id": identifier, **({"clusterId": cluster.facts["id"]} if cluster else {})},
        tags=dict(parameters.get("tags", {})),
        parent_arn=parent_arn,
        client_token=parameters.get("clientToken", ""),
    )
    record = store.add(made, conflict)
    record.modified_at = record.created_at
    if kind is CLUSTER:
        clusters.start(record)
        record.facts["endpoints"] = clusters.endpoints(record)
    clusters.wake()
    return {kind.member: {**_view(record), "status": "CREATING"}}


def _list(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    cluster = _cluster_of(kind, parameters, region)
    found = [_view(record) for record in store.of_kind(kind.noun, region, cluster.arn if cluster else "")]
    return paged(f"{kind.member}s", found, parameters)


def _update(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    record = _named(kind, parameters, region)
    changes = kept(parameters, f"{kind.member}Identifier", "clusterIdentifier")
    had, changed = (each.get("slurmConfiguration", {}) for each in (record.given, changes))
    kept_on = {**had.get("accounting", {}), **changed.get("accounting", {})}
    slurm = {**had, **changed} | ({"accounting": kept_on} if kept_on else {})
    scheduler = {**record.given.get("scheduler", {}), **changes.get("scheduler", {})}
    merged = {"slurmConfiguration": slurm} | ({"scheduler": scheduler} if scheduler else {})
    wanted = {**record.given, **changes, **merged}
    checks.check(kind, _cluster_of(kind, parameters, region), {**wanted, "name": record.name}, region)
    checks.check_accounts_stay(record, wanted)
    store.change(record, wanted)
    if kind is CLUSTER:
        record.facts["endpoints"] = clusters.endpoints(record)
    clusters.wake()
    return {kind.member: {**_view(record), "status": "UPDATING"}}


def _delete(kind: PcsKind, parameters: Parameters, region: str) -> dict[str, Any]:
    record = _named(kind, parameters, region)
    checks.check_unused(record)
    store.remove(record)
    if kind is CLUSTER:
        clusters.stop(record)
    clusters.wake()
    return {}


def _register(parameters: Parameters, region: str) -> dict[str, Any]:
    """Tell an instance which node it is. The yard's agent uses the instance's id as bootstrapId."""
    cluster = slurm_conf.find(CLUSTER, parameters["clusterIdentifier"], region)
    running = clusters.find(cluster)
    node = running.node_of(parameters["bootstrapId"])
    group = running.group_of(node.name) if node else None
    if node is None or group is None:
        raise ApiError(
            "AccessDeniedException",
            f"{parameters['bootstrapId']} is no instance that PCS launched for {cluster.name}",
            status=403,
        )
    node.has_registered = True
    actions = {name: group.given[name] for name in ("nodeLifecycleActions",) if group.given.get(name)}
    return {
        "nodeID": node.name,
        "sharedSecret": running.controller.secret,
        "endpoints": cluster.facts["endpoints"],
        "clusterName": cluster.name,
        "computeNodeGroupId": group.facts["id"],
        "computeNodeGroupName": group.name,
        "schedulerVersion": cluster.given["scheduler"]["version"],
        **actions,
    }


def _named(kind: PcsKind, parameters: Parameters, region: str) -> StoredRecord:
    wanted = parameters[f"{kind.member}Identifier"]
    return slurm_conf.find(kind, wanted, region, _cluster_of(kind, parameters, region))


def _cluster_of(kind: PcsKind, parameters: Parameters, region: str) -> StoredRecord | None:
    return slurm_conf.find(CLUSTER, parameters["clusterIdentifier"], region) if kind.in_cluster else None


def _view(record: StoredRecord) -> dict[str, Any]:
    view = record.view()
    if record.kind == CLUSTER.noun:  # it also shows the secret with Slurm's key
        secret = (
            f"arn:aws:secretsmanager:{record.region}:{ACCOUNT}:secret:pcs!slurm-secret-{record.facts['id']}"
        )
        key = {"authKey": {"secretArn": secret, "secretVersion": "1"}}
        view["slurmConfiguration"] = {**view.get("slurmConfiguration", {}), **key}
    cluster = store.at(record.parent_arn) or record
    settled = "CREATING" if record.created_at == record.modified_at else "UPDATING"
    status = "ACTIVE" if clusters.is_settled(cluster) else settled
    errors = {"errorInfo": clusters.errors_of(cluster, record)} if record.kind != QUEUE.noun else {}
    times = {"createdAt": record.created_at, "modifiedAt": record.modified_at}
    return {"computeNodeGroupConfigurations": [], **view, **times, **errors, "status": status}


_Act = Callable[[PcsKind, Parameters, str], dict[str, Any]]
_VERBS: Mapping[str, _Act] = {
    "Create": _create,
    "Get": lambda kind, parameters, region: {kind.member: _view(_named(kind, parameters, region))},
    "Update": _update,
    "Delete": _delete,
}
_OPERATIONS: Mapping[str, tuple[_Act, PcsKind]] = {
    **{verb + kind.noun: (act, kind) for verb, act in _VERBS.items() for kind in KINDS},
    **{f"List{kind.noun}s": (_list, kind) for kind in KINDS},
}
CALLS = frozenset({*_OPERATIONS, *TAG_OPERATIONS, _REGISTER})
