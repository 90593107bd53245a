"""The page that says how far to trust the yard: resource type by type, API call by call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scripts.page_templates import filled
from slipway.yard.cloudformation.resources.provider import Fidelity
from slipway.yard.cloudformation.resources.registry import fidelities
from slipway.yard.services import fidelity, pretending


def fidelity_page() -> str:
    return filled(
        "yard-fidelity",
        less="".join(f"- {line}\n" for line in pretending.LESS_THAN_AWS),
        refusals="".join(_refusals()),
        types="\n".join(_types()),
        counts="".join(_counts()),
        own="".join(_named(fidelity.OWN)),
        moto="".join(_named(fidelity.MOTO)),
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
