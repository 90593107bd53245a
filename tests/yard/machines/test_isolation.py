"""Nodes and hosts are kept apart by links, by processes that end together, and by tiers of isolation."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.yard import process
from slipway.yard.machines.isolation import links, tiers
from slipway.yard.machines.isolation.processes import CANNOT_RUN, NOT_FOUND, code_of, kill_all
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE, TIERS, NoTier, best_tier
from slipway.yard.machines.settings import CHECKOUT, linked_from

# Counts how many of a thousand packets leave over a link, and how long ninety kilobytes take.
TRIAL = """
import json, socket, subprocess, sys, time
from slipway.yard.machines.isolation import kernel, links
kernel.unshare(kernel.NEW_NETWORK)
for words in ("link set lo up", "link add eth0 type veth peer name far", "addr add 10.9.0.1/24 dev eth0",
              "link set eth0 up", "link set far up", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0"):
    subprocess.run(["ip", *words.split()], check=True)
problem = links.set_up(json.loads(sys.argv[1]))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
refused = 0
for _ in range(1000):
    try:
        sender.sendto(b"x", ("10.9.0.2", 9))
    except PermissionError:
        refused += 1
began = time.monotonic()
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
for _ in range(90):
    try:
        sender.sendto(b"x" * 1000, ("10.9.0.2", 9))
    except PermissionError:
        pass
print(json.dumps({"problem": problem, "refused": refused, "seconds": time.monotonic() - began}))
"""


def test_delay_goes_below_the_rate_and_loss_is_drawn_in_hundredths_of_a_percent() -> None:
    both = list(links.commands({"delay_ms": 20, "mbit": 1}))
    assert [command[command.index("dev") + 2] for command in both] == ["root", "parent"]
    assert both[0][-7:-4] == ["tbf", "rate", "1mbit"]
    assert both[1][-2:] == ["delay", "20ms"]
    assert "numgen random mod 10000 < 50 drop" in links.loss({"loss_percent": 0.5})
    assert "drop" not in links.loss({})
    assert list(links.commands({})) == []


@pytest.mark.skipif(not TIERS[0].works(), reason="only root gives a network its links")
def test_a_lossy_link_loses_its_share() -> None:
    found = trial('{"loss_percent": 50}')
    assert found["problem"] == ""
    assert 350 < found["refused"] < 650


@pytest.mark.skipif(not TIERS[0].works(), reason="only root gives a network its links")
def test_a_slow_link_takes_its_time() -> None:
    """A hundred kilobytes at one megabit a second, less what may leave at once."""
    found = trial('{"mbit": 1}')
    assert found["problem"] == ""
    assert found["seconds"] > 0.1


def trial(link: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", TRIAL, link], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return dict(json.loads(done.stdout))


# The yard explains processes that it could not start, and ends only its own.
DENIED = PermissionError(errno.EACCES, "Permission denied")


def test_a_command_that_is_nowhere_is_not_found_though_a_folder_of_path_may_not_be_entered(
    tmp_path: Path,
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    assert code_of(DENIED, "no-such-program", f"{locked}{os.pathsep}{tmp_path}") == NOT_FOUND


def test_a_command_that_is_there_and_may_not_be_run_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "tool").touch(mode=0o644)
    assert code_of(DENIED, "tool", str(tmp_path)) == CANNOT_RUN
    assert code_of(DENIED, str(tmp_path / "tool"), "") == CANNOT_RUN


def test_jobs_see_packages_that_an_installer_linked_from_a_home(tmp_path: Path) -> None:
    cache, packages = tmp_path / "home" / "cache", tmp_path / "site-packages"
    (cache / "torch").mkdir(parents=True)
    (packages / "copied").mkdir(parents=True)
    (packages / "torch").symlink_to(cache / "torch")
    assert linked_from(packages) == [str(cache)]


def test_no_signal_ever_goes_to_a_whole_group_of_processes() -> None:
    """0 is the caller's own group, and -1 everything that it may signal."""
    for number in (0, -1):
        with pytest.raises(AssertionError, match="mean process groups"):
            kill_all([number], signal.SIGCONT)


# A yard gets the best tier that the machine allows, the requested one, or an error.
BEST = (
    "from slipway.yard.machines.isolation.tiers import best_tier;"
    "tier = best_tier(); print(tier.name, tier.words)"
)
# In a new user namespace, where this machine's limit stays unchanged.
NO_NAMESPACES = (
    'cd /proc/sys/user && echo 0 | tee max_user_namespaces max_net_namespaces; cd "$0" && exec "$@"'
)
WITHOUT = ("unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "/")


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    best_tier.cache_clear()
    yield
    best_tier.cache_clear()


def ask(*before: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return the best tier, from a process in which the checkout is like an installed package."""
    code = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); {BEST}"
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", TIER_VARIABLE)}
    return subprocess.run(
        [*before, sys.executable, "-c", code],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tier_does_not_depend_on_the_folder_in_which_one_asks(tmp_path: Path) -> None:
    names = {ask(folder=folder).stdout.split()[0] for folder in (CHECKOUT, tmp_path, Path("/"))}
    assert names == {next(tier.name for tier in TIERS if tier.works())}


def test_a_trial_that_crashes_says_so_and_is_not_taken_for_the_machine_s_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(TIER_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tiers, "CHECKOUT", tmp_path)  # where no `jobs` can be imported from
    with pytest.raises(NoTier, match=r"crashed \(exit code 1\): .*No module named 'slipway'"):
        best_tier()


def test_a_trial_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TIER_VARIABLE, raising=False)
    monkeypatch.setattr(tiers, "TRIAL_SECONDS", 0.0)
    with pytest.raises(NoTier, match="took longer than 0 s"):
        best_tier()


def test_where_no_namespaces_can_be_made_the_words_say_why_and_no_other_tier_is_taken(
    tmp_path: Path,
) -> None:
    if subprocess.run([*WITHOUT, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine can make no user namespaces, in which the limit could be set")
    said = ask(*WITHOUT, folder=tmp_path)
    assert "plain plain processes on 127.0.0.x" in said.stdout
    assert "nothing better works here: the limit of namespaces in /proc/sys/user is reached" in said.stdout
    said = ask(*WITHOUT, folder=tmp_path, **{TIER_VARIABLE: "user"})
    assert said.returncode != 0
    assert "asks for tier 'user', which this machine does not allow: the limit of" in said.stderr


def test_a_yard_with_an_unknown_tier_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TIER_VARIABLE, "rot")
    with pytest.raises(SlipwayError, match=f"{TIER_VARIABLE} is 'rot'; allowed are root, user, plain"):
        process.up(folder=tmp_path / "home")
