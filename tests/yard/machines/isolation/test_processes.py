"""What the yard says of processes that it could not start, and which it may end."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from slipway.yard.machines.isolation.processes import CANNOT_RUN, NOT_FOUND, code_of, kill_all

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


def test_no_signal_ever_goes_to_a_whole_group_of_processes() -> None:
    """0 is the caller's own group, and -1 everything that it may signal."""
    for number in (0, -1):
        with pytest.raises(AssertionError, match="whole groups"):
            kill_all([number], signal.SIGCONT)
