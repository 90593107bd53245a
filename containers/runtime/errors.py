"""The errors that end a rank or launcher: one line, what to do about it, and the exit code.

85 asks the platform for another attempt (Batch's evaluateOnExit, Slurm's RequeueExit); all else is final.
"""

from __future__ import annotations

RESUMABLE_EXIT_CODE = 85
MISTAKE_EXIT_CODE = 2


class Refusal(Exception):
    """The user made a mistake, or only a person can decide: another attempt would fail alike."""

    exit_code = MISTAKE_EXIT_CODE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


class Interruption(Refusal):
    """The machines failed, not the job: another attempt may succeed."""

    exit_code = RESUMABLE_EXIT_CODE
