"""What `scripts/test --all` runs beside the static checks: README's commands as on a new machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.checkouts import make_checkout

NO_SUCH_VIEW = 77


@pytest.mark.parametrize(
    ("views", "code", "words"),
    [
        (0, 0, ""),
        (1, 1, "test: failed on this machine as if it were new"),
        (NO_SUCH_VIEW, 0, "test: NOT RUN: the demo and the tests of hosts as if this machine were new"),
    ],
)
def test_views_that_fail_fail_the_whole_once_all_tests_have_run(
    tmp_path: Path, views: int, code: int, words: str
) -> None:
    checkout = make_checkout(tmp_path)
    for name, text in (("fresh", f"exit {views}"), ("write_docs", "exit 0"), ("set_up_apart", "exit 0")):
        script = tmp_path / "scripts" / name
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    ended, said = checkout.run("--all", script="test")
    assert ended == code, said
    assert words in said
    assert any("not alone and not long and not apart" in line for line in checkout.said())
