"""A yard starts once, is found again, is cleaned up after a crash, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from slipway.jobs.cli.cli import run
from slipway.jobs.words.errors import SlipwayError
from slipway.yard import process, state
from slipway.yard.endpoint import HOST, is_answering
from slipway.yard.process import use_yard
from slipway.yard.state import YardState, process_identity, read_state, write_state
from tests.yard.conftest import RunningYard


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "state" / "a yard"
    yield home
    process.down(folder=home)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as asked:
        asked.bind((HOST, 0))
        return int(asked.getsockname()[1])


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a yard that tests only read, started by a user with credentials."""
    home = tmp_path_factory.mktemp("standing") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_PROFILE", "work")
        patch.setenv("AWS_SESSION_TOKEN", "secret-token")
        process.up(folder=home)
    yield home
    process.down(folder=home)


def kill(found: YardState) -> None:
    """Kill the process as the out-of-memory killer would; return when it is gone."""
    os.kill(found.pid, signal.SIGKILL)
    process._children[found.pid].wait()
    assert not found.is_running()


def test_up_down_and_nothing_is_left(folder: Path) -> None:
    up = process.up(folder=folder)
    assert not up.was_up
    assert is_answering(up.state.endpoint)
    assert process.running(folder=folder) == up.state
    assert process.down(folder=folder) == up.state
    assert not is_answering(up.state.endpoint)
    assert not up.state.is_running()
    assert not folder.exists()
    assert process.down(folder=folder) is None
    assert process.up(folder=folder).died == "", "a yard that was stopped is not mourned"


def test_ctrl_c_in_the_terminal_that_started_it_does_not_reach_the_yard(standing: Path) -> None:
    assert os.getsid(process.required(folder=standing).pid) != os.getsid(0)


def test_a_second_up_finds_the_first(standing: Path) -> None:
    first = process.required(folder=standing)
    second = process.up(folder=standing)
    assert (second.was_up, second.state) == (True, first)


def test_a_home_that_takes_no_files_says_where_else_a_yard_may_live(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SlipwayError, match=r"cannot write its folder .*/file/yard: Not a directory"
    ) as refused:
        process.up(folder=tmp_path / "file" / "yard")
    assert refused.value.hint == "set SLIPWAY_YARD_HOME to a folder that you may write"


def test_ups_at_the_same_time_make_one_yard(folder: Path) -> None:
    with ThreadPoolExecutor(4) as together:
        ups = list(together.map(lambda _: process.up(folder=folder), range(4)))
    assert len({up.state.pid for up in ups}) == 1
    assert sorted(up.was_up for up in ups) == [False, True, True, True]


def test_ups_and_downs_at_the_same_time_end_with_a_yard_that_answers_or_none(folder: Path) -> None:
    def act(number: int) -> None:
        process.down(folder=folder) if number % 2 else process.up(folder=folder)

    with ThreadPoolExecutor(6) as together:
        list(together.map(act, range(6)))
    left = process.running(folder=folder)
    assert left is None or is_answering(left.endpoint)


@pytest.mark.parametrize(
    "command", ["status", *(pytest.param(command, marks=pytest.mark.long) for command in ("env", "hosts"))]
)
def test_who_asks_for_a_yard_that_died_hears_when_and_what_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    died = process.up(folder=folder).state
    kill(died)
    heard = datetime.fromtimestamp((folder / state.LOG_FILE).stat().st_mtime).astimezone()
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(folder))
    assert run(("yard", command)) == 1
    said = capsys.readouterr().err
    assert "the yard is not up: the one started at" in said
    assert f"died after {heard:%Y-%m-%d %H:%M:%S}" in said
    assert "its stacks, files and jobs were in its memory and are lost" in said
    assert "slipway yard up" in said


def test_a_killed_yard_is_cleaned_by_the_next_up_which_says_what_is_lost_and_since_when(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    died = process.up(folder=folder).state
    kill(died)
    assert process.running(folder=folder) is None
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(folder))
    assert run(("yard", "up")) == 0
    said = capsys.readouterr().err
    started = datetime.fromisoformat(died.started_at).astimezone()
    assert f"the one started at {started:%Y-%m-%d %H:%M:%S} died after" in said
    assert "its stacks, files and jobs were in its memory and are lost" in said
    assert "the yard is up at" in said
    second = process.required(folder=folder)
    assert (second.pid != died.pid, second.secret != died.secret) == (True, True)
    assert is_answering(second.endpoint)
    assert run(("yard", "up")) == 0
    assert "gone" not in capsys.readouterr().err


def test_a_killed_yard_is_cleaned_by_the_next_down(folder: Path) -> None:
    kill(process.up(folder=folder).state)
    assert process.down(folder=folder) is None
    assert not folder.exists()


def test_a_process_that_took_over_the_pid_is_never_killed(folder: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        folder.mkdir(parents=True)
        identity = process_identity(bystander.pid)
        assert identity
        recycled = YardState(
            pid=bystander.pid, identity=identity + "0", endpoint="http://127.0.0.1:1", started_at="2026-01-01"
        )
        write_state(folder, recycled)
        assert process.down(folder=folder) is None
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()


def test_a_taken_port_is_left_to_its_owner(
    folder: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "DEFAULT_PORT", free_port)
    with socket.socket() as owner:
        owner.bind((HOST, free_port))
        owner.listen()
        endpoint = process.up(folder=folder).state.endpoint
    assert endpoint != f"http://{HOST}:{free_port}"
    assert endpoint.startswith(f"http://{HOST}:")


def test_the_port_that_was_asked_for_is_taken_or_none(folder: Path, free_port: int) -> None:
    assert process.up(free_port, folder=folder).state.endpoint == f"http://{HOST}:{free_port}"
    with pytest.raises(SlipwayError, match="already up at"):
        process.up(free_port + 1, folder=folder)
    process.down(folder=folder)
    with socket.socket() as owner:
        # As every server does: connections that the yard closed itself hold the port for a minute.
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        owner.bind((HOST, free_port))
        owner.listen()
        with pytest.raises(SlipwayError, match=rf"its log: port {free_port} is taken$") as caught:
            process.up(free_port, folder=folder)
    assert "--port" in caught.value.hint
    assert not folder.exists()


def test_a_crash_at_the_start_shows_the_end_of_the_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "DEFAULT_PORT", 70_000)  # no such port: the server ends with a traceback
    with pytest.raises(SlipwayError, match="OverflowError") as caught:
        process.up(folder=folder)
    assert "exit code 1" in caught.value.message
    assert process.running(folder=folder) is None


def test_down_leaves_what_the_yard_did_not_make(folder: Path) -> None:
    process.up(folder=folder)
    (folder / "mine.txt").write_text("keep")
    process.down(folder=folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    (folder / "mine.txt").unlink()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "null"])
def test_a_record_that_is_not_ours_is_no_yard(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / state.STATE_FILE).write_text(text)
    assert read_state(folder) is None
    assert process.down(folder=folder) is None


def test_locks_taken_while_the_folder_comes_and_goes_keep_all_others_out(folder: Path) -> None:
    inside: list[int] = []

    def hold(number: int) -> bool:
        with state.locked(folder):
            inside.append(number)
            alone = len(inside) == 1
            inside.remove(number)
            state.remove_made(folder)
        return alone

    with ThreadPoolExecutor(8) as together:
        assert all(together.map(hold, range(2000)))


def test_a_file_in_the_place_of_the_folder_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(FileExistsError):
        process.up(folder=tmp_path / "home")


def test_the_users_own_credentials_never_reach_the_yard(standing: Path) -> None:
    found = process.required(folder=standing)
    environment = Path(f"/proc/{found.pid}/environ")
    if not environment.exists():
        pytest.skip("this system shows no process its environment")
    assert b"secret-token" not in environment.read_bytes()
    assert b"AWS_PROFILE" not in environment.read_bytes()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SLIPWAY_YARD_HOME": "/somewhere/yard", "XDG_STATE_HOME": "/x"}, "/somewhere/yard"),
        ({"XDG_STATE_HOME": "/x"}, "/x/slipway/yard"),
        ({"HOME": "/h/a"}, "/h/a/.local/state/slipway/yard"),
    ],
)
def test_the_yard_lives_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("SLIPWAY_YARD_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert state.home() == Path(expected)


def test_a_record_is_never_half_written(folder: Path) -> None:
    folder.mkdir(parents=True)
    record = YardState(pid=1, identity="a", endpoint="http://127.0.0.1:1", started_at="2026-01-01")
    write_state(folder, record)
    assert read_state(folder) == record
    assert [path.name for path in folder.iterdir()] == [state.STATE_FILE]
    assert json.loads((folder / state.STATE_FILE).read_text())["pid"] == 1


# A notebook's process reaches the yard without a shell.


def test_a_process_is_pointed_at_the_yard_that_is_up(
    yard: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(yard.home))
    before = dict(os.environ)
    try:
        assert use_yard() == yard.endpoint == os.environ["AWS_ENDPOINT_URL"]
        assert not {"AWS_ENDPOINT_URL_S3", "AWS_PROFILE"} & set(os.environ)
    finally:
        os.environ.clear()
        os.environ.update(before)
