"""Stops the machines of an MPI cluster before its bucket goes: they write there for as long as they run."""

from __future__ import annotations

import time
from collections.abc import Callable

from jobs.aws import client, reader
from jobs.core.errors import SlipwayError
from jobs.core.targets import MpiTarget
from jobs.members import find_members
from jobs.platforms.mpi_nodes import Clock

WAIT_SECONDS = 600.0
_POLL_SECONDS = 2.0


class StillRuns(SlipwayError):
    """Nothing was deleted."""


def halt(target: MpiTarget, now: Callable[[int], None], clock: Clock | None = None) -> None:
    """Scales the group to nothing and waits until its machines are gone; `now` hears how many are left."""
    clock = clock or Clock(pause=time.sleep, now=time.monotonic)
    _refuse_protected(target)
    scaling = client("autoscaling", target.region)
    scaling.update_auto_scaling_group(AutoScalingGroupName=target.node_group, MinSize=0, DesiredCapacity=0)
    ends = clock.now() + WAIT_SECONDS
    while left := len(find_members(target.name, target.region)):
        if clock.now() > ends:
            raise StillRuns(
                f"{left} machines of {target.name} still run after {WAIT_SECONDS / 60:.0f} minutes",
                hint=f"slipway status --on {target.name} --nodes; then run this again",
            )
        now(left)
        clock.pause(_POLL_SECONDS)


def _refuse_protected(target: MpiTarget) -> None:
    """Nodes of a running job are protected from what makes the group smaller."""
    groups = reader("autoscaling", target.region).describe_auto_scaling_groups(
        AutoScalingGroupNames=[target.node_group]
    )["AutoScalingGroups"]
    machines = [each for group in groups for each in group["Instances"]]
    busy = [each["InstanceId"] for each in machines if each.get("ProtectedFromScaleIn")]
    if busy:
        raise StillRuns(
            f"a job runs on {len(busy)} machines of {target.name}",
            hint="slipway status lists it; wait for it, or end it with slipway cancel",
        )
