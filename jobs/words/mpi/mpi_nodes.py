"""The nodes of an MPI cluster: their names, their order, and whether they answered; for nodes and laptops.

The order is everybody's own to compute, so that nobody has to ask who the main node is: it is the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slipway.jobs.words.records import refuse_newer, wrong_fields

READY_KEY = (
    "cluster/ready.json"  # of the cluster's bucket; the main node writes it, others take back an answer
)
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    name: str
    address: str
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Holds how one node answered the all-reduce of all nodes."""

    name: str
    instance_id: str
    answered: bool
    why: str  # not; empty where it did
    lasts: bool = False  # no waiting cures it


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    nodes: tuple[Answer, ...]
    ready: bool  # as many as the cluster is declared with, and all answered
    at: int  # Unix seconds


def host_name(address: str) -> str:
    """Return the name that EC2 derives from an address, without a domain."""
    return f"ip-{address.replace('.', '-')}"


def order_members(instances: Iterable[Mapping[str, Any]]) -> list[Member]:
    """Order running instances of DescribeInstances: the longest running first, which is the main node."""
    known = [instance for instance in instances if instance.get("PrivateIpAddress")]
    known.sort(key=lambda each: (each["LaunchTime"], each["InstanceId"]))
    return [
        Member(
            name=host_name(each["PrivateIpAddress"]),
            address=str(each["PrivateIpAddress"]),
            instance_id=str(each["InstanceId"]),
        )
        for each in known
    ]


def encode_readiness(readiness: Readiness) -> str:
    return json.dumps({"schema": SCHEMA_VERSION, **asdict(readiness)}, indent=1)


def decode_readiness(text: str) -> Readiness | None:
    """Return None if the record is damaged: the main node writes another soon."""
    try:
        record = json.loads(text)
    except ValueError:
        return None
    schema = record.get("schema") if isinstance(record, dict) else None
    refuse_newer(schema, SCHEMA_VERSION, READY_KEY)
    if schema != SCHEMA_VERSION:
        return None
    nodes, ready, at = record.get("nodes"), record.get("ready"), record.get("at")
    if not isinstance(nodes, list) or type(ready) is not bool or type(at) is not int:
        return None
    if not all(isinstance(node, dict) for node in nodes):
        return None
    complete = [{"lasts": False, **node} for node in nodes]  # nodes of an older Slipway do not say it
    if any(wrong_fields(Answer, each) for each in complete):
        return None
    answers = tuple(Answer(**{name: each[name] for name in Answer.__dataclass_fields__}) for each in complete)
    return Readiness(nodes=answers, ready=ready, at=at)


def has_answered(readiness: Readiness, instance_id: str) -> bool:
    return any(node.answered for node in readiness.nodes if node.instance_id == instance_id)


def take_back(readiness: Readiness, instance_id: str, why: str) -> Readiness:
    """Return the record without the answer of this node, which does not hold any more."""
    nodes = tuple(
        replace(node, answered=False, why=why) if node.instance_id == instance_id else node
        for node in readiness.nodes
    )
    return replace(readiness, nodes=nodes, ready=False)


def answers_of(members: Sequence[Member], readiness: Readiness | None) -> list[Answer]:
    """Return an answer for each member that runs now; a new one has not been asked yet."""
    said = {node.instance_id: node for node in readiness.nodes} if readiness else {}
    return [said.get(member.instance_id) or _not_asked(member) for member in members]


def _not_asked(member: Member) -> Answer:
    why = "it has not been asked yet"
    return Answer(name=member.name, instance_id=member.instance_id, answered=False, why=why)
