"""Keeps Auto Scaling from taking away the nodes of a running job: idle and timed rules wait until it is over.

Nothing here fails a job: without protection it runs as well, and who reads its log is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipway.jobs.cloud.aws import client
from slipway.jobs.platforms.mpi.members import find_members
from slipway.jobs.platforms.mpi.node.setting import Setup
from slipway.jobs.words.mpi.mpi_nodes import Member
from slipway.jobs.words.names import derived_name

_MOST = 50  # instances that SetInstanceProtection takes, and that a group may have protected

Say = Callable[[str], None]


def protect(setup: Setup, members: Sequence[Member], say: Say) -> None:
    try:
        _send(setup, members, protected=True)
    except Exception as error:  # noqa: BLE001 - whatever AWS or the way to it says
        say(f"warning: nodes are not protected from scaling in: {type(error).__name__}: {error}")


def release(setup: Setup, say: Say) -> bool:
    """Unprotect all nodes, whichever job protected them; return True if that worked."""
    try:
        _send(setup, find_members(setup.cluster, setup.region), protected=False)
    except Exception as error:  # noqa: BLE001 - the same
        say(f"warning: nodes stay protected from scaling in: {type(error).__name__}: {error}")
        return False
    return True


def _send(setup: Setup, members: Sequence[Member], *, protected: bool) -> None:
    client("autoscaling", setup.region).set_instance_protection(
        AutoScalingGroupName=derived_name("node-group", setup.cluster),
        InstanceIds=[member.instance_id for member in members[:_MOST]],
        ProtectedFromScaleIn=protected,
    )
