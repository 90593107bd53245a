"""Checks all declared clusters and reports every problem at once, before anything is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

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

Entry = TypeVar("Entry")


def all_problems(clusters: Sequence[Cluster]) -> tuple[Problem, ...]:
    found = [problem for cluster in clusters for problem in problems_of(cluster)]
    for name, count in Counter(str(cluster.name) for cluster in clusters).items():
        if count > 1:
            same = next(cluster for cluster in clusters if str(cluster.name) == name)
            message = f"is the name of {count} clusters; cluster names must be unique"
            found.append(Problem(where=_heading(same), message=message, hint="rename one in clusters.py"))
    return tuple(found)


def problems_of(cluster: Cluster) -> tuple[Problem, ...]:
    wrong = problems_in(cluster, type(cluster), {**RULES, **RULES_OF_KIND[cluster.kind]})
    return tuple(replace(problem, where=f"{_heading(cluster)}.{problem.where}") for problem in wrong)


def problems_in(
    entry: Entry, kind: type[Entry], rules: Mapping[Callable[[Entry], Iterator[Problem]], tuple[str, ...]]
) -> list[Problem]:
    """Return what is wrong with each setting, and what breaks the rules that read sound settings alone."""
    unsound: dict[str, Problem] = {}
    for name, field_type in field_types(kind).items():
        found = objection(field_type, getattr(entry, name))
        if found:
            unsound[name] = Problem(where=name, message=found.message, hint=found.hint)
    sound = [rule for rule, reads in rules.items() if not unsound.keys() & set(reads)]
    return [*unsound.values(), *(problem for rule in sound for problem in rule(entry))]


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
    # Tags have their own check, which names the key.
    texts = (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ()
    for text in texts:
        if kind := secret_kind(text):
            return Objection(
                message=f"holds {kind} (hidden), and declarations are committed and printed",
                hint="take it out, revoke it, and keep secrets in AWS Secrets Manager",
            )
    return next((found for check in field_type.checks if (found := check(value))), None)
