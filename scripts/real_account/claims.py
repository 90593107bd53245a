"""What is claimed of AWS, and what came of it. A new claim is a function and a row in its module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from scripts.real_account.account import Account, Evidence


class ClaimOutcome(StrEnum):
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Says what was seen."""

    outcome: ClaimOutcome
    seen: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    name: str
    promise: str
    stage: str  # what must stand, of STAGES
    prove: Callable[[Account], Proof]


def judged(holds: bool, seen: str) -> Proof:
    """Confirm or refute; the account adds its evidence."""
    return Proof(outcome=ClaimOutcome.CONFIRMED if holds else ClaimOutcome.REFUTED, seen=seen)


def not_tried(why: str) -> Proof:
    return Proof(outcome=ClaimOutcome.NOT_TRIED, seen=why)
