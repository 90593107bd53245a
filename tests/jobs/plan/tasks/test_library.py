"""Techniques of the user's own are registered by name, found by module path, and never unpickled."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipway import BaseTechnique, SlipwayError, deregister, register, retrieve
from slipway.jobs.plan.tasks import library
from slipway.jobs.plan.techniques.techniques import TECHNIQUES


class Mine(BaseTechnique):
    def execute(task, gpus, task_id, batch_count):  # type: ignore[no-untyped-def]  # noqa: N805 - as the article has it
        return None

    def search(task, gpus, task_id):  # type: ignore[no-untyped-def]  # noqa: N805 - likewise
        return {}


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "techniques.json"
    monkeypatch.setenv(library.VARIABLE, str(path))
    monkeypatch.setattr(library, "_of_this_session", {})
    return path


def test_another_session_finds_the_class_by_its_module(own_file: Path) -> None:
    register("mine", Mine)
    assert json.loads(own_file.read_text())["mine"]["module"] == __name__
    code = "from slipway import retrieve; print(retrieve('mine').__qualname__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "Mine\n"


def test_all_techniques_are_ours_and_the_users() -> None:
    register("mine", Mine)
    assert [found.name for found in retrieve()[:-1]] == list(TECHNIQUES)
    assert retrieve()[-1] is Mine
    assert retrieve(["mine", "fsdp"])[0] is Mine


def test_a_technique_that_was_deregistered_is_gone() -> None:
    register("mine", Mine)
    deregister(["mine"])
    with pytest.raises(SlipwayError, match="there is no technique 'mine'"):
        retrieve("mine")


def test_our_own_techniques_stay() -> None:
    with pytest.raises(SlipwayError, match="'fsdp' is our own technique and stays"):
        deregister("fsdp")
    with pytest.raises(RuntimeError, match="'fsdp' is our own technique"):
        register("fsdp", Mine)


@pytest.mark.parametrize("given", [int, "text", object()])
def test_anything_but_a_subclass_is_a_runtime_error_as_in_saturn(given: type[BaseTechnique]) -> None:
    with pytest.raises(RuntimeError, match="no subclass of BaseTechnique"):
        register("mine", given)


def test_a_technique_without_its_functions_is_refused_by_name() -> None:
    class Half(BaseTechnique):
        def search(task, gpus, task_id):  # type: ignore[no-untyped-def]  # noqa: N805 - as the article has it
            return {}

    with pytest.raises(RuntimeError, match="'half' has no execute"):
        register("half", Half)


def test_a_class_that_no_other_process_finds_is_refused() -> None:
    class Local(Mine):
        pass

    with pytest.raises(RuntimeError, match="other processes cannot find by a name"):
        register("local", Local)
