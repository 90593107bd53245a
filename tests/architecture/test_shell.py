"""Shell scripts and Dockerfiles pass their linters, and scripts are executable."""

from __future__ import annotations

import subprocess
from pathlib import PurePath

from tests.architecture import tracked

EXECUTABLE = "100755"
RUN_ELSEWHERE = (
    "infra/boot/",
    "infra/components/",
)  # read here as text, and run on a machine of the cluster


def shell_scripts() -> list[str]:
    return [path for path in tracked.paths() if path.endswith(".sh") or _is_run_by_a_shell(path)]


def dockerfiles() -> list[str]:
    return [path for path in tracked.paths() if PurePath(path).name.startswith("Dockerfile")]


def test_the_scripts_that_people_run_are_among_those_checked() -> None:
    assert {"scripts/check", "scripts/demo", "scripts/test", ".ci/run"} <= set(shell_scripts())


def test_every_shell_script_is_shellcheck_clean() -> None:
    _lint("shellcheck", "--external-sources", *shell_scripts())


def test_every_dockerfile_is_hadolint_clean() -> None:
    if dockerfiles():
        _lint("hadolint", *dockerfiles())


def test_what_can_be_run_says_by_what_and_is_marked_executable() -> None:
    wrong = [
        f"{path} is {mode}"
        for path, mode in tracked.modes().items()
        if tracked.has_shebang(path) != (mode == EXECUTABLE) and not path.startswith(RUN_ELSEWHERE)
    ]
    assert not wrong, "git add --chmod=+x makes a file executable; a first line #! says by what"


def _is_run_by_a_shell(path: str) -> bool:
    return tracked.has_shebang(path) and tracked.text(path).split("\n", 1)[0].endswith(("sh", "bash"))


def _lint(program: str, *arguments: str) -> None:
    linted = subprocess.run(
        [tracked.PROGRAMS / program, *arguments],
        cwd=tracked.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
