"""Fills docs/permissions.md from the rows that `slipway cluster permissions` makes policies of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from scripts.page_templates import filled, table
from slipway.jobs.clusters.permissions import CONDITIONS, PURPOSES, Grant, PolicyScope, grants, policy
from slipway.jobs.words.targets import KINDS

_ANY = PolicyScope(cluster="CLUSTER", kind="batch", region="REGION", account="ACCOUNT", image="IMAGE")
_STACK = "`cloudformation:stack/CLUSTER/*`"
_EXAMPLE = PolicyScope(
    cluster="dl1", kind="batch", region="us-east-1", account="123456789012", image="gaudi-ecs"
)


def permissions_page() -> str:
    return filled(
        "permissions",
        purposes=table((f"`{name}`", what) for name, what in PURPOSES.items()),
        sections="\n".join(map(_section, PURPOSES)),
        example=json.dumps(policy("submit", _EXAMPLE), indent=2),
    )


def _section(purpose: str) -> str:
    rows = table(_cells(grant) for grant in grants() if purpose in grant.purposes)
    head = "| Clusters | Actions | Resources | Only if |\n|---|---|---|---|"
    return f"## {purpose}\n\n{head}\n{rows}\n"


def _cells(grant: Grant) -> Iterator[str]:
    yield "all" if grant.kinds == KINDS.keys() else ", ".join(kind for kind in KINDS if kind in grant.kinds)
    yield ", ".join(f"`{action}`" for action in grant.actions)
    own, *others = [f"`{each.format_map(_ANY.names)}`" for each in grant.resources]
    resources = f"{own}, and its other stacks" if own == _STACK and others else ", ".join((own, *others))
    wanted = [each for operator in CONDITIONS[grant.condition].values() for each in operator.items()]
    words = " and ".join(f"`{key}` is `{value.format_map(_ANY.names)}`" for key, value in wanted)
    yield f"{resources} where {words}" if words else resources
    yield re.sub(r"--[\w-]+", r"`\g<0>`", grant.when)
