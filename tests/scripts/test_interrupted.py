"""Scripts that are interrupted end with the code of the signal, and all that they started ends with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.checkouts import Running, make_checkout, wait_until


@pytest.mark.parametrize(
    ("script", "command", "way", "code"),
    [
        ("bench", "scripts.benchmarks", "Ctrl-C", 130),
        ("check", "mypy", "SIGTERM", 143),
        ("check", "ruff", "closed terminal", 129),
        ("lock", "uv pip", "SIGTERM", 143),
        ("test", "ruff", "Ctrl-C", 130),
        ("test", "pytest --cache-clear -n 2", "SIGTERM", 143),
        ("test", "pytest --cache-clear -n 3", "SIGHUP", 129),
    ],
)
def test_an_interrupted_script_leaves_no_process(
    tmp_path: Path, script: str, command: str, way: str, code: int
) -> None:
    checkout = make_checkout(tmp_path)
    (tmp_path / "scripts" / "write_docs").symlink_to("/bin/true")
    running = Running(checkout.command(script), checkout.environment(HANGING=command))
    wait_until(lambda: any("sleep 1000" in line for line in checkout.processes()))
    assert running.interrupt(way) == code
    checkout.assert_nothing_is_left()
