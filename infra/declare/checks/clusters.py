"""Checks all declared clusters and reports every problem at once, before anything is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slipway.infra.declare.checks.rules import RULES, RULES_OF_KIND
from slipway.infra.declare.checks.values import (
    FieldType,
    Objection,
    field_types,
    secret_kind,
    shown,
    type_objection,
)
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import Problem


def all_problems(clusters: Sequence[Cluster]) -> tuple[Problem, ...]:
    found = [problem for cluster in clusters for problem in problems_of(cluster)]
    return (*found, *_shared_names(clusters))


def problems_of(cluster: Cluster) -> tuple[Problem, ...]:
    unsound: dict[str, Problem] = {}
    for name, field_type in field_types(type(cluster)).items():
        found = objection(field_type, getattr(cluster, name))
        if found:
            unsound[name] = Problem(where=name, message=found.message, hint=found.hint)
    rules = {**RULES, **RULES_OF_KIND[cluster.kind]}
    sound = [rule for rule, reads in rules.items() if not unsound.keys() & set(reads)]
    broken = [problem for rule in sound for problem in rule(cluster)]
    wrong = (*unsound.values(), *broken)
    return tuple(replace(problem, where=f"{_heading(cluster)}.{problem.where}") for problem in wrong)


def _heading(cluster: Cluster) -> str:
    """Return the cluster's name for a message, whatever characters it contains."""
    name: object = cluster.name
    return (
        name
        if isinstance(name, str) and name.isprintable() and 0 < len(name) <= 64
        else f"cluster {shown(name)}"
    )


def objection(field_type: FieldType, value: object) -> Objection | None:
    """Return what is wrong with the value of one setting, apart from all others."""
    wrong_type = type_objection(field_type, value)
    if wrong_type or value is None:
        return wrong_type
    for text in _texts(value):
        if kind := secret_kind(text):
            return Objection(
                message=f"holds {kind} (hidden), and declarations are committed and printed",
                hint="take it out, revoke it, and keep secrets in AWS Secrets Manager",
            )
    return next((found for check in field_type.checks if (found := check(value))), None)


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts of a setting. Tags have their own check, which names the key."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, tuple) else ()


def _shared_names(clusters: Sequence[Cluster]) -> Iterator[Problem]:
    for name, count in Counter(str(cluster.name) for cluster in clusters).items():
        if count > 1:
            yield Problem(
                where=_heading(next(cluster for cluster in clusters if str(cluster.name) == name)),
                message=f"is the name of {count} clusters; cluster names must be unique",
                hint="rename one in clusters.py",
            )
