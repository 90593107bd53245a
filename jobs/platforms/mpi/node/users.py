"""From root, which Systems Manager and systemd run us as, to the user that jobs run as."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.mpi.node import job_credentials
from slipway.jobs.platforms.mpi.node.setting import node_paths
from slipway.jobs.platforms.mpi.node.ssh_trust import User, cluster_user


def become_cluster_user() -> User:
    """Drop root and the node's role for good: nothing that a job brings runs with either."""
    user = cluster_user()
    # EFA locks memory. What systemd gives a service is too little, and over ssh PAM lifts it.
    with suppress(ValueError):  # the root of a user namespace, as in a yard, may not
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if os.geteuid() != user.uid:
        os.initgroups(user.name, user.gid)
        os.setgid(user.gid)
        os.setuid(user.uid)
        os.environ.update(job_credentials.variables(node_paths()))
        aws.forget_credentials()  # those of the node's own role
    os.environ["HOME"] = user.home
    os.environ["USER"] = user.name
    return user
