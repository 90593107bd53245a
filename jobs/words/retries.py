"""Which ends of a job are tried again, for job definitions and for jobs that ask for fewer attempts.

A job's own retry strategy replaces the definition's as a whole (AWS Batch API reference, SubmitJob), so the
rules travel with it.
"""

from __future__ import annotations

from dataclasses import dataclass

# A process that ends with this asks for another attempt; everything else is final.
RETRY_EXIT_CODE = 85


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Describes one rule in AWS's words; a star may stand at the end only."""

    action: str
    on_exit_code: str | None = None
    on_status_reason: str | None = None
    on_reason: str | None = None


# In order; without the last rule whatever matches none is tried again, a wrong configuration included.
RETRY_RULES = (
    RetryRule(action="RETRY", on_exit_code=str(RETRY_EXIT_CODE)),
    RetryRule(action="RETRY", on_status_reason="Host EC2*"),  # the machine went away
    RetryRule(action="EXIT", on_reason="*"),
)
