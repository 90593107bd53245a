"""From root, which Systems Manager and systemd run us as, to the user that jobs run as."""

from __future__ import annotations

import os

from slipway.jobs.platforms.mpi.node.ssh_trust import User, cluster_user


def become_cluster_user() -> User:
    """Drop root for good: nothing that a job brings runs as root."""
    user = cluster_user()
    if os.geteuid() != user.uid:
        os.initgroups(user.name, user.gid)
        os.setgid(user.gid)
        os.setuid(user.uid)
    os.environ["HOME"] = user.home
    os.environ["USER"] = user.name
    return user
