"""Makes valid clusters of the kinds whose nodes boot an AMI, and changes one as a hint says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from slipway.infra.declare import types
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.words.errors import Problem
from tests.infra.declare.test_types import SOUND_MPI
from tests.infra.synthesis import CLUSTER, SLURM_CLUSTER

CLUSTERS: Mapping[str, NodeCluster] = {"batch": CLUSTER, "mpi": SOUND_MPI, "slurm": SLURM_CLUSTER}
OWN = "/team/amis/ours/id"

_KIND = re.compile(r"(\w+Cluster)\((.*)\)")
_SETTING = re.compile(r"(\w+)=(\"[^\"]*\"|\([^)]*\)|[\w.]+)")


def followed(cluster: Cluster, problem: Problem) -> Iterator[Cluster]:
    """Yield the cluster as a user would write it after following each of a hint's ways."""
    for way in re.split(r",? or ", problem.hint):
        other = _KIND.search(way)
        settings = {name: _value(text) for name, text in _SETTING.findall(other[2] if other else way)}
        if "of your own" in way or "your own AMI" in way:
            settings["ami_parameter"] = OWN
        if settings:
            yield replace(_cluster_of(other[1], cluster) if other else cluster, **settings)


def _cluster_of(name: str, like: Cluster) -> Cluster:
    """Return a cluster of another kind with its defaults, in the first one's place."""
    kind = getattr(types, name)
    same = ("name", "max_nodes", "region", "zone", "egress", "budget_usd_per_month", "alert_email")
    made: Cluster = kind(instance_type="", **{setting: getattr(like, setting) for setting in same})
    return made


def _value(text: str) -> Any:
    enum, _, member = text.partition(".")
    return getattr(types, enum)[member] if member and enum.isidentifier() else ast.literal_eval(text)
