"""Decodes policy documents from templates and moto into typed values, and matches principals with callers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from slipway.jobs.words.text import decode_json
from slipway.yard.permissions import conditions
from slipway.yard.permissions.conditions import Conditions

VARIABLES_SINCE = "2012-10-17"


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """The Principal or NotPrincipal of a statement: kind (AWS, Service, …) -> names; "*" means everybody."""

    named: Mapping[str, tuple[str, ...]]
    is_negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatement:
    sid: str
    is_allow: bool
    actions: tuple[str, ...]
    is_not_action: bool
    resources: tuple[str, ...]  # empty in a trust policy
    is_not_resource: bool
    who: Who | None  # None in an identity policy
    conditions: Conditions = field(default_factory=dict)
    has_variables: bool = True  # the policy's version supports ${…}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """A policy; `name` is for users: an inline policy's name or a managed one's ARN."""

    name: str
    statements: tuple[PolicyStatement, ...]


def decode(name: str, document: str | Mapping[str, object]) -> PolicyDocument:
    """Return the policy; raise ValueError if IAM would answer MalformedPolicyDocument."""
    return _decoded(name, document if isinstance(document, str) else json.dumps(document))


@lru_cache(maxsize=1024)
def _decoded(name: str, text: str) -> PolicyDocument:
    document = decode_json(text)
    if not isinstance(document, Mapping) or "Statement" not in document:
        raise ValueError(f"policy '{name}' has no Statement; give it a list of statements")
    stated = document["Statement"]
    has_variables = document.get("Version") == VARIABLES_SINCE
    return PolicyDocument(
        name=name,
        statements=tuple(
            _statement(name, item, has_variables)
            for item in (stated if isinstance(stated, list) else [stated])
        ),
    )


def _statement(policy: str, stated: Mapping[str, object], has_variables: bool) -> PolicyStatement:
    if not isinstance(stated, Mapping):
        raise ValueError(f"a statement of policy '{policy}' is {stated!r}; it must be an object")
    effect = stated.get("Effect")
    if effect not in ("Allow", "Deny"):
        raise ValueError(
            f"a statement of policy '{policy}' has Effect {effect!r}; allowed are Allow and Deny"
        )
    found = PolicyStatement(
        sid=str(stated.get("Sid", "")),
        is_allow=effect == "Allow",
        actions=_texts(stated.get("Action", stated.get("NotAction"))),
        is_not_action="NotAction" in stated,
        resources=_texts(stated.get("Resource", stated.get("NotResource"))),
        is_not_resource="NotResource" in stated,
        who=_who(stated),
        conditions=_conditions(stated.get("Condition")),
        has_variables=has_variables,
    )
    conditions.check(found.conditions)
    return found


def _who(stated: Mapping[str, object]) -> Who | None:
    for word in ("Principal", "NotPrincipal"):
        if word in stated:
            named = stated[word]
            by_kind = named if isinstance(named, Mapping) else {"AWS": named}
            return Who(
                named={kind: _texts(names) for kind, names in by_kind.items()},
                is_negated=word == "NotPrincipal",
            )
    return None


def _conditions(stated: object) -> Conditions:
    if not isinstance(stated, Mapping):
        return {}
    if not all(isinstance(wanted, Mapping) for wanted in stated.values()):
        raise ValueError("a Condition must have an object of keys and values for each operator")
    return {
        operator: {key: _texts(values) for key, values in wanted.items()}
        for operator, wanted in stated.items()
    }


def _texts(stated: object) -> tuple[str, ...]:
    if stated is None:
        return ()
    items: Sequence[object] = stated if isinstance(stated, list | tuple) else [stated]
    return tuple(str(item).lower() if isinstance(item, bool) else str(item) for item in items)


# Callers, and how the principals of a policy name them.


class Named(Enum):
    """Says how a statement names the caller, which decides if a resource's policy is enough."""

    NOT = "not"
    ACCOUNT = "by the account, which leaves the decision to identity policies"
    ROLE = "by the role: the role's boundary still limits it"
    SELF = "by the session, the service or everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A role's session, or an AWS service that acts on its own (`service`): events.amazonaws.com."""

    account: str
    arn: str = ""  # the session's: arn:aws:sts::…:assumed-role/ROLE/SESSION
    role_arn: str = ""
    role_id: str = ""
    service: str = ""

    @property
    def words(self) -> str:
        return self.arn or self.service


def named(who: Who, caller: Caller) -> Named:
    """Return how the principal element names the caller."""
    if not who.is_negated:
        return _named(who, caller)
    # NotPrincipal exempts a session only if its role and its account are listed, too.
    return Named.NOT if _named(who, caller) is not Named.NOT else Named.SELF


def _named(who: Who, caller: Caller) -> Named:
    by_aws = who.named.get("AWS", ())
    if "*" in by_aws or "*" in who.named.get("*", ()):
        return Named.SELF
    if caller.service:
        return Named.SELF if caller.service in who.named.get("Service", ()) else Named.NOT
    if caller.arn in by_aws or (caller.role_id and caller.role_id in by_aws):
        return Named.SELF
    if caller.role_arn in by_aws:
        return Named.ROLE
    account = {caller.account, f"arn:aws:iam::{caller.account}:root"}
    return Named.ACCOUNT if account & set(by_aws) else Named.NOT
