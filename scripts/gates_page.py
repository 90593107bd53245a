"""The page of the gates: what cdk-nag's packs find in each stack that we ship, and why we accept it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slipway.infra.declare.declared import load, load_machine_images
from slipway.infra.verify import nag, packs
from slipway.infra.verify.nag import Accepted
from slipway.infra.verify.packs import count_findings

_COLUMNS = {"AwsSolutions": "AwsSolutions", **{kind: kind for kind in packs.WILDCARDS}, **packs.PACKS}
_INTRODUCTION = """\
# Gates

`scripts/check` holds the templates of the clusters that this repository declares against three packs of
cdk-nag. A finding fails it unless it is accepted by name with a reason. A synthesis of your own runs
AwsSolutions alone. Nobody has audited these templates: a pack without findings is no certificate.

## Accepted findings of each stack

Nearly all of AwsSolutions are IAM5, once for each wildcard of each policy. The two columns beside it say
how many of them are a `*` for actions that take no resource in AWS, and how many are objects below a prefix
of one bucket. Most of the rest are ids that AWS makes up later, such as those of instances and log streams.

"""

_PUBLIC = Path(__file__).parent / "pages" / "gates_of_others.md"  # measured by hand


def gates_page() -> str:
    """Return the page; it takes a synthesis."""
    counts = count_findings(load({}), load_machine_images())
    stacks = sorted({stack for stack, _ in counts})
    total = ["all", *(str(sum(counts[stack, pack] for stack in stacks)) for pack in _COLUMNS)]
    rows = [[stack, *(str(counts[stack, pack]) for pack in _COLUMNS)] for stack in stacks]
    return "".join(
        [
            _INTRODUCTION,
            *_table(["Stack", *_COLUMNS.values()], [*rows, total]),
            _PUBLIC.read_text(encoding="utf-8"),
            "\n## Why they are accepted\n\n",
            *_table(["Rule", "Construct", "Reason"], _reasons(packs.ACCEPTED)),
            "\nAwsSolutions:\n\n",
            *_table(["Rule", "Construct", "Reason"], _reasons(nag.ACCEPTED)),
        ]
    )


def _reasons(accepted: tuple[Accepted, ...]) -> list[list[str]]:
    return [[each.rule, f"`{each.path}`".replace("|", "\\|"), each.reason] for each in accepted]


def _table(headings: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"
