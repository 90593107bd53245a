"""Applies settings from the context to clusters.py: `cdk deploy -c dl1.max_nodes=4`, or that key in cdk.json.

A key is ours if it reads <cluster>.<setting>; the CDK's own keys contain colons, slashes and at-signs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from slipway.infra.declare.checks.clusters import all_problems
from slipway.infra.declare.checks.values import FieldType, field_types, nearest, presentable, shown
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import InvalidConfig, Problem

_DOTTED = re.compile(r"([^.:/@=\s]+)\.(.+)", re.DOTALL)
# Settings whose names an app of the user's own may use in its context for something else.
_COMMON_WORDS = frozenset({"account", "controller", "image", "market", "name", "region", "tags", "zone"})
_ALIKE = 0.75  # difflib's: matches dl2 with dl1, and trn_1 with trn1, but no word of the CDK's


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
    for problem in all_problems(overridden):
        # The user would not find a value that came from the context in clusters.py.
        name, _, setting = problem.where.partition(".")
        from_context = setting in {key.partition(".")[0] for key in changes.get(name, {})}
        where = f"{problem.where} of the context" if from_context else problem.where
        problems.append(replace(problem, where=where))
    if problems:
        raise InvalidConfig(problems)
    return overridden


def strays(context: Mapping[str, object], clusters: Sequence[Cluster]) -> list[Problem]:
    """Return problems for keys that seem to be settings of a cluster which the user's app does not have.

    Such an app has other keys, too: a key that resembles neither a cluster nor a setting is its own.
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
    """Note the change that one key requests, or return what is wrong with it. Skip keys of others."""
    dotted = _DOTTED.fullmatch(key)
    if dotted is None:
        return _bare_key(key, kinds)
    cluster, setting = dotted.groups()
    if cluster not in changes:
        alike = get_close_matches(cluster, kinds, n=1, cutoff=_ALIKE)
        name = setting.partition(".")[0]
        if not alike and not any(name in field_types(kind) for kind in kinds.values()):
            return None
        return _not_declared(key, cluster, kinds)
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
        # Tags of a wrong type stay unchanged, for the check to find.
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


def _not_declared(key: str, cluster: str, kinds: Mapping[str, type[Cluster]]) -> Problem:
    return Problem(
        where=f"{key} of the context",
        message=f"names the cluster {shown(cluster)}, which is not declared",
        hint=nearest(cluster, tuple(kinds)),
    )


def _settings(kind: type[Cluster]) -> tuple[str, ...]:
    return tuple(name for name in field_types(kind) if name != "name")


# Decodes a value of the context (text from `-c`, JSON from cdk.json) by its setting's type, without guesses.
_LONGEST_INTEGER = 15
_DIGITS = "write it in digits only, such as 4"


class WrongValue(Exception):
    """Says what is wrong with a value; the caller knows where it is."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def decode(field_type: FieldType, value: object) -> object:
    if field_type.optional and value in (None, "none"):
        return None
    if isinstance(field_type.base, type) and issubclass(field_type.base, StrEnum):
        if isinstance(value, str) and value in list(field_type.base):
            return field_type.base(value)
        hint = nearest(value, tuple(field_type.base)) if isinstance(value, str) else ""
        allowed = ", ".join(field_type.base)
        raise WrongValue(
            f"is {_in_json(value)}; allowed are {allowed}", hint if hint.startswith("did") else ""
        )
    return _DECODERS[field_type.base](value)


def decode_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise WrongValue(f"is {_in_json(value)}, not text", "put it in quotes")


def _integer(value: object) -> int:
    if type(value) is int:
        return value
    if not isinstance(value, str):
        raise WrongValue(f"is {_in_json(value)}, not a whole number", _DIGITS)
    if re.fullmatch(r"-?0[0-9]+", value):
        raise WrongValue(f"is {shown(value)}, a number with leading zeros", f"write {int(value[:99])}")
    if not re.fullmatch(rf"-?[0-9]{{1,{_LONGEST_INTEGER}}}", value):
        raise WrongValue(f"is {shown(value)}, not a whole number", _DIGITS)
    return int(value)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise WrongValue(f"is {_in_json(value)}; allowed are true and false")


def _texts(value: object) -> tuple[str, ...]:
    """Decode texts from a list in JSON, or from one text with commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",")) if value.strip() else ()
    if isinstance(value, list):
        return tuple(decode_text(item) for item in value)
    raise WrongValue(f"is {_in_json(value)}, not texts separated by commas", "write one text, such as a,b")


def _mapping(value: object) -> Mapping[str, str]:
    """Decode an object, given as JSON or as text with JSON in it."""
    if isinstance(value, str):
        try:
            value = json.loads(value, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError):  # no JSON, or a number of more than 4,300 digits
            raise WrongValue(f"is {shown(value)}, not an object in JSON", 'write {"owner": "me"}') from None
    if not isinstance(value, Mapping):
        raise WrongValue(f"is {_in_json(value)}, not an object in JSON", "or set one: dl1.tags.owner=me")
    return {decode_text(key): decode_text(each) for key, each in value.items()}


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise WrongValue(f"has {shown(key)} twice", "keep one of them")
        found[key] = value
    return found


def _in_json(value: object) -> str:
    """Return the value as the user wrote it in cdk.json: true, not True."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return shown(value)
    return presentable(json.dumps(value, default=str))


_DECODERS: Mapping[Any, Callable[[object], object]] = {
    str: decode_text,
    int: _integer,
    bool: _boolean,
    tuple: _texts,
    Mapping: _mapping,
}
