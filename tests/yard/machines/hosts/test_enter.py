"""The way into a host: what is meant for a host runs there or nowhere, wherever it is called from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import enter
from slipway.yard.machines.hosts.enter import CannotEnter
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE
from tests.yard.machines.hosts.conftest import Cluster, Site

SLIPWAY = str(Path(sys.executable).parent / "slipway")


def door_of(site: Site, host: str) -> dict[str, Any]:
    found: dict[str, Any] = control(site.yard, "POST", "/enter-host", {"host": host})
    return found


def ssh(site: Site, host: str, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [SLIPWAY, "yard", "ssh", host, "--", *words],
        cwd=folder,
        env={**kept, "SLIPWAY_YARD_HOME": str(site.yard.home), **more},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("folder", ["/", "/tmp"])
def test_a_command_runs_in_the_host_from_whatever_folder_it_is_called(
    site: Site, cluster: Cluster, folder: str
) -> None:
    host = cluster.members[0]
    entered = ssh(site, host, Path(folder), "hostname", "-s")
    assert (entered.stdout.strip(), entered.returncode) == (host, 0)


def test_what_the_caller_s_shell_says_of_tiers_changes_no_way_into_a_host(
    site: Site, cluster: Cluster, tmp_path: Path
) -> None:
    host = cluster.members[0]
    entered = ssh(site, host, tmp_path, "hostname", "-s", **{TIER_VARIABLE: "plain"})
    assert entered.stdout.strip() == host


def test_a_process_that_took_over_the_number_of_a_host_s_is_not_entered(site: Site, cluster: Cluster) -> None:
    door = {**door_of(site, cluster.members[0]), "process": os.getpid()}
    refused = f"nothing was run: process {os.getpid()} does not belong to this host"
    with pytest.raises(CannotEnter, match=refused):
        enter.enter_command(door, ["true"])


def test_a_host_that_has_ended_meanwhile_is_not_entered(site: Site, cluster: Cluster) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    door = {**door_of(site, cluster.members[0]), "process": ended.pid}
    with pytest.raises(CannotEnter, match="nothing was run"):
        enter.enter_command(door, ["true"])


@pytest.mark.parametrize("said", [{}, {"tier": "unheard-of"}])
def test_a_yard_that_does_not_say_how_a_host_was_made_is_not_believed(
    site: Site, cluster: Cluster, said: dict[str, str]
) -> None:
    door = {key: value for key, value in door_of(site, cluster.members[0]).items() if key != "tier"}
    with pytest.raises(CannotEnter, match=r"does not say how host .* nothing was run"):
        enter.enter_command({**door, **said}, ["true"])
