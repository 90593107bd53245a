"""Jupyter's own server runs as a job and is reached through a session; a kernel on the node runs a cell."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest

from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import Shell
from tests.end_to_end.in_process import deployed
from tests.end_to_end.own_project import begin_project
from tests.packages import require

require("jupyter_server", reason="pip install jupyter-server ipykernel: no extra has it")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

TOKEN = uuid4().hex
DESK = ("python", "-m", "jupyter_server", "--no-browser", "--port", "8888")
CELL = "import os, socket; print(socket.gethostname(), os.environ['SLIPWAY_JOB'])"


@pytest.fixture(scope="module")
def desk(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so a node's 127.0.0.1 is its own")
    with deployed(shell, tmp_path_factory.mktemp("assembly"), "c6i", max_nodes="1"):
        project = begin_project(shell, tmp_path_factory.mktemp("desk") / "mine")
        shell.client("secretsmanager").create_secret(Name="slipway/jobs/jupyter", SecretString=TOKEN)
        on = ("--on", "c6i", "--nodes", "1", "--processes-per-node", "1", "--name", "desk")
        project.must("slipway", "run", *on, "--secret", "JUPYTER_TOKEN=jupyter", "--", *DESK)
        project.follow_until("desk", "is running at")
        yield project
        project.must("slipway", "cancel", "desk")


@contextmanager
def forwarded(desk: Shell) -> Iterator[str]:
    """Hold the server's port open here until the end of the block, and then press Ctrl-C."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    asked = ("slipway", "ssh", "desk", "--forward", f"{port}:8888")
    with subprocess.Popen(
        asked, cwd=desk.folder, env=dict(desk.environment), stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        for line in running.stdout:
            if line.startswith("Waiting for connections"):
                break
        try:
            yield f"127.0.0.1:{port}"
        finally:
            running.send_signal(signal.SIGINT)
            running.stdout.read()


def asked(place: str, path: str, token: str, method: str = "GET") -> Any:
    request = urllib.request.Request(  # of this machine
        f"http://{place}/api/{path}", method=method, headers={"Authorization": f"token {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # of this machine
        return json.loads(answer.read())


def test_a_cell_runs_on_the_node_and_only_with_the_token(desk: Shell) -> None:
    websocket: Any = import_module("websocket")  # of jupyter-server's client, which no extra has

    with forwarded(desk) as place:
        with pytest.raises(OSError, match="403"):
            asked(place, "kernels", "wrong")
        kernel = asked(place, "kernels", TOKEN, "POST")["id"]
        channels = websocket.create_connection(
            f"ws://{place}/api/kernels/{kernel}/channels?token={TOKEN}", timeout=60
        )
        head = {"msg_id": uuid4().hex, "msg_type": "execute_request", "username": "", "session": uuid4().hex}
        content = {"code": CELL, "silent": False, "store_history": False, "allow_stdin": False}
        empty: dict[str, Any] = {"parent_header": {}, "metadata": {}, "channel": "shell"}
        channels.send(json.dumps({"header": {**head, "version": "5.3"}, "content": content, **empty}))
        printed = ""
        while "\n" not in printed:
            said = json.loads(channels.recv())
            assert said["msg_type"] != "error", said["content"]
            printed += said["content"].get("text", "") if said["msg_type"] == "stream" else ""
        channels.close()
    host, job = printed.split()
    run = desk.data("slipway", "status", "desk", "--json")
    assert (job, host.startswith("ip-10-")) == (run["name"], True), printed
    assert TOKEN not in desk.must("slipway", "logs", "desk")
