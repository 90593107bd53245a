"""A store for services that moto lacks: it keeps their resources by ARN, with tags.

PCS and Image Builder use it. To build another service, take yard/services/pcs/api.py as the example.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.errors import ApiError

_NOT_KEPT = frozenset({"clientToken", "tags", "dryRun"})


@dataclass(slots=True, kw_only=True)
class StoredRecord:
    """One resource: its parameters, and what the service adds in its answers."""

    arn: str
    kind: str
    region: str
    name: str
    given: dict[str, Any]
    facts: dict[str, Any]
    tags: dict[str, str]
    parent_arn: str = ""
    client_token: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    modified_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def view(self) -> dict[str, Any]:
        """Return the members for an answer; the serialiser drops those that the service's model lacks."""
        return {**self.facts, **self.given, "name": self.name, "arn": self.arn, "tags": self.tags}


class Store:
    """The records of one service, in all regions."""

    def __init__(self) -> None:
        self._records: dict[str, StoredRecord] = {}
        self._lock = threading.RLock()

    def add(self, record: StoredRecord, conflict: ApiError) -> StoredRecord:
        """Keep the record. A repeated client token returns the first one; a taken ARN raises `conflict`."""
        with self._lock:
            for known in self._records.values():
                same_token = record.client_token and known.client_token == record.client_token
                if same_token and (known.kind, known.region) == (record.kind, record.region):
                    return known
            if record.arn in self._records:
                raise conflict
            self._records[record.arn] = record
            return record

    def of_kind(self, kind: str, region: str, parent_arn: str = "") -> list[StoredRecord]:
        with self._lock:
            return [
                record
                for record in self._records.values()
                if (record.kind, record.region, record.parent_arn) == (kind, region, parent_arn)
            ]

    def everything(self) -> list[StoredRecord]:
        with self._lock:
            return list(self._records.values())

    def at(self, arn: str) -> StoredRecord | None:
        return self._records.get(arn)

    def change(self, record: StoredRecord, given: Mapping[str, Any]) -> None:
        with self._lock:
            record.given = dict(given)
            record.modified_at = datetime.now(UTC)

    def remove(self, record: StoredRecord) -> None:
        with self._lock:
            self._records.pop(record.arn, None)

    def clear(self) -> None:
        with self._lock:
            self._records.clear()

    def tag_call(self, operation: str, parameters: Mapping[str, Any], missing: ApiError) -> dict[str, Any]:
        """Answer the three tag operations, which all of these services have in the same form."""
        record = self.at(parameters["resourceArn"])
        if record is None:
            raise missing
        with self._lock:
            if operation == "TagResource":
                record.tags |= parameters["tags"]
            if operation == "UntagResource":
                for key in parameters["tagKeys"]:
                    record.tags.pop(key, None)
        return {"tags": dict(record.tags)} if operation == "ListTagsForResource" else {}


TAG_OPERATIONS = frozenset({"TagResource", "UntagResource", "ListTagsForResource"})


def kept(parameters: Mapping[str, Any], *but: str) -> dict[str, Any]:
    """Return the part of a request that belongs to the resource."""
    return {name: value for name, value in parameters.items() if name not in _NOT_KEPT and name not in but}


def given_tags(parameters: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the tags in a call to EC2."""
    given = parameters.get("TagSpecifications", [])
    return [tag for specification in given for tag in specification.get("Tags", [])]


def new_id(prefix: str) -> str:
    return prefix + secrets.token_hex(5)


def paged(
    member: str,
    items: Sequence[Any],
    parameters: Mapping[str, Any],
    *,
    asked: tuple[str, str] = ("nextToken", "maxResults"),
    size: int | None = None,
) -> dict[str, Any]:
    """Answer with the requested page of the items, and the token of the next page, if any."""
    token, most = asked
    start = int(parameters.get(token) or 0)
    end = start + int(parameters.get(most) or size or len(items) or 1)
    return {member: items[start:end], **({token: str(end)} if end < len(items) else {})}
