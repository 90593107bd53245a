"""The output of ranks arrives in whole lines, with the rank's name and nothing harmful."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.observe.log_pump import MOST_LINE_BYTES, LineCutter
from tests.containers.runtime.nodes import ROOT, Cluster


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=8))
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(data)]
    whole, parts = LineCutter(), LineCutter()
    wanted = whole.feed(data) + whole.rest()
    found = [line for start, end in pairwise(edges) for line in parts.feed(data[start:end])]
    assert found + parts.rest() == wanted


@given(data=st.binary(max_size=300) | st.text().map(str.encode))
def test_no_byte_reaches_the_log_that_moves_a_cursor(data: bytes) -> None:
    cutter = LineCutter()
    for line in cutter.feed(data) + cutter.rest():
        assert all(character.isprintable() or character in "\t" or character > "\x9f" for character in line)
        assert "\u202e" not in line


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"10%\r20%\r30%\n", ["10%", "20%", "30%"]),
        (b"\n\n", ["", ""]),
        ("é\u202etxt\n".encode(), ["é\\u202etxt"]),
        (b"\x1b[2Jcleared\n", ["\\x1b[2Jcleared"]),
        (b"\xff\xfe\n", ["\\xff\\xfe"]),
        ("\x9b31m\u2028\n".encode(), ["\\x9b31m\\u2028"]),
    ],
)
def test_a_line_is_shown_as_it_is_or_as_what_it_is_made_of(data: bytes, lines: list[str]) -> None:
    cutter = LineCutter()
    assert cutter.feed(data) + cutter.rest() == lines


def test_an_endless_line_is_bounded_in_memory_and_in_the_log() -> None:
    cutter = LineCutter()
    for _ in range(160):
        assert cutter.feed(b"x" * 65536) == []
        assert (
            sum(map(len, (value for value in vars(cutter).values() if isinstance(value, bytearray))))
            < 100_000
        )
    (line,) = cutter.feed(b"\n")
    assert line == "x" * MOST_LINE_BYTES + f" … ({160 * 65536 - MOST_LINE_BYTES} bytes left out)"


def test_every_line_has_its_rank_and_none_is_torn_by_another(cluster: Cluster) -> None:
    count = 3000
    node = cluster.start({"*": [f"flood {count}"]}, SLIPWAY_PROCESSES_PER_NODE=2)
    assert node.end() == 0
    for rank in (0, 1):
        own = [line for line in node.lines if line.startswith(f"[{rank}] ")]
        wanted = [f"[{rank}] {number:06d} {'x' * (number % 200)}|" for number in range(count)]
        assert sorted(own) == sorted(wanted * 2), "once of each output"
    assert len(node.lines) == 4 * count + 2


def test_a_line_of_ten_megabytes_is_cut_and_the_next_is_whole(cluster: Cluster) -> None:
    node = cluster.start({"*": ["long 10000000"]})
    assert node.end() == 0
    assert len(node.text) < 100_000
    assert "bytes left out)" in node.text
    assert "[0] next" in node.lines


def test_the_last_line_needs_no_end_and_control_characters_do_no_harm(cluster: Cluster) -> None:
    harmful = b"bell: \x07 title: \x1b]0;x"
    node = cluster.start({"*": [f"raw {harmful.hex()}"]})
    assert node.end() == 0
    assert node.lines.count("[0] bell: \\x07 title: \\x1b]0;x") == 2


def test_output_that_nobody_reads_any_more_does_not_stop_the_training(cluster: Cluster) -> None:
    command = [
        sys.executable,
        "-m",
        "slipway.containers.runtime.launch",
        "--module",
        "tests.containers.runtime.worker",
    ]
    launcher = subprocess.Popen(
        [*command, "--", '{"*": ["flood 3000", "exit 3"]}'],
        cwd=ROOT,
        env=cluster.environment(0, 1),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert launcher.stdout is not None
    assert launcher.stderr is not None
    launcher.stdout.close()
    launcher.stderr.close()
    assert launcher.wait(timeout=30) == 3
