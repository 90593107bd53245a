"""F37: the user of a laptop whose clock is wrong is told so, and does not wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import wrong_clock
from tests.yard.conftest import RunningYard

SLIPWAY = str(Path(sys.executable).parent / "slipway")
HOUR = 3600


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wrong_clock.library(tmp_path_factory.mktemp("clock"))


@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
def test_a_wrong_clock_ends_a_command_at_once_with_what_to_do(
    yard_shell: RunningYard, library: Path, tmp_path: Path, seconds: int
) -> None:
    ran = subprocess.run(
        [SLIPWAY, "status"],
        env={**os.environ, **wrong_clock.variables(library, seconds)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert ran.returncode == 1
    error, hint = ran.stderr.splitlines()  # nothing says that it waits or asks again
    assert "(InvalidSignatureException)" in error
    assert hint.startswith("hint: set this machine's clock: ")
