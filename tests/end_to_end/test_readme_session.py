"""README's session is what its commands print, in its order, in a yard that nobody made ready.

test_training.py compares the commands that train.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.yard.services.imagebuilder.machine.base import reason_for_no_base
from tests.end_to_end.conftest import Shell
from tests.end_to_end.roads import BAKE_SECONDS
from tests.readme_session import never_printed, session

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.alone]

# Run, and compared, by test_training.py.
ELSEWHERE = ("slipway submit bert_pretrain", "slipway yard kill-node", "slipway logs")
MAKES_READY = ("slipway yard up", "eval", "cdk bootstrap")  # run by the fixture
REFUSED = "cdk deploy --all"
BAKE = "slipway bake gaudi-ecs"


def test_the_session_of_the_readme_prints_what_it_shows(fresh_shell: Shell, tmp_path: Path) -> None:
    ready = Shell(environment={**fresh_shell.environment, "CDK_OUTPUT": str(tmp_path)})
    for typed in session():
        if typed.command.startswith(ELSEWHERE):
            continue
        if typed.command.startswith(BAKE) and reason_for_no_base():
            ready.must("slipway", "yard", "stand-in", "gaudi-ecs")  # no bake here: it needs root
            continue
        if typed.command.startswith(MAKES_READY):
            done = [text for start, text in fresh_shell.printed.items() if typed.command.startswith(start)]
        else:
            ran = ready.run("bash", "-c", typed.command, timeout_s=BAKE_SECONDS)
            assert (ran.status != 0) is typed.command.startswith(REFUSED), ran.text
            done = [ran.text]
        assert never_printed(typed.lines, "\n".join(done)) == [], f"$ {typed.command}\n" + "\n".join(done)
