"""Stops the machines of an MPI cluster before its bucket is deleted: they write to it while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.platforms.mpi.nodes import Clock, count_left
from slipway.jobs.platforms.platform import StillRuns, refuse_running
from slipway.jobs.words.targets import MpiTarget

WAIT_SECONDS = 600.0
HELD_SECONDS = 120.0  # after a job was cancelled: its main node notices within ten seconds
_POLL_SECONDS = 2.0


def halt(target: MpiTarget, now: Callable[[str], None], clock: Clock | None = None) -> None:
    """Scale the group to zero and wait until its machines are gone; call `now` with what is waited for."""
    clock = clock or Clock(pause=time.sleep, now=time.monotonic)
    refuse_running(target)
    protected = "are protected from scaling in, though no job of Slipway's runs"
    for held in _until_none(target, _held, clock, HELD_SECONDS, protected):
        now(f"{held} are still held by a job that ended")
    scaling = client("autoscaling", target.region)
    scaling.update_auto_scaling_group(AutoScalingGroupName=target.node_group, MinSize=0, DesiredCapacity=0)
    for left in _until_none(target, count_left, clock, WAIT_SECONDS, "still run"):
        now(f"{left} still run or shut down")


def _until_none(
    target: MpiTarget, count: Callable[[MpiTarget], int], clock: Clock, seconds: float, otherwise: str
) -> Iterator[int]:
    """Yield how many there are, time and again, until there are none."""
    ends = clock.now() + seconds
    while left := count(target):
        if clock.now() > ends:
            raise StillRuns(
                f"{left} machines of {target.name} {otherwise} after {seconds / 60:.0f} minutes",
                hint=f"slipway status --on {target.name} --nodes; then run this again",
            )
        yield left
        clock.pause(_POLL_SECONDS)


def _held(target: MpiTarget) -> int:
    """Count the nodes that a job still protects from scaling in.

    The main node unprotects them when the job ends, or its service does so soon after.
    """
    groups = reader("autoscaling", target.region).describe_auto_scaling_groups(
        AutoScalingGroupNames=[target.node_group]
    )["AutoScalingGroups"]
    return sum(
        bool(instance.get("ProtectedFromScaleIn")) for group in groups for instance in group["Instances"]
    )
