"""The same print suits a person, a pipe and a program."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from datetime import date
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs import output
from slipway.jobs.output import (
    Column,
    Row,
    complain,
    print_json,
    print_record,
    print_table,
    progress,
    say,
    warn,
)
from slipway.jobs.words.catalogue.instances import Price
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import printable, terminal_columns, words

COLUMNS = (
    Column(name="name"),
    Column(name="price.usd_per_hour", title="price", unit="USD/h", align="right"),
    Column(name="has_efa", title="EFA"),
)
ROWS: list[Row] = [
    {"name": "dl1.24xlarge", "price": {"usd_per_hour": 13.10904}, "has_efa": True, "notes": "no column"},
    {"name": "p5e", "price": None, "has_efa": False, "notes": ""},
]
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make both streams one terminal. No fixture can, because pytest replaces them before the test."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return screen


def test_a_pipe_gets_plain_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("types", COLUMNS, ROWS, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "types",
        "name          price [USD/h]  EFA",
        "dl1.24xlarge       13.10904  yes",
        "p5e                 unknown  no",
    ]


def test_json_carries_every_field_by_its_exact_name(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("types", COLUMNS, ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_json_of_no_rows_is_an_empty_array(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("types", COLUMNS, [], as_json=True)
    assert json.loads(capsys.readouterr().out) == []


def test_no_rows_are_said_on_stderr_and_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("types", COLUMNS, [], as_json=False)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "types: none\n")


def test_json_spells_what_python_has_and_json_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    price = Price(usd_per_hour=1.5, region="us-east-1", date="2026-07-20", source="list")
    print_json(
        {
            "day": date(2026, 7, 20),
            "path": PurePosixPath("a/b"),
            "set": {"b", "a"},
            "price": price,
        }
    )
    printed = json.loads(capsys.readouterr().out)
    assert (printed["day"], printed["path"], printed["set"]) == ("2026-07-20", "a/b", ["a", "b"])
    assert printed["price"]["usd_per_hour"] == 1.5


def test_json_is_never_a_number_that_other_programs_cannot_read() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json({"usd": float("nan")})


def test_a_record_has_a_line_for_each_fact_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (*COLUMNS, Column(name="notes"))
    print_record(columns, ROWS[1], as_json=False)
    assert capsys.readouterr().out.splitlines() == ["name   p5e", "price  unknown", "EFA    no"]
    print_record(columns, ROWS[0], as_json=False)
    assert "price  13.10904 USD/h" in capsys.readouterr().out


def test_a_terminal_gets_the_same_words_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    print_table("types", COLUMNS, ROWS, as_json=False)
    assert "\x1b[1m" in terminal.getvalue()
    shown = ANSI.sub("", terminal.getvalue())
    assert all(word in shown for word in ("types", "price [USD/h]", "dl1.24xlarge", "13.10904", "unknown"))


@pytest.mark.parametrize("width", [20, 30, 50, 80, 200])
def test_a_table_is_never_wider_than_the_terminal_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(
        "",
        (Column(name="name"), Column(name="text")),
        [{"name": "n", "text": "some words " * 9}],
        as_json=False,
    )
    lines = ANSI.sub("", terminal.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(lines).count("some") == 9


def test_a_table_that_would_cut_words_is_printed_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "24")
    print_table("types", COLUMNS, ROWS, as_json=False)
    assert ANSI.sub("", terminal.getvalue()).splitlines() == [
        "types",
        "",
        "name   dl1.24xlarge",
        "price  13.10904 USD/h",
        "EFA    yes",
        "",
        "name   p5e",
        "price  unknown",
        "EFA    no",
    ]


def test_a_long_address_is_cut_before_a_table_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "32")
    print_table("", COLUMNS[::2], [{"name": "x" * 40, "has_efa": True}], as_json=False)
    shown = [line.split() for line in ANSI.sub("", terminal.getvalue()).splitlines()]
    assert shown == [["name", "EFA"], ["x" * 27, "yes"], ["x" * 13]]


def test_brackets_in_foreign_text_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    print_table("[red]t", (Column(name="name"),), [{"name": "[red]loud[/red] :smile:"}], as_json=False)
    shown = ANSI.sub("", terminal.getvalue())
    assert "[red]loud[/red] :smile:" in shown
    assert "[red]t" in shown


def test_a_dumb_terminal_is_treated_as_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    print_table("types", COLUMNS, ROWS, as_json=False)
    complain("no")
    assert "\x1b" not in terminal.getvalue()


def test_colours_are_left_out_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    complain("loud")
    assert "\x1b[31" in terminal.getvalue()
    terminal.truncate(0)
    monkeypatch.setenv("NO_COLOR", "1")
    complain("quiet", "hint")
    assert "\x1b" not in terminal.getvalue()


def test_what_is_said_goes_to_stderr_and_data_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    say("hello")
    warn("careful")
    complain("no", "do this")
    output.print_text("data")
    printed = capsys.readouterr()
    assert printed.out == "data\n"
    assert printed.err == "hello\nwarning: careful\nerror: no\nhint: do this\n"


def test_foreign_text_cannot_forge_a_line_or_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("job 'a\nerror: all is lost\x1b[2J\u202e'")
    print_table("", (Column(name="n"),), [{"n": "a\r\x9b1mb"}], as_json=False)
    printed = capsys.readouterr()
    assert printed.err == "job 'a\\nerror: all is lost\\x1b[2J\\u202e'\n"
    assert printed.out == "n\na\\r\\x9b1mb\n"


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_prints_more_than_one_line_or_a_control_character(text: str) -> None:
    shown = printable(text)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)


def test_a_flood_of_text_is_cut_with_a_note() -> None:
    shown = printable("x" * 10_000_000)
    assert len(shown) < 2100
    assert shown.endswith("(9998000 more characters)")


def test_wide_letters_keep_the_columns_straight(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(
        "",
        (Column(name="a"), Column(name="b")),
        [{"a": "日本語", "b": 1}, {"a": "abc", "b": 2}],
        as_json=False,
    )
    places = [terminal_columns(line[:-1]) for line in capsys.readouterr().out.splitlines()[1:]]
    assert places == [8, 8]


def test_values_read_as_words() -> None:
    assert words([True, None, 400.0, 13.10904, {"a": 1}]) == "yes, unknown, 400, 13.10904, a=1"


def test_progress_elsewhere_than_in_a_terminal_is_one_line_for_each_new_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("building") as now:
        now("pulling")
        now("pulling")
        now("pushing")
    *lines, last = capsys.readouterr().err.splitlines()
    assert lines == ["building …", "building: pulling", "building: pushing"]
    assert re.fullmatch(r"building: done after \d+ s", last)


def test_progress_that_fails_says_so_and_lets_the_failure_through(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SlipwayError, match="no room"), progress("building"):
        raise SlipwayError("no room")
    assert "building: failed after" in capsys.readouterr().err


def test_what_is_said_during_live_progress_stays_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with progress("building") as now:
        now("pulling")
        say("a line between")
    shown = ANSI.sub("", terminal.getvalue())
    assert "a line between\n" in shown
    assert "building: done after" in shown
    assert output._live == []


def test_with_standard_output_closed_there_is_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SlipwayError, match="standard output is closed"):
        print_table("types", COLUMNS, ROWS, as_json=False)


def test_what_runs_in_the_background_goes_on_without_a_word_once_its_terminal_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan runs for days, and bash sends a disowned job no SIGHUP."""
    shown, terminal = os.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8", buffering=1) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        say("here")
        os.close(shown)
        say("to nobody")
