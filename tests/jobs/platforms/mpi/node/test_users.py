"""A job's user is a plain one, on a machine of AWS as in a namespace whose root may do less."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node import job_credentials
from slipway.jobs.platforms.mpi.node.ssh_trust import User


def test_a_root_that_may_not_lift_limits_runs_jobs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a namespace of the yard a limit stays what it is, and no node answered."""

    def refused(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    own = User(name="me", uid=os.geteuid(), gid=os.getegid(), home=str(tmp_path))
    monkeypatch.setattr(job_credentials, "cluster_user", lambda: own)
    monkeypatch.setattr(resource, "setrlimit", refused)
    monkeypatch.setenv("HOME", "/elsewhere")
    assert job_credentials.become_cluster_user() == own
    assert os.environ["HOME"] == str(tmp_path)
