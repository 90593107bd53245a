"""README's session can be compared with a real run: values that differ from run to run are ignored."""

from __future__ import annotations

import pytest

from tests.readme_session import never_printed, printed_like, session


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("the yard is up at http://127.0.0.1:5566", "the yard is up at http://127.0.0.1:6502"),
        (
            "[0] step 20/240  loss 8.0448  lr 0.0008  |g| 1.79  49.7 sequences/s  873 tokens/$  0:02:21 left",
            "[0] step 9/120  loss 6.6  lr 4.63e-06  |g| 1  1,097.9 sequences/s  9 tokens/$  0:00:00 left",
        ),
        (
            "[0] saved step 20 in 0.1 s; training waited 0.01 s",
            "[0] saved step 40 in 12.0 s; training waited 3 s",
        ),
        ("bert_pretrain-953465e36837: succeeded", "bert_pretrain-000000000000: succeeded"),
        ("state    starting", "state                      starting"),
        ("✅  dl1", " ✅  dl1 (no changes)"),
        ("slipway 1.0.0 (extras: yard)", "slipway 1.0.0+g0e1d (extras: yard)"),
        ("ami-19f794d53fb09cc27 stands in", "ami-0123456789abcdef0 stands in"),
        (" 170        1  0.0419                         -  ███████████", "330  2  0.5 - █"),
    ],
)
def test_times_ids_rates_and_columns_may_differ(shown: str, printed: str) -> None:
    assert never_printed([shown], f"before\n{printed}\nafter") == []


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("prepare_bert-18581b3af377: succeeded", "prepare_bert-18581b3af377: failed"),
        ("costs at most  3775.4 USD", "costs at most  12.0 USD"),
        ("✅  dl1: destroyed", "❌  dl1: destroyed"),
        ("slipway 1.0.0 (extras: yard)", "slipway 1.0.0 (extras: none)"),
        ("slipway 1.0.0 (extras: yard)", "slipway 1.0.1+g0e1d (extras: yard)"),
        ("170  1  0.0419  -  ███", "170  1  nan  -"),
    ],
)
def test_everything_else_must_be_the_same(shown: str, printed: str) -> None:
    assert never_printed([shown], printed) == [shown]


def test_the_session_has_every_command_with_its_lines() -> None:
    commands = [typed.command for typed in session()]
    assert commands[0] == "slipway --version"
    assert commands[-1].startswith("slipway cluster destroy")
    silent = [typed.command for typed in session() if not typed.lines]
    assert [command.partition(" ")[0] for command in silent] == ["cd", "eval"]


def test_a_recording_has_the_lines_that_were_printed_first_and_last_where_many_are_alike() -> None:
    shown = ["saved step 20", "step 1000/1000  loss 0.0070", " 10  1  0.1  -  ██", " 990  2  0.01  -  █"]
    text = (
        "saved step 20\nsaved step 40\nstep 10/1000  loss 0.2\nstep 1000/1000  loss 0.0071\n"
        " 10  1  0.3  -  ███\n 500  1  0.2  -  ██\n 1000  2  0.02  -  █"
    )
    assert printed_like(shown, text) == [
        "saved step 20",
        "step 1000/1000  loss 0.0071",
        " 10  1  0.3  -  ███",
        " 1000  2  0.02  -  █",
    ]
