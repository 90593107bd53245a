"""A node finds a user's functions by module and name, in the folder that has to be sent."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from slipway.jobs.code.user_modules import CannotTravel, find_module, folder_of, importable

CODE = "def train(rate): return rate\n\n\nclass Model:\n    @staticmethod\n    def fit(): return 1\n"


def imported(folder: Path, name: str, patch: pytest.MonkeyPatch) -> dict[str, Callable[..., object]]:
    """Import a module of the folder under a name that no other test uses."""
    (folder / f"{name}.py").write_text(CODE)
    patch.syspath_prepend(str(folder))
    return vars(importlib.import_module(name))


def test_the_folder_that_a_module_is_imported_from_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = imported(tmp_path, "sent_module", monkeypatch)["train"]
    code = importable(train, "the function")
    assert (code.module, code.name) == ("sent_module", "train")
    module = find_module(code, "the function")
    assert module is not None
    assert folder_of([module]).path == tmp_path


def test_the_folder_above_a_package_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent_package").mkdir()
    (tmp_path / "sent_package" / "__init__.py").write_text(CODE)
    (tmp_path / "sent_package" / "inner.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("sent_package", "sent_package.inner"):
        code = importable(importlib.import_module(name).Model.fit, "the function")
        module = find_module(code, "the function")
        assert module is not None
        assert module.root == tmp_path
        assert code.name == "Model.fit"


def test_nothing_is_sent_for_what_an_image_has() -> None:
    assert find_module(importable(math.sqrt, "the function"), "the function") is None


def test_a_partial_travels_with_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = imported(tmp_path, "partial_module", monkeypatch)["train"]
    code = importable(partial(train, nodes=2), "the function")
    assert (code.name, code.options) == ("train", {"nodes": 2})


def closure() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: None, "the function is <lambda> of "),
        (closure(), "the function is closure.<locals>.inner of "),
        (object(), "the function is an object of object"),
    ],
)
def test_what_has_no_name_in_its_module_is_refused(function: object, said: str) -> None:
    with pytest.raises(CannotTravel, match=said) as refused:
        importable(function, "the function")
    assert refused.value.hint


SCRIPT = """
from slipway.jobs.code.user_modules import find_module, importable
def train(): ...
code = importable(train, "the function")
module = find_module(code, "the function")
print(code.module, code.name, module.root)
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [(("my-script.py",), "my-script train "), (("-m", "own.sweep"), "own.sweep train ")],
)
def test_a_function_of_the_script_that_runs_is_found_as_a_module_of_its_folder(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    for name in ("my-script.py", "own/sweep.py"):
        (tmp_path / name).write_text(SCRIPT)
    assert printed(tmp_path, *words) == f"{said}{tmp_path}"


@pytest.mark.parametrize("name", ["train.v2.py", "train"])
def test_a_script_whose_name_no_import_takes_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SCRIPT)
    said = f"the function is defined in {name}, which no node can import by that name"
    assert printed(tmp_path, name).endswith(said)


def test_a_function_typed_into_a_session_or_a_notebook_is_refused(tmp_path: Path) -> None:
    said = printed(tmp_path, "-c", SCRIPT)
    assert said.endswith("the function is train, which was typed into an interactive session")


def printed(folder: Path, *words: str) -> str:
    """Return the last line that Python prints."""
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.stdout.splitlines()[-1]


def test_a_function_that_its_module_has_replaced_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = imported(tmp_path, "reloaded_module", monkeypatch)["train"]
    importlib.reload(sys.modules["reloaded_module"])
    with pytest.raises(CannotTravel, match="is not what reloaded_module has as train now"):
        importable(before, "the function")


def test_a_module_that_git_ignores_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = imported(tmp_path, "ignored_module", monkeypatch)["train"]
    (tmp_path / ".gitignore").write_text("ignored_module.py\n")
    module = find_module(importable(train, "the function"), "the function")
    assert module is not None
    with pytest.raises(CannotTravel, match=r"is defined in ignored_module\.py, which git ignores"):
        folder_of([module])
