"""A function is sent as text, and one that no other process could find is refused with what to do."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import CodeReference

SCRIPT = """
import sys
from slipway.containers.tasks.description import CodeReference, stop_if_loading

def answer(number=1):
    return 42 * number

if __name__ == "__main__":
    print(CodeReference.of(answer, "it").as_json())
stop_if_loading()
sys.exit("a script that is loaded for its definitions went on")
"""


def twice(number: int, *, plus: int = 0) -> int:
    return 2 * number + plus


def resolved(given: object) -> object:
    return CodeReference.from_json(CodeReference.of(given, "it").as_json()).resolve()


def test_a_function_and_a_class_of_a_module_are_found_again() -> None:
    assert resolved(twice) is twice
    assert resolved(CodeReference) is CodeReference


def test_a_partial_travels_with_its_plain_arguments() -> None:
    found = resolved(partial(partial(twice, 4), plus=1))
    assert callable(found)
    assert found() == 9


def test_a_script_is_run_up_to_where_it_would_search(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    found = CodeReference(module="__main__", name="answer", file=str(script)).resolve()
    assert found() == 42
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert f"'file': '{script}'" in ran.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: 1, "<lambda> .*, which other processes cannot find by a name; define it with `def`"),
        (object(), "an object of object, which other processes cannot find"),
        (partial(print, object()), "a partial of print with arguments that are no plain values"),
    ],
)
def test_what_no_other_process_finds_is_refused(given: object, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        CodeReference.of(given, "load_model")


def test_another_content_of_the_file_is_another_digest(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    reference = CodeReference(module="__main__", name="answer", file=str(script))
    before = reference.content_digest()
    assert before == reference.content_digest()
    script.write_text(SCRIPT + "\n")
    assert before != reference.content_digest()
