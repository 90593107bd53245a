"""The verdict of a check of preflight: ok, warning, failed or unknown, what was found, and the fix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slipway.jobs.cloud.aws import Unanswered


class CheckOutcome(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it can be deployed, but the user should know something
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    outcome: CheckOutcome
    found: str
    fix: str = ""
    is_spared: bool = False  # clusters of this kind need nothing of it


def spared(found: str) -> Verdict:
    return Verdict(outcome=CheckOutcome.OK, found=found, is_spared=True)


def ok(found: str) -> Verdict:
    return Verdict(outcome=CheckOutcome.OK, found=found)


def warning(found: str, fix: str = "") -> Verdict:
    return Verdict(outcome=CheckOutcome.WARNING, found=found, fix=fix)


def failed(found: str, fix: str) -> Verdict:
    return Verdict(outcome=CheckOutcome.FAILED, found=found, fix=fix)


def unknown(found: str, fix: str = "") -> Verdict:
    return Verdict(outcome=CheckOutcome.UNKNOWN, found=found, fix=fix)


def unanswered(refusal: Unanswered) -> Verdict:
    return unknown(refusal.words, refusal.remedy("deploy"))
