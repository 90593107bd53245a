"""Of this machine's home folders a job can only read what it runs, and sees nothing else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.yard import process
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE
from slipway.yard.machines.settings import CHECKOUT
from tests.yard.conftest import RunningYard
from tests.yard.every_tier import EVERY_TIER
from tests.yard.services.batch.conftest import ISOLATED, Cluster, new_cluster

LOOK = """
import json, os
home, checkout = os.environ["HOME"], os.environ["PYTHONPATH"]
try:
    open(f"{checkout}/README.md", "a").close()
    writable = True
except OSError:
    writable = False
open(f"{home}/mine", "w").close()
others = [name for folder in ("/home", "/root") if os.path.isdir(folder) for name in os.listdir(folder)]
print(json.dumps({"home": os.listdir(home), "writable": writable, "others": others}))
"""


@pytest.fixture(scope="module")
def homely(tier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a yard of a user whose home holds this checkout."""
    if tier not in ISOLATED:
        pytest.skip(f"tier '{tier}' hides nothing, and says so")
    folder = tmp_path_factory.mktemp("homely") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TIER_VARIABLE, tier)
        patch.setenv("HOME", str(CHECKOUT.parent))
        state = process.up(folder=folder).state
    yield new_cluster(RunningYard(endpoint=state.endpoint, home=folder))
    process.down(folder=folder)


@pytest.mark.parametrize("tier", EVERY_TIER, indirect=True, scope="module")
def test_a_job_sees_of_every_home_only_what_it_runs_and_cannot_change_it(homely: Cluster) -> None:
    job = homely.submit_single(LOOK, definition=homely.define_single())
    found = homely.ended(job)
    assert found["status"] == "SUCCEEDED", homely.lines(job, None)
    seen = json.loads(homely.lines(job, None)[0])
    assert seen["writable"] is False
    assert set(seen["home"]) == {CHECKOUT.name, "mine"}
    assert not (CHECKOUT.parent / "mine").exists()
    shown = home.plan([str(CHECKOUT), sys.prefix, sys.base_prefix], homely.yard.home)["shown"]
    assert set(seen["others"]) <= {part for path in shown for part in Path(path).parts}


def test_the_yards_own_folder_is_hidden_with_the_homes(tmp_path: Path) -> None:
    hidden = home.plan(["/usr/lib/python3"], tmp_path / "yard")["hidden"]
    assert {"/root", "/home", str(tmp_path / "yard"), os.path.realpath(Path.home())} <= set(hidden)


def test_a_home_above_the_systems_folders_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/")
    assert "/" not in home.plan([], tmp_path)["hidden"]


def test_of_a_home_that_is_the_checkout_the_stores_of_secrets_are_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "me").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    found = home.plan([str(tmp_path / "me")], tmp_path / "yard")
    assert {str(tmp_path / "me" / name) for name in (".ssh", ".aws", ".netrc")} <= set(found["hidden"])
    assert str(tmp_path / "me") not in found["hidden"]
