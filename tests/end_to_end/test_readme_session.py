"""README's session prints what README shows, from the wheel, in an empty folder and a new yard.

It has all of a user's steps: a project, its cluster, a training on two nodes that loses one, and the end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote

import pytest

from scripts.session_picture import is_shown, session_picture
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.state import OWNER_VARIABLE
from tests.end_to_end.conftest import WITHOUT_GATE, Finished, Shell
from tests.installed import make_environment
from tests.readme_session import Typed, never_printed, printed_like, session

pytestmark = [pytest.mark.cdk, pytest.mark.slow]

NAME, STEPS = "my-training", 1000
KILL, END = "slipway yard kill-node", "slipway cluster destroy"
MISTAKE = "cdk deploy my-training -c"
DEPLOY_SECONDS = 600
PICTURE = "SLIPWAY_SESSION_PICTURE"  # the file to which scripts/record_session lets it be drawn


class TypingUser:
    """Types one command after another in one shell, whose changes stay."""

    def __init__(self, shell: Shell, kept: Path) -> None:
        self.shell = shell
        self._kept = kept

    def type(self, command: str, answer: str = "") -> Finished:
        """Type a command; if the command asks, type the answer on a terminal."""
        if answer:
            command = f"script --quiet --return --command {quote(command)} /dev/null <<< {quote(answer)}"
        asked = f'{command}\nstatus=$?; env -0 > "{self._kept}"; exit $status'
        done = self.shell.run("bash", "-c", asked, timeout_s=DEPLOY_SECONDS)
        told = self._kept.read_text(encoding="utf-8").split("\0")
        environment = dict(entry.split("=", 1) for entry in told if "=" in entry)
        self.shell = replace(self.shell, environment=environment, folder=Path(environment["PWD"]))
        return done


@pytest.fixture
def user(wheel: Path, tmp_path: Path) -> Iterator[TypingUser]:
    installed = make_environment(tmp_path / "installed", wheel, ["infra", "yard", "training"])
    empty = tmp_path / "empty"
    empty.mkdir()
    own = {OWNER_VARIABLE: str(os.getpid()), **WITHOUT_GATE}
    shell = Shell(environment={**installed.variables, **own}, folder=empty)
    yield TypingUser(shell, tmp_path / "environment")
    shell.must("slipway", "yard", "down")


def test_the_session_of_the_readme_prints_what_it_shows_from_the_wheel_alone(user: TypingUser) -> None:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so its hosts cannot die one by one")
    found = user.shell.must("python", "-c", "import slipway; print(slipway.__file__)").strip()
    assert not Path(found).is_relative_to(Path(sys.prefix).parent), "slipway of the checkout is on the path"
    recorded: list[tuple[str, list[str]]] = []
    for typed in session():
        if typed.command.startswith(KILL):
            user.shell.follow_until(NAME, "saved step 20")
        if typed.command.startswith(END):
            refuse_other_ends(user.shell)
        ran = user.type(typed.command)
        assert (ran.status != 0) is typed.command.startswith(MISTAKE), f"$ {typed.command}\n{ran.text}"
        refuse_other_lines(typed, ran)
        recorded.append((typed.command, printed_like(typed.lines, ran.text)))
    assert user.shell.data("slipway", "cluster", "targets", "--json") == []
    if picture := os.environ.get(PICTURE):
        shown = [entry for entry in recorded if is_shown(entry[0])]
        Path(picture).write_text(session_picture(shown), encoding="utf-8")


def refuse_other_lines(typed: Typed, ran: Finished) -> None:
    assert never_printed(typed.lines, ran.text) == [], f"$ {typed.command}\n{ran.text}"


def refuse_other_ends(shell: Shell) -> None:
    """Check that the second attempt resumed from the first one's checkpoint, and that no call was refused."""
    assert shell.data("slipway", "status", NAME, "--json")["state"] == "succeeded"
    curve = shell.data("slipway", "report", "curve", NAME, "--json")
    assert [point["step"] for point in curve] == list(range(10, STEPS + 1, 10))
    assert (curve[0]["attempt"], curve[-1]["attempt"]) == (1, 2)
    assert curve[-1]["loss"] < curve[0]["loss"]
    assert json.loads(shell.must("slipway", "yard", "denied", "--json")) == []
