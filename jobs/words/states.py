"""The states of a job, in our words whatever the platform. Each backend's STATES maps its own onto these."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    WAITING = "waiting"  # for its turn, for nodes, for another job
    STARTING = "starting"  # it has its nodes; the image is pulled
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # cancelled and timed out too: the reason says which
    UNKNOWN = "unknown"  # the platform has a word that we do not know

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = (JobState.SUCCEEDED, JobState.FAILED)


def translate(states: Mapping[str, JobState], status: str) -> JobState:
    """Translate the platform's word for a state; a new word is UNKNOWN, and shown as it is."""
    return states.get(status, JobState.UNKNOWN)
