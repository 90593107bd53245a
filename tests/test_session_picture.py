"""README's picture shows README's session as a run printed it, and can be read in dark mode."""

from __future__ import annotations

from xml.etree import ElementTree

from scripts.session_picture import COLUMNS, PROMPT, is_shown, pictured, session_picture
from tests.architecture.tracked import ROOT
from tests.readme_session import normalised, session

PICTURE = (ROOT / "docs" / "session.svg").read_text(encoding="utf-8")


def test_the_picture_shows_the_commands_of_the_readme_and_what_they_print() -> None:
    """The lines come from a run, so values that differ from run to run may differ from README's."""
    told = [
        line
        for typed in session()
        if is_shown(typed.command)
        for line in (PROMPT + typed.command, *typed.lines)
    ]
    assert [normalised(line) for line in pictured(PICTURE)] == [normalised(line) for line in told]


def test_the_picture_is_what_its_lines_draw() -> None:
    parts: list[tuple[str, list[str]]] = []
    for line in pictured(PICTURE):
        if line.startswith(PROMPT):
            parts.append((line.removeprefix(PROMPT), []))
        else:
            parts[-1][1].append(line)
    assert session_picture(parts) == PICTURE
    assert "@media (prefers-color-scheme: dark)" in PICTURE


def test_a_line_that_is_wrapped_is_one_line_and_hostile_words_are_words() -> None:
    lines = ["x" * (2 * COLUMNS + 1), "  <script>alert(1)</script> & more", "[0] step 5"]
    picture = session_picture([("echo hello      # say it", lines)])
    assert pictured(picture) == [f"{PROMPT}echo hello      # say it", *lines]
    assert len(ElementTree.fromstring(picture).findall("{*}text")) == 6  # noqa: S314 - it is ours
