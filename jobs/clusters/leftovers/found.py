"""What destroyed clusters kept in one region: everything with our tag that no existing stack owns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from slipway.jobs.cloud.aws import Unanswered, ask_all, reader
from slipway.jobs.clusters.leftovers.finders import FINDERS, SilentService
from slipway.jobs.clusters.leftovers.leftover import Leftover, LeftoverKind
from slipway.jobs.words.errors import SlipwayError

_GONE = "DELETE_COMPLETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLeftovers:
    """Holds what was found, and the kinds of which AWS did not say."""

    leftovers: tuple[Leftover, ...]
    unanswered: tuple[tuple[LeftoverKind, Unanswered], ...]


def find_leftovers(region: str, kinds: Collection[LeftoverKind] = tuple(LeftoverKind)) -> FoundLeftovers:
    """Look at every kind; a stack that cannot be read stops the search: what it owns must not be taken."""
    found: list[Leftover] = []
    unanswered: list[tuple[LeftoverKind, Unanswered]] = []
    for kind in kinds:
        try:
            found += FINDERS[kind](region)
        except SilentService as silence:
            unanswered.append((kind, silence.refusal))
    owned = _owned({each.owner for each in found}, region) if found else frozenset()
    return FoundLeftovers(
        leftovers=tuple(each for each in found if each.id not in owned), unanswered=tuple(unanswered)
    )


def _owned(owners: Collection[str], region: str) -> frozenset[str]:
    """Return the physical ids of all that the stacks of these clusters hold."""
    cloudformation = reader("cloudformation", region)
    stacks = _answered(ask_all(cloudformation, "DescribeStacks", "Stacks"))
    ours = [each["StackName"] for each in stacks if _is_of(each["StackName"], owners)]
    resources = [
        each
        for stack in ours
        for each in _answered(
            ask_all(cloudformation, "ListStackResources", "StackResourceSummaries", StackName=stack)
        )
    ]
    return frozenset(
        resource.get("PhysicalResourceId", "")
        for resource in resources
        if resource["ResourceStatus"] != _GONE
    )


def _is_of(stack: str, owners: Collection[str]) -> bool:
    """A stack is called as its cluster, or begins with its name and a hyphen."""
    return any(stack == owner or stack.startswith(f"{owner}-") for owner in owners)


def _answered(answer: object) -> list[dict[str, str]]:
    if isinstance(answer, Unanswered):
        raise SlipwayError(
            f"{answer.action} gave no answer: {answer.code}, {answer.message[:200]}; without it nobody can "
            "tell what a stack still owns",
            hint=f"allow {answer.action} to your role",
        )
    assert isinstance(answer, list), "ask_all gives a list or an Unanswered"
    return answer
