"""Settings from the context on top of clusters.py: `cdk deploy -c dl1.max_nodes=4`, or that key in cdk.json.

A key is ours when it reads <cluster>.<setting>; the CDK's own keys hold colons, slashes and at-signs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from infra.checks.clusters import all_problems
from infra.checks.field_types import field_types
from infra.checks.secret_values import shown
from infra.checks.values import nearest
from infra.config import BatchCluster
from infra.decoding import WrongValue, decode, decode_text
from jobs.core.errors import InvalidConfig, Problem

_DOTTED = re.compile(r"([^.:/@=\s]+)\.(.+)", re.DOTALL)
_ALIKE = 0.75  # of difflib: takes dl2 for dl1, and trn_1 for trn1, but no word of the CDK for a cluster


def apply(context: Mapping[str, object], clusters: Sequence[BatchCluster]) -> tuple[BatchCluster, ...]:
    """The clusters as overridden, all of them sound; or everything that is wrong with both."""
    changes: dict[str, dict[str, object]] = {str(cluster.name): {} for cluster in clusters}
    problems = [
        problem
        for key, value in context.items()
        if (problem := _take(key, value, changes, clusters)) is not None
    ]
    overridden = tuple(_changed(cluster, changes[str(cluster.name)]) for cluster in clusters)
    problems += [_with_source(problem, changes) for problem in all_problems(overridden)]
    if problems:
        raise InvalidConfig(problems)
    return overridden


def _take(
    key: str, value: object, changes: Mapping[str, dict[str, object]], clusters: Sequence[BatchCluster]
) -> Problem | None:
    """Note the change that one key asks for, or say what is wrong with it. Keys of others are left alone."""
    dotted = _DOTTED.fullmatch(key)
    if dotted is None:
        return _bare_key(key, tuple(changes))
    cluster, setting = dotted.groups()
    if cluster not in changes:
        return _unknown_cluster(key, cluster, setting, tuple(changes))
    try:
        _note(changes[cluster], setting, value)
    except WrongValue as error:
        return Problem(where=f"{key} of the context", message=error.message, hint=error.hint)
    return None


def _note(changes: dict[str, object], setting: str, value: object) -> None:
    name, _, tag = setting.partition(".")
    if name not in field_types():
        raise WrongValue("is no setting", nearest(name, _settings()))
    if name == "name":
        raise WrongValue("cannot be overridden", "a cluster's name is changed in infra/clusters.py only")
    if not tag:
        changes[name] = decode(field_types()[name], value)
    elif name == "tags":
        changes[setting] = decode_text(value)
    else:
        raise WrongValue(f"goes deeper than the setting {name}", f"write the value to {name} itself")


def _changed(cluster: BatchCluster, changes: Mapping[str, object]) -> BatchCluster:
    values: dict[str, Any] = {name: value for name, value in changes.items() if "." not in name}
    added = {name.partition(".")[2]: value for name, value in changes.items() if "." in name}
    if added:
        declared = values.get("tags", cluster.tags)
        # Tags of another type stay as they are, for the check to find.
        values["tags"] = {**declared, **added} if isinstance(declared, Mapping) else declared
    return replace(cluster, **values)


def _bare_key(key: str, clusters: tuple[str, ...]) -> Problem | None:
    """`-c max_nodes=4` would otherwise be ignored without a word."""
    if key in clusters:
        return Problem(
            where=f"{key} of the context", message="names no setting", hint=f"write {key}.max_nodes"
        )
    if get_close_matches(key, _settings(), n=1, cutoff=0.85):
        meant = " or ".join(f"{cluster}.{_nearest_setting(key)}" for cluster in clusters)
        return Problem(where=f"{key} of the context", message="names no cluster", hint=f"write {meant}")
    return None


def _nearest_setting(word: str) -> str:
    return get_close_matches(word, _settings(), n=1, cutoff=0)[0]


def _unknown_cluster(key: str, cluster: str, setting: str, clusters: tuple[str, ...]) -> Problem | None:
    alike = get_close_matches(cluster, clusters, n=1, cutoff=_ALIKE)
    if not alike and setting.partition(".")[0] not in field_types():
        return None
    return Problem(
        where=f"{key} of the context",
        message=f"names the cluster {shown(cluster)}, which is not declared",
        hint=nearest(cluster, clusters),
    )


def _settings() -> tuple[str, ...]:
    return tuple(name for name in field_types() if name != "name")


def _with_source(problem: Problem, changes: Mapping[str, Mapping[str, object]]) -> Problem:
    """A value that came from the context is not found in clusters.py: say so."""
    cluster, _, setting = problem.where.partition(".")
    overridden = {name.partition(".")[0] for name in changes.get(cluster, {})}
    return replace(problem, where=f"{problem.where} of the context") if setting in overridden else problem
