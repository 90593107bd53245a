"""The MLflow example sends the loss of each step to a real server on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3

from slipway.containers.runtime.rendezvous.peers import free_port
from tests.architecture.tracked import ROOT
from tests.containers.recipes.command.nodes import Node

PYTHON = ROOT / ".venv" / "examples" / "bin" / "python"
EXAMPLE = ROOT / "docs" / "examples" / "mlflow" / "train.py"
_PATIENCE_SECONDS = 120

pytestmark = [
    pytest.mark.apart,
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs MLflow: scripts/set_up_apart"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    port = str(free_port(29900))
    words = ("server", "--host", "127.0.0.1", "--port", port, "--workers", "1")
    stores = (
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/runs.db",
        "--artifacts-destination",
        str(tmp_path),
    )
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            (PYTHON, "-m", "mlflow", *words, *stores), stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # it has worker processes, and nothing to save
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return once it answers; pytest's time-out limits the wait."""
    while True:
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            with suppress(urllib3.exceptions.HTTPError):
                urllib3.request("GET", url, retries=False, timeout=10)
                return
        else:
            pytest.fail(f"the server ended with {process.returncode}")


def ask(method: str, url: str, **said: Any) -> Any:
    return urllib3.request(method, url, timeout=_PATIENCE_SECONDS, **said).json()


def test_ranks_make_one_run_with_the_loss_of_each_step(server: str, tmp_path: Path) -> None:
    node = Node(tmp_path, {"train.py": EXAMPLE.read_text(encoding="utf-8")})
    variables = json.dumps({"MLFLOW_TRACKING_URI": server, "MLFLOW_EXPERIMENT_NAME": "mine"})
    done = node.run(str(PYTHON), "train.py", settings={"environment": variables})
    assert done.returncode == 0, done.stderr
    assert "step 20/20  loss 0.0500" in done.stdout
    api = f"{server}/api/2.0/mlflow"
    made = ask("POST", f"{api}/experiments/search", json={"max_results": 9})
    ids = [each["experiment_id"] for each in made["experiments"]]
    (run,) = ask("POST", f"{api}/runs/search", json={"experiment_ids": ids})["runs"]
    info, data = run["info"], run["data"]
    assert (info["run_name"], info["status"]) == ("own", "FINISHED")
    assert [(each["key"], each["step"]) for each in data["metrics"]] == [("loss", 20)]
    asked = {"run_id": info["run_id"], "metric_key": "loss"}
    told = ask("GET", f"{api}/metrics/get-history", fields=asked)["metrics"]
    assert [each["step"] for each in told] == list(range(1, 21))
