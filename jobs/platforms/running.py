"""Refuses to take a cluster's data while a job of it runs."""

from __future__ import annotations

from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import Target


class StillRuns(SlipwayError):
    """A job of the cluster still runs, so nothing was deleted."""


def refuse_running(target: Target) -> None:
    """Refuse while a job of the cluster has not ended: its machines, its files and its queue would go."""
    left = platform_of(target).unfinished_runs(target)
    if left:
        name, others = left[0].name, f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise StillRuns(
            f"{name}{others} of {target.name} {'have' if others else 'has'} not ended",
            hint=f"wait for it: slipway logs {name} --follow; or end it: slipway cancel {name}",
        )
