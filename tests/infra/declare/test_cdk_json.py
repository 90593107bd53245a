"""A setting that cdk.json has twice is refused with both lines; the CDK would keep the last one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.infra.declare.cdk_json import FILES, refuse_repeated_keys
from slipway.jobs.words.errors import InvalidConfig

ROOT = Path(__file__).parents[3]
# BI-132
TWICE = '{\n "context": {\n  "dl1.max_nodes": 2,\n  "c6i.max_nodes": 2,\n  "dl1.max_nodes": 64\n }\n}\n'


@pytest.mark.parametrize("name", FILES)
def test_a_key_that_stands_twice_is_refused_with_both_lines(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TWICE)
    with pytest.raises(InvalidConfig) as refused:
        refuse_repeated_keys(tmp_path)
    assert f"{name}: has 'dl1.max_nodes' twice in one object, in lines 3 and 5; keep one" in str(
        refused.value
    )


def test_our_own_files_and_no_files_are_sound(tmp_path: Path) -> None:
    refuse_repeated_keys(ROOT)
    refuse_repeated_keys(tmp_path)


def test_a_fifo_or_a_huge_file_in_its_place_is_refused_at_once(tmp_path: Path) -> None:
    """BI-135."""
    os.mkfifo(tmp_path / "cdk.json")
    (tmp_path / "cdk.context.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(InvalidConfig) as refused:
        refuse_repeated_keys(tmp_path)
    assert "is a FIFO, and must be a regular file" in str(refused.value)
    assert "at most 1048576 are read" in str(refused.value)


def test_synthesis_ends_with_the_mistake(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "infra", tmp_path / "infra", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "cdk.json").write_text(TWICE)
    ended = subprocess.run(
        [sys.executable, "-m", "slipway.infra.app"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "error: cdk.json: has 'dl1.max_nodes' twice" in ended.stderr
