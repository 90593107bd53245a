"""Four users of one account, each a process, act at once: there is one build and one job, with its owner."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import Shell
from tests.end_to_end.in_process import deployed

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]
RUN = (
    "slipway",
    "run",
    "--on",
    "dl1",
    "--nodes",
    "1",
    "--processes-per-node",
    "1",
    "--name",
    "shared",
    "--json",
)


def test_what_four_people_do_at_once_is_done_once_and_each_is_told_whose_it_is(
    shell: Shell, tmp_path: Path
) -> None:
    people = [
        replace(shell, environment={**shell.environment, "XDG_STATE_HOME": str(tmp_path / name)})
        for name in ("one", "two", "three", "four")
    ]

    def at_once(do: Callable[[Shell], Any]) -> list[Any]:
        with ThreadPoolExecutor(len(people)) as pool:
            return list(pool.map(do, people))

    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("import time; time.sleep(600)")
    with deployed(shell, tmp_path / "assembly", "dl1"):
        builds = at_once(lambda one: one.data("slipway", "image", "build", "gaudi", "--on", "dl1", "--json"))
        assert len({each["build"] for each in builds} - {None}) == 1, "None: it was pushed by then"
        assert len({each["digest"] for each in builds}) == 1
        jobs = at_once(lambda one: one.data(*RUN, "--folder", str(code), "--", "python", "train.py"))
        assert len({each["id"] for each in jobs}) == 1
        stranger = replace(shell, environment={**shell.environment, "XDG_STATE_HOME": str(tmp_path / "five")})
        told = stranger.must("slipway", "cancel", "shared")
        assert f"{jobs[0]['name']} did not come from this machine's slipway" in told
        for each in stranger.data("slipway", "status", "--on", "dl1", "--json"):  # the twins end, too
            stranger.run("slipway", "logs", each["id"], "--follow")
        assert people[0].data("slipway", "status", "shared", "--json")["state"] == "failed"
