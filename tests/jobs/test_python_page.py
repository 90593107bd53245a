"""The examples of docs/python.md run, one after the other, against the yard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import slipway
import slipway.estimators
from tests.jobs.deployed import deploy_sagemaker_target, deploy_target, job_names
from tests.yard.conftest import RunningYard

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SUBMITTING, DECIDING, LOOKING, ESTIMATING, PLANNING, SWEEP, ESTIMATOR, TRANSLATING, SETTING, MISTAKEN = (
    EXAMPLE.findall(PAGE)
)


def test_the_examples_of_jobs_run_and_the_first_is_three_lines(
    yard_shell: RunningYard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    target = deploy_target(yard_shell)
    assert len(SUBMITTING.splitlines()) == 3
    for example in (SUBMITTING, SUBMITTING, DECIDING, LOOKING):
        run(example)
    first, second, decided, looked = capsys.readouterr().out.splitlines()
    assert first == second
    assert len(job_names(yard_shell, target)) == 1
    assert re.fullmatch(r"2 \d+\.\d+", decided)
    assert looked


@pytest.mark.parametrize(
    ("example", "printed"),
    list(zip((ESTIMATING, PLANNING, TRANSLATING, SETTING, MISTAKEN), PRINTED.findall(PAGE), strict=True)),
)
def test_the_examples_without_a_cluster_print_what_the_page_shows(
    example: str,
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # no prices or measurements of this user
    run(example)
    assert capsys.readouterr().out == printed


def test_the_sweep_of_the_page_runs_as_a_script(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    project = tmp_path / "project"
    project.mkdir()
    (project / "sweep.py").write_text(SWEEP, encoding="utf-8")
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    ran = subprocess.run(
        [sys.executable, "sweep.py"],
        cwd=project,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "3 tasks trained\n", ran.stderr


def test_the_page_names_all_that_the_package_offers() -> None:
    assert [name for name in slipway.__all__ if f"`{name}`" not in PAGE] == []
    assert [name for name in slipway.estimators.__all__ if name not in PAGE] == []


@pytest.mark.filterwarnings("ignore")  # the SDK's own
def test_the_example_of_an_estimator_makes_the_sdks_own_object(
    yard_shell: RunningYard, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sagemaker", reason="needs SageMaker's SDK: scripts/set_up.py sagemaker")
    deploy_sagemaker_target(yard_shell)
    run(ESTIMATOR)
    assert re.fullmatch(r"try-[0-9a-f]{12}", capsys.readouterr().out.splitlines()[-1])


def test_the_package_itself_loads_none_of_its_rooms() -> None:
    assert not [name for name in loaded_by("import slipway") if name.startswith("slipway.")]


def test_no_name_of_the_package_loads_boto3_or_torch() -> None:
    everything = f"from slipway import {', '.join(slipway.__all__)}; import slipway.estimators"
    assert not loaded_by(everything) & {"boto3", "torch", "sagemaker"}


def run(example: str) -> None:
    exec(example, {})  # noqa: S102 - what a reader would paste


def loaded_by(code: str) -> set[str]:
    """Return the modules that a new interpreter loads for this code."""
    code = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())
