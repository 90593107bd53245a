"""Folders on a node's own disk last as long as a process uses them, and then as long as was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from slipway.containers.runtime.node_folders import hold

WEEK_SECONDS = 7 * 24 * 3600.0
ENDS = f"""import sys
from slipway.containers.runtime.node_folders import hold
print(hold(*sys.argv[1:], unused_seconds={WEEK_SECONDS}))
"""


def of_a_job_that_ended(prefix: str, identity: str, age_seconds: float) -> Path:
    words = [sys.executable, "-c", ENDS, prefix, identity]
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    folder, then = Path(done.stdout.strip()), time.time() - age_seconds
    os.utime(folder.with_name(f"{folder.name}.lock"), (then, then))
    return folder


def test_what_no_process_holds_and_none_has_used_for_a_week_goes_with_the_next_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old = of_a_job_that_ended("tokens-", "old", WEEK_SECONDS + 60)
    young = of_a_job_that_ended("tokens-", "young", WEEK_SECONDS - 60)
    other = of_a_job_that_ended("rows-", "old", WEEK_SECONDS + 60)
    held = hold("tokens-", "held", unused_seconds=WEEK_SECONDS)
    os.utime(held.with_name(f"{held.name}.lock"), (0, 0))
    assert hold("tokens-", "new", unused_seconds=WEEK_SECONDS).is_dir()
    assert [folder.exists() for folder in (old, young, other, held)] == [False, True, True, True]
    assert hold("rows-", "old") == other, "its own folder is used again, however old"
