"""scripts/fresh shows a command this machine as if it were new, and nothing of the view outlives it.

On a machine that does not allow this, the tests check that it says so. Only `scripts/test --all` makes views,
and checks what is promised about them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_POSSIBLE = 77
NOBODY = 65534


def fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "scripts" / "fresh"), *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "SECRET": "of the caller"},
    )


def seen(*arguments: str) -> str:
    """Return the output of a shell command in a view; empty if there can be no view, which was then said."""
    done = fresh(*arguments)
    if done.returncode == NOT_POSSIBLE:
        assert "fresh: not possible here: " in done.stderr
        return ""
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def untracked() -> Iterator[str]:
    path = ROOT / "build" / "untracked-by-git"
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    yield "build/untracked-by-git"
    path.unlink()


@pytest.mark.long
def test_an_ordinary_user_sees_a_clone_and_a_new_home_and_may_make_namespaces(untracked: str) -> None:
    script = f"""
        id -un
        git status --short && [ -w . ] && [ ! -e {untracked} ] && [ ! -e .venv ] && echo "only what git has"
        ls -A /tmp /var/tmp /home
        ls /root 2>&1
        echo "${{HOME##*/}} $SECRET"
        unshare --user --map-root-user --mount id -u
    """
    if text := seen("--as-user", "--", "bash", "-c", script):
        assert text.splitlines()[:2] == ["visitor", "only what git has"]
        assert "/home:\nvisitor\n" in text
        assert "cannot open directory '/root'" in text
        assert text.endswith("\nvisitor \n0\n")


@pytest.mark.long
def test_root_misses_every_program_that_set_up_installs() -> None:
    programs = (
        "buildah debootstrap gcc ip mariadbd munged nft mpirun ssh sshd sbatch slurmctld slurmd slurmdbd"
    )
    script = f"id -u; for program in {programs}; do command -v $program; done; basename $(command -v git)"
    if text := seen("--", "bash", "-c", script):
        assert text == "0\ngit\n"


@pytest.mark.long
def test_the_code_of_the_command_is_that_of_the_view() -> None:
    assert fresh("--as-user", "bash", "-c", "exit 7").returncode in (7, NOT_POSSIBLE)


@pytest.mark.long
@pytest.mark.parametrize(("signal", "code"), [("INT", 130), ("TERM", 143), ("KILL", -9)])
def test_an_interrupted_view_leaves_no_process_and_no_mount(signal: str, code: int) -> None:
    sleeper = f"sleep 86{os.getpid()}.{code}"  # found again by its number
    script = f"(setsid {sleeper} &); echo ready; {sleeper}"
    with subprocess.Popen(
        [str(ROOT / "scripts" / "fresh"), "--as-user", "--", "bash", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
    ) as view:
        assert view.stdout is not None
        if view.stdout.readline() != "ready\n":
            assert view.wait() == NOT_POSSIBLE
            return
        subprocess.run(["kill", f"-{signal}", str(view.pid)], check=True)
        view.stdout.read()  # until every process that holds its other end has gone
    assert view.returncode == code
    assert not _command_lines(sleeper)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that every user may read; pytest's folders are private."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_who_is_not_root_is_told_in_one_line_that_it_is_not_possible(open_folder: Path) -> None:
    shutil.copytree(ROOT / "scripts", open_folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [str(open_folder / "scripts" / "fresh")],
        capture_output=True,
        text=True,
        check=False,
        user=NOBODY if os.geteuid() == 0 else None,
    )
    assert (done.returncode, done.stdout) == (NOT_POSSIBLE, "")
    assert done.stderr == (
        "fresh: not possible here: a view of the machine takes root's overlay mounts; run it as root\n"
    )


def test_an_unknown_option_names_the_allowed_one() -> None:
    done = fresh("--as-usr", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "unknown option '--as-usr'; allowed is --as-user" in done.stderr


def _command_lines(words: str) -> list[str]:
    lines = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:  # it has just ended
                continue
    return [line for line in lines if line.startswith(words)]
