"""What of this machine a host is given, where its machine image was not baked here."""

from __future__ import annotations

import sys

import pytest

from slipway.yard.machines.hosts.planning import own_files
from slipway.yard.machines.isolation.tiers import Tier
from slipway.yard.machines.settings import CHECKOUT

ORDINARY_USER = Tier(name="user", isolated=True, words="", obstacle=lambda: "")


def test_a_host_may_write_beside_the_programs_of_this_machine_whichever_python_runs_the_yard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    mounted = [target for _, target in own_files.plan(ORDINARY_USER)["mounts"]]
    assert str(CHECKOUT) in mounted
    assert "/usr" not in mounted
