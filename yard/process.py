"""Starts, finds and stops the yard's process. Calls may be repeated; two at once start only one yard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import refuse_incomplete, refuse_without
from slipway.yard.chaos.switches import ChosenFaults
from slipway.yard.endpoint import DEFAULT_PORT, is_answering
from slipway.yard.environment import exported, unset
from slipway.yard.machines.memory import limit_of
from slipway.yard.machines.settings import CHECKOUT
from slipway.yard.state import (
    LOG_FILE,
    MACHINE_IMAGES,
    SCRATCH_FOLDER,
    YardState,
    home,
    locked,
    private,
    read_state,
    remove_made,
    remove_tree,
)

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10
POLL_S = 0.05
LAST_LOG_LINES = 15
# The user's profiles, keys and endpoints must not reach the yard's process.
FORGOTTEN = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL")


# Yards that this process started and has to reap.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    state: YardState
    was_up: bool
    died: str = ""  # what happened to the previous yard, if it was not stopped


def up(port: int | None = None, *, folder: Path | None = None, faults: ChosenFaults | None = None) -> Up:
    """Return the running yard, or start one. A new one fails if the requested port is taken."""
    folder = folder or home()
    with locked(folder):
        state = read_state(folder)
        if state and state.is_running():
            return Up(state=_checked(state, port, faults), was_up=True)
        limit_of(os.environ)  # refuse a bad value here, where the user sees it
        died = obituary(folder, state) if state else ""
        for leftover in (LOG_FILE, SCRATCH_FOLDER, MACHINE_IMAGES):
            path = folder / leftover
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)
        return Up(state=_start(folder, port, faults), was_up=False, died=died)


def down(*, folder: Path | None = None) -> YardState | None:
    """Stop the yard and delete everything in it. Return what was stopped, or None if nothing ran."""
    folder = folder or home()
    if not folder.exists():
        return None
    with locked(folder):
        state = read_state(folder)
        running = state if state and state.is_running() else None
        if running:
            _stop(running)
        remove_made(folder)
        return running


def running(*, folder: Path | None = None) -> YardState | None:
    state = read_state(folder or home())
    return state if state and state.is_running() else None


def required(*, folder: Path | None = None) -> YardState:
    """Return the running yard, or raise an error that says how to start one."""
    folder = folder or home()
    state = read_state(folder)
    if state and state.is_running():
        return state
    said = f"the yard is not up: {obituary(folder, state)}" if state else "the yard is not up"
    raise SlipwayError(said, hint=f"start {'a new one' if state else 'it'}: slipway yard up")


def obituary(folder: Path, state: YardState) -> str:
    """Say that this yard died, when it last wrote to its log, and what was lost."""
    try:
        seconds = (folder / LOG_FILE).stat().st_mtime  # of the last request, since the yard logs every one
        heard = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except FileNotFoundError:
        heard = state.started_at
    life = f"the one started at {_clock(state.started_at)} died after {_clock(heard)}"
    return f"{life} without being stopped; its stacks, files and jobs were in its memory and are lost"


def _clock(moment: str) -> str:
    """Format the moment in the user's time zone."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"


def last_log_lines(folder: Path) -> str:
    try:
        lines = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return " | ".join(line.strip() for line in lines[-LAST_LOG_LINES:])


def _checked(state: YardState, port: int | None, faults: ChosenFaults | None) -> YardState:
    if faults:
        raise SlipwayError(
            f"a yard is already up at {state.endpoint}, so it cannot start with other faults",
            hint="set them on it: slipway yard faults set NAME=VALUE; or stop it first: slipway yard down",
        )
    if port is not None and not state.endpoint.endswith(f":{port}"):
        raise SlipwayError(
            f"a yard is already up at {state.endpoint}, so it cannot take port {port}",
            hint="stop it first: slipway yard down",
        )
    if not is_answering(state.endpoint):
        raise SlipwayError(
            f"the yard's process {state.pid} is running but does not answer at {state.endpoint}",
            hint="read its log (slipway yard logs), then stop it (slipway yard down)",
        )
    return state


def _start(folder: Path, port: int | None, faults: ChosenFaults | None) -> YardState:
    if not sys.platform.startswith("linux"):
        raise SlipwayError(
            f"the yard runs real Linux programs, and this machine is {sys.platform}",
            hint="run it on Linux, in a virtual machine or a container; commands that reach AWS work here",
        )
    refuse_incomplete()
    refuse_without("yard", "the yard")
    (folder / SCRATCH_FOLDER).mkdir(mode=0o700)
    command = [sys.executable, "-m", "slipway.yard.server", "--home", str(folder)]
    command += ["--port", str(port or DEFAULT_PORT)] + (["--only-that-port"] if port else [])
    command += faults.arguments() if faults else []
    environment = {name: value for name, value in os.environ.items() if name not in FORGOTTEN} | {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder / SCRATCH_FOLDER),
    }
    with open(folder / LOG_FILE, "ab", opener=private) as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
            start_new_session=True,  # Ctrl-C in this terminal must not stop the yard
        )
    _children[child.pid] = child
    return _wait_for(child, folder)


def _wait_for(child: subprocess.Popen[bytes], folder: Path) -> YardState:
    def is_decided() -> bool:
        if child.poll() is not None:
            return True
        state = read_state(folder)
        return state is not None and state.pid == child.pid and is_answering(state.endpoint)

    if not _until(is_decided, START_TIMEOUT_S):
        child.kill()
    state = read_state(folder)
    if child.poll() is None and state:
        return state
    log = last_log_lines(folder)
    remove_made(folder)
    raise SlipwayError(
        f"the yard did not start (exit code {_children.pop(child.pid).wait()}); the end of its log: {log}",
        hint="use another port if this one is taken (--port 5600)",
    )


def _stop(state: YardState) -> None:
    for ending in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(state.pid, ending)
        if _until(lambda: not state.is_running(), STOP_TIMEOUT_S):
            if child := _children.pop(state.pid, None):
                child.wait()
            return
    raise SlipwayError(f"the yard's process {state.pid} does not exit", hint=f"kill it: kill -9 {state.pid}")


def _until(is_so: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


# For notebooks, which have no shell for `eval "$(slipway yard env)"`.


def use_yard() -> str:
    """Start the yard unless it is up, send this process's AWS calls to it, and return its endpoint."""
    yard = up().state
    for name in unset(os.environ):
        os.environ.pop(name, None)
    os.environ.update(exported(yard, os.environ))
    return yard.endpoint
