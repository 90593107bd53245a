"""The page that says how far to trust the yard: resource type by type, API call by call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slipway.yard.cloudformation.resources.provider import Fidelity
from slipway.yard.cloudformation.resources.registry import fidelities
from slipway.yard.services import fidelity, pretending

_INTRODUCTION = """\
# How far to trust the yard

What passes in the yard is proven to run here, and not to be accepted by AWS. This page says what stands
behind every resource type and every API call. `slipway yard status --json` has the same lists.

- **behavioural**: what it does on AWS happens here too, as far as `slipway yard status` says.
- **backed by moto**: it can be made, read and changed through its API; nothing happens behind it.
- **recorded only**: its properties are checked against CloudFormation's schema and kept; no API knows it.
- **refused**: an error names the yard, the call and what the yard has instead.
"""
_LESS = """\
## Answered, and less than on AWS

"""
_PRETENDING = """\
## Refused, because moto would only pretend

moto answers these as if something ran. The yard answers 501 `NotImplemented`.

| Call | Why |
|---|---|
"""
_TYPES = """\
## Resource types

A type that is not here is refused by its name, before anything of its stack is made. The yard makes the CDK's
custom resources that are here itself. Any other, `Custom::*`, is made by its function if that is of Python,
and refused otherwise.

"""
_CALLS = """\
## API calls

The calls are those in AWS's own model of each service. The services of recorded types are not here:
moto answers some of their calls, and none of them shows what a stack recorded.

| Service | Behavioural | Backed by moto | Refused |
|---|--:|--:|--:|
"""
_OWN = """\

### What the yard serves itself

| Service | Calls |
|---|---|
"""
_MOTO = """\

### What moto answers

| Service | Calls |
|---|---|
"""


def fidelity_page() -> str:
    less = "".join(f"- {line}\n" for line in pretending.LESS_THAN_AWS)
    return "".join(
        [
            _INTRODUCTION,
            "\n" + _LESS + less,
            "\n" + _PRETENDING + "".join(_refusals()),
            "\n" + _TYPES + "\n".join(_types()),
            "\n" + _CALLS + "".join(_counts()),
            _OWN + "".join(_named(fidelity.OWN)),
            _MOTO + "".join(_named(fidelity.MOTO)),
        ]
    )


def _refusals() -> Iterator[str]:
    for (service, operation), reason in sorted(pretending.REASONS.items()):
        yield f"| {service}:{operation} | {reason} |\n"


def _types() -> Iterator[str]:
    for kind in Fidelity:
        names = sorted(name for name, one in fidelities().items() if one is kind)
        yield f"### {kind.value.capitalize()}: {len(names)}\n"
        yield "| Service | Types |\n|---|---|"
        yield from (f"| {service} | {', '.join(listed)} |" for service, listed in _by_service(names).items())
        yield ""


def _by_service(names: Iterable[str]) -> Mapping[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name in names:
        service, _, rest = name.rpartition("::")
        grouped.setdefault(service, []).append(rest)
    return grouped


def _counts() -> Iterator[str]:
    for row in fidelity.summary():
        counts = " | ".join(str(row[word]) for word in (fidelity.OWN, fidelity.MOTO, fidelity.REFUSED))
        yield f"| {row['service']} | {counts} |\n"


def _named(word: str) -> Iterator[str]:
    for service, fidelities_of in fidelity.calls().items():
        if names := sorted(name for name, one in fidelities_of.items() if one == word):
            yield f"| {service} | {', '.join(names)} |\n"
