"""Settings from the context on top of clusters.py: `cdk deploy -c dl1.max_nodes=4`, or that key in cdk.json.

A key is ours when it reads <cluster>.<setting>; the CDK's own keys hold colons, slashes and at-signs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from slipway.infra.declare.checks.clusters import all_problems
from slipway.infra.declare.checks.field_types import field_types
from slipway.infra.declare.checks.secret_values import shown
from slipway.infra.declare.checks.values import nearest
from slipway.infra.declare.decoding import WrongValue, decode, decode_text
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import InvalidConfig, Problem

_DOTTED = re.compile(r"([^.:/@=\s]+)\.(.+)", re.DOTALL)
# Settings whose names an app of the user's own may well have in its context, for something of its own.
_COMMON_WORDS = frozenset({"account", "controller", "image", "market", "name", "region", "tags", "zone"})
_ALIKE = 0.75  # of difflib: takes dl2 for dl1, and trn_1 for trn1, but no word of the CDK for a cluster


def apply(context: Mapping[str, object], clusters: Sequence[Cluster]) -> tuple[Cluster, ...]:
    """Return the clusters as overridden, or raise everything that is wrong with any of them."""
    changes: dict[str, dict[str, object]] = {str(cluster.name): {} for cluster in clusters}
    kinds = {str(cluster.name): type(cluster) for cluster in clusters}
    problems = [
        problem
        for key, value in context.items()
        if (problem := _take(key, value, changes, kinds)) is not None
    ]
    overridden = tuple(_changed(cluster, changes[str(cluster.name)]) for cluster in clusters)
    problems += [_with_source(problem, changes) for problem in all_problems(overridden)]
    if problems:
        raise InvalidConfig(problems)
    return overridden


def strays(context: Mapping[str, object], clusters: Sequence[Cluster]) -> list[Problem]:
    """Return what looks like a setting of a cluster that an app of the user's own does not have.

    Such an app has other keys as well, so what resembles neither a cluster nor a setting is its own.
    """
    kinds = {str(cluster.name): type(cluster) for cluster in clusters}
    settings = {name for kind in kinds.values() for name in _settings(kind)}
    found = []
    for key in context:
        dotted = _DOTTED.fullmatch(key)
        if dotted is None or dotted[1] in kinds:
            continue
        setting = dotted[2].partition(".")[0]
        pairs = ((dotted[1], kinds), (setting, settings))
        are_alike = all(get_close_matches(word, known, n=1, cutoff=_ALIKE) for word, known in pairs)
        if are_alike or setting in settings - _COMMON_WORDS:
            found.append(_not_declared(key, dotted[1], kinds))
    return found


def _take(
    key: str, value: object, changes: Mapping[str, dict[str, object]], kinds: Mapping[str, type[Cluster]]
) -> Problem | None:
    """Note the change that one key asks for, or return what is wrong with it. Skip keys of others."""
    dotted = _DOTTED.fullmatch(key)
    if dotted is None:
        return _bare_key(key, kinds)
    cluster, setting = dotted.groups()
    if cluster not in changes:
        return _unknown_cluster(key, cluster, setting, kinds)
    try:
        _note(changes[cluster], setting, value, kinds[cluster])
    except WrongValue as error:
        return Problem(where=f"{key} of the context", message=error.message, hint=error.hint)
    return None


def _note(changes: dict[str, object], setting: str, value: object, kind: type[Cluster]) -> None:
    name, _, tag = setting.partition(".")
    if name not in field_types(kind):
        raise WrongValue("is not a setting", nearest(name, _settings(kind)))
    if name == "name":
        raise WrongValue("cannot be overridden", "a cluster's name is changed in clusters.py only")
    if not tag:
        changes[name] = decode(field_types(kind)[name], value)
    elif name == "tags":
        changes[setting] = decode_text(value)
    else:
        raise WrongValue(f"goes deeper than the setting {name}", f"write the value to {name} itself")


def _changed(cluster: Cluster, changes: Mapping[str, object]) -> Cluster:
    values: dict[str, Any] = {name: value for name, value in changes.items() if "." not in name}
    added = {name.partition(".")[2]: value for name, value in changes.items() if "." in name}
    if added:
        declared = values.get("tags", cluster.tags)
        # Tags of another type stay as they are, for the check to find.
        values["tags"] = {**declared, **added} if isinstance(declared, Mapping) else declared
    return replace(cluster, **values)


def _bare_key(key: str, kinds: Mapping[str, type[Cluster]]) -> Problem | None:
    """Refuse a setting without its cluster: the CDK would ignore `-c max_nodes=4` silently."""
    if key in kinds:
        return Problem(
            where=f"{key} of the context", message="names no setting", hint=f"write {key}.max_nodes"
        )
    alike = {
        cluster: get_close_matches(key, _settings(kind), n=1, cutoff=0.85) for cluster, kind in kinds.items()
    }
    meant = " or ".join(f"{cluster}.{found[0]}" for cluster, found in alike.items() if found)
    if meant:
        return Problem(where=f"{key} of the context", message="names no cluster", hint=f"write {meant}")
    return None


def _unknown_cluster(
    key: str, cluster: str, setting: str, kinds: Mapping[str, type[Cluster]]
) -> Problem | None:
    alike = get_close_matches(cluster, kinds, n=1, cutoff=_ALIKE)
    name = setting.partition(".")[0]
    if not alike and not any(name in field_types(kind) for kind in kinds.values()):
        return None
    return _not_declared(key, cluster, kinds)


def _not_declared(key: str, cluster: str, kinds: Mapping[str, type[Cluster]]) -> Problem:
    return Problem(
        where=f"{key} of the context",
        message=f"names the cluster {shown(cluster)}, which is not declared",
        hint=nearest(cluster, tuple(kinds)),
    )


def _settings(kind: type[Cluster]) -> tuple[str, ...]:
    return tuple(name for name in field_types(kind) if name != "name")


def _with_source(problem: Problem, changes: Mapping[str, Mapping[str, object]]) -> Problem:
    """Say that a wrong value came from the context: nobody would find it in clusters.py."""
    cluster, _, setting = problem.where.partition(".")
    overridden = {name.partition(".")[0] for name in changes.get(cluster, {})}
    return replace(problem, where=f"{problem.where} of the context") if setting in overridden else problem
