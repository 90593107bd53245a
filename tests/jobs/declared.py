"""Finds declared clusters for tests, by name and with the kind that the test expects."""

from __future__ import annotations

from typing import TypeVar

from slipway.infra.declare.declared import declared_cluster
from slipway.infra.declare.types import Cluster

Kind = TypeVar("Kind", bound=Cluster)


def declared(name: str, kind: type[Kind]) -> Kind:
    cluster = declared_cluster(name)
    assert isinstance(cluster, kind)
    return cluster
