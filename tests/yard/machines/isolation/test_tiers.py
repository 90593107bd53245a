"""Which tier a yard gets: the best that the machine allows, the one that is asked for, or an error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.yard import process
from slipway.yard.machines.isolation import tiers
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE, TIERS, NoTier, best_tier
from slipway.yard.machines.settings import CHECKOUT

BEST = (
    "from slipway.yard.machines.isolation.tiers import best_tier;"
    "tier = best_tier(); print(tier.name, tier.words)"
)
# In a user namespace of its own, where the limit of this machine stays as it is.
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
    """The best tier, in a process that knows the checkout as an installed package would be known."""
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


def test_where_no_namespaces_can_be_made_the_words_say_why(tmp_path: Path) -> None:
    if subprocess.run([*WITHOUT, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine can make no user namespaces, in which the limit could be set")
    said = ask(*WITHOUT, folder=tmp_path)
    assert "plain plain processes on 127.0.0.x" in said.stdout
    assert "nothing better works here: the limit of namespaces in /proc/sys/user is reached" in said.stdout


def test_a_tier_that_was_asked_for_and_cannot_be_had_is_an_error_and_never_another_one(
    tmp_path: Path,
) -> None:
    if subprocess.run([*WITHOUT, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine can make no user namespaces, in which the limit could be set")
    said = ask(*WITHOUT, folder=tmp_path, **{TIER_VARIABLE: "user"})
    assert said.returncode != 0
    assert "asks for tier 'user', which this machine does not allow: the limit of" in said.stderr


def test_a_yard_with_an_unknown_tier_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TIER_VARIABLE, "rot")
    with pytest.raises(SlipwayError, match=f"{TIER_VARIABLE} is 'rot'; allowed are root, user, plain"):
        process.up(folder=tmp_path / "home")
