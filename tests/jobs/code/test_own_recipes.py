"""A user's own recipe is listed with ours, checked before it is sent, and run in the project's folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.containers.recipes.command.own_recipe import recipe_words
from slipway.jobs.cli import cli
from slipway.jobs.code import own_recipes
from slipway.jobs.code.own_recipes import BrokenRecipe, find_own_recipe, own_command, own_names
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.words.job import InvalidJob

Write = Callable[[str, str], Path]
RECIPE = '''
"""Counts rows."""
from dataclasses import dataclass

@dataclass(frozen=True)
class Config:
    rows: int = 1

def train(config):
    import os
    print(f"rank {os.environ['RANK']} counts {config.rows} in {os.getcwd()}")
    return 85 if config.rows == 85 else None
'''


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    assert cli.run(["init", str(tmp_path / "mine")]) == 0
    project = tmp_path / "mine"
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(name: str, text: str) -> Path:
        path = project / "recipes" / f"{name}.py"
        path.write_text(text)
        return path

    return write


def test_it_is_listed_beside_ours_with_its_settings(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("counting", RECIPE)
    assert own_names() == ["counting", "sine"]
    capsys.readouterr()
    assert cli.run(["recipes", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["smoke"]["summary"] == "Try the devices and the network of a cluster"
    own = listed["counting"]
    assert (own["summary"], own["from"]) == ("Counts rows.", "recipes/counting.py")
    assert cli.run(["recipes", "counting", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"setting": "rows", "allowed": "a whole number", "default": 1}
    ]
    code = cli.run(["submit", "counting", "--on", "mine", "--nodes", "2", "--set", "row=1"])
    assert (code, "'row' is not a setting; did you mean rows?" in capsys.readouterr().err) == (2, True)
    sine = find_own_recipe("sine")  # the recipe of a new project
    assert sine
    assert "steps" in sine.kinds()
    with pytest.raises(InvalidJob, match="steps is 0, and must be at least 1"):
        sine.read({"steps": "0"})
    write("smoke", RECIPE)
    with pytest.raises(BrokenRecipe, match="has the name of a recipe of Slipway"):
        find_own_recipe("smoke")


def test_its_name_in_another_case_names_no_recipe(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac's disk finds recipes/sine.py as Sine.py, too, and no node could import recipes.Sine."""
    monkeypatch.setattr(os.path, "lexists", lambda _: True)
    assert find_own_recipe("Sine") is None
    assert find_own_recipe("sine")


def test_a_rank_reads_the_same_settings_in_the_projects_folder(write: Write) -> None:
    write("counting", RECIPE)
    own = find_own_recipe("counting")
    assert own
    command = own_command(own, {"rows": "85"})
    assert command.words == recipe_words("recipes.counting", ["rows=85"])
    done = subprocess.run(
        [sys.executable, *command.words[1:]],
        cwd=own.project,
        env={**os.environ, "RANK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (85, f"rank 1 counts 85 in {own.project}\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_like_it", "recipes/bad.py:1 raised ModuleNotFoundError"),
        ("x = (", "recipes/bad.py:1 raised SyntaxError"),
        ("def train(config): ...", "recipes/bad.py: recipes.bad has no dataclass Config"),
        ("class Config: ...", "recipes/bad.py: recipes.bad has no function train"),
        (RECIPE.replace("rows: int", "rows"), "setting rows of Config has no type"),
    ],
)
def test_a_broken_one_is_named_with_its_line_and_hides_no_other(
    write: Write, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    write("bad", text)
    with pytest.raises(BrokenRecipe) as refused:
        find_own_recipe("bad")
    assert words in refused.value.message
    capsys.readouterr()
    assert cli.run(["recipes", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["bad"]["summary"].startswith("error: recipes/bad.py")
    assert listed["sine"]["summary"].startswith("Trains")


@pytest.mark.parametrize(
    ("make", "said"),
    [  # BI-443
        (lambda path: path.symlink_to("/dev/zero"), "recipes/bad.py is a device, and must be a regular file"),
        (os.mkfifo, "recipes/bad.py is a FIFO"),
        (lambda path: path.mkdir(), "recipes/bad.py is a folder"),
        (lambda path: path.symlink_to("nowhere"), "recipes/bad.py does not exist"),
        (lambda path: path.symlink_to("bad.py"), "recipes/bad.py' cannot be read: Too many levels"),
        (lambda path: path.write_bytes(b"#" * (5 << 20)), "at most 4194304 are read"),
        (lambda path: path.write_bytes(b"x = '\xff'\n"), "recipes/bad.py:1 raised SyntaxError"),
        (lambda path: path.write_bytes(b"x = 1\0"), "recipes/bad.py:"),
    ],
)
def test_what_is_no_file_of_python_is_named_and_hides_no_other(
    write: Write, capsys: pytest.CaptureFixture[str], make: Callable[[Path], object], said: str
) -> None:
    sine = write("counting", RECIPE)
    make(sine.with_name("bad.py"))
    capsys.readouterr()
    assert cli.run(["recipes", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert said in listed["bad"]["summary"]
    assert listed["counting"]["summary"] == "Counts rows."
    assert cli.run(["submit", "bad", "--on", "mine", "--nodes", "1"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.timeout(60, method="thread")  # pytest-timeout's other method uses the alarm that is tested
@pytest.mark.parametrize("line", ["import time; time.sleep(600)", "while True: pass"])
def test_one_that_waits_on_import_is_named_while_it_does_and_then_ended(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """BI-442"""
    monkeypatch.setattr(own_recipes, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(own_recipes, "LONGEST_IMPORT_SECONDS", 0.3)
    write("bad", f"{line}\n{RECIPE}")
    before = signal.getsignal(signal.SIGALRM)
    capsys.readouterr()
    assert cli.run(["recipes", "--json"]) == 0
    told = capsys.readouterr()
    listed = {row["name"]: row for row in json.loads(told.out)}
    assert "recipes/bad.py is being imported" in told.err
    assert "recipes/bad.py is still being imported after 0.3 seconds" in listed["bad"]["summary"]
    assert listed["sine"]["summary"].startswith("Trains")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_it_is_estimated_where_it_says_what_it_trains(write: Write) -> None:
    described = '\ndef workload(config):\n    return {"like": "bert-large", "sequences": config.rows}\n'
    write("counting", RECIPE + described)
    found = workload_of("counting", {"rows": "640"})
    assert (found.name, found.model_name, found.sequences) == ("counting", "bert-large", 640)
    with pytest.raises(CannotEstimate, match="does not say what it trains"):
        workload_of("sine", {})
