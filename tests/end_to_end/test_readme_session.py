"""README's session is what its commands print; test_training.py compares those that train."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Shell
from tests.readme_session import never_printed, session

pytestmark = pytest.mark.cdk

# Run, and compared, by test_training.py.
ELSEWHERE = ("slipway submit bert_pretrain", "slipway yard kill-node", "slipway logs")
MAKES_READY = ("slipway yard up", "eval", "cdk bootstrap")  # run by the fixture
REFUSED = "cdk deploy --all"


def test_the_session_of_the_readme_prints_what_it_shows(shell: Shell, tmp_path: Path) -> None:
    # The gate looks at every template of every stack; here it would only take time.
    variables = {"CDK_OUTPUT": str(tmp_path), "CDK_VALIDATION": "false"}
    ready = Shell(environment={**shell.environment, **variables})
    for typed in session():
        if typed.command.startswith(ELSEWHERE):
            continue
        if typed.command.startswith(MAKES_READY):
            done = [text for start, text in shell.printed.items() if typed.command.startswith(start)]
        else:
            ran = ready.run("bash", "-c", typed.command)
            assert (ran.status != 0) is typed.command.startswith(REFUSED), ran.text
            done = [ran.text]
        assert never_printed(typed.lines, "\n".join(done)) == [], f"$ {typed.command}\n" + "\n".join(done)
