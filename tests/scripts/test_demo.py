"""The demo shows what fails, never waits in vain, and leaves no process wherever it is interrupted.

The script runs here with programs that only record their calls; one test interrupts the real ones.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.scripts.checkouts import ROOT, Checkout, Running, make_checkout
from tests.waiting import until

GONE = "its yard is down and its files are deleted"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return make_checkout(tmp_path)


def test_the_tour_walks_every_chapter_and_kills_a_node_when_the_log_says_so(checkout: Checkout) -> None:
    code, shown = checkout.run()
    assert code == 0, shown
    assert "[12/12] Nothing is left" in shown
    assert shown.index("saved step 60") < shown.index("$ slipway yard kill-node bert_pretrain 1")
    assert shown.index("[0] done") > shown.index("$ slipway yard kill-node bert_pretrain 1")
    checkout.assert_nothing_is_left()


def test_on_a_mac_one_line_says_that_it_needs_linux(checkout: Checkout) -> None:
    uname = checkout.folder / "mac" / "uname"
    uname.parent.mkdir()
    uname.write_text("#!/bin/sh\necho Darwin\n")
    uname.chmod(0o755)
    code, shown = checkout.run(PATH=f"{uname.parent}:{os.environ['PATH']}")
    assert (code, shown.count("\n")) == (1, 1), shown
    assert shown.startswith("error: this script needs Linux, and this machine is Darwin")


def test_all_six_roads_are_walked_and_each_chapter_says_how_long_it_took(checkout: Checkout) -> None:
    code, shown = checkout.run("--all")
    assert code == 0, shown
    assert "[31/31] Nothing is left" in shown
    assert len(re.findall(r"^took \d+ s$", shown, re.MULTILINE)) == 30
    said = checkout.said()
    assert [
        line.split()[2] for line in said if line.startswith("cdk deploy") and "--concurrency" in line
    ] == [
        "dl1",
        "gpus",
        "c6i",
        "trn1",
        "sagemaker",
        "dl1",
    ]
    assert "slipway yard kill-node ip-4" in said
    submit = next(line for line in said if "submit glue_finetune" in line)
    assert "--set data=s3://bucket/datasets/it --set model=s3://bucket/datasets/it" in submit
    assert "slipway yard kill-node own 1" in said
    assert any(line.startswith("slipway plan run") for line in said)
    checkout.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("roads", "command", "chapter", "of"),
    [
        ([], "cdk bootstrap", 2, 12),
        ([], "build gaudi", 6, 12),
        ([], "submit prepare_bert", 7, 12),
        ([], "logs bert_pretrain", 8, 12),
        (["gpu"], "submit smoke", 4, 6),
        (["c6i"], "glue_finetune .*nodes 2", 5, 8),
        (["c6i"], "status --on c6i", 6, 8),
        (["c6i"], "yard kill-node ip-4", 6, 8),
        (["trn1"], "submit gpt_neox", 5, 7),
        (["sagemaker"], "kill-node own", 4, 7),
        (["sagemaker", "plan"], "plan run", 8, 10),
    ],
)
def test_a_command_that_fails_is_shown_and_ends_the_demo(
    checkout: Checkout, roads: list[str], command: str, chapter: int, of: int
) -> None:
    code, shown = checkout.run(*roads, FAILING=command)
    assert code != 0
    assert "error: the reason" in shown
    assert f"demo: chapter {chapter} of {of} failed" in shown.splitlines()[-1]
    checkout.assert_nothing_is_left()


def test_a_job_that_ends_before_its_node_is_killed_fails_the_chapter(checkout: Checkout) -> None:
    code, shown = checkout.run(REACHED="the job failed early")
    assert code != 0
    assert "the job failed early" in shown
    assert "bert_pretrain ended without a line 'saved step 60', and no node was killed" in shown
    assert not any("kill-node" in line for line in checkout.said())


def test_without_the_programs_of_a_road_it_says_so_and_leaves_its_chapters_out(checkout: Checkout) -> None:
    code, shown = checkout.run("c6i", "sagemaker", MISSING="openmpi-bin openssh-server")
    assert code == 0, shown
    assert (
        "demo: chapters 3 to 7 (c6i) are left out; they need: sudo apt-get install openmpi-bin openssh-server"
        in shown.splitlines()
    )
    assert "[8/12] SageMaker" in shown
    assert "[12/12]" in shown
    assert not any("c6i" in line for line in checkout.said() if not line.startswith("cdk"))


def test_a_road_that_there_is_not_is_refused_with_those_that_there_are(checkout: Checkout) -> None:
    code, shown = checkout.run("dl1", "p4d")
    assert (code, shown) == (
        2,
        "error: there is no road 'p4d'; allowed are dl1 gpu c6i trn1 sagemaker plan, and --all\n",
    )


@pytest.mark.parametrize(
    ("roads", "command", "way", "code", "chapter"),
    [
        ([], "cdk bootstrap", "Ctrl-C", 130, "2 of 12"),
        ([], "cdk deploy dl1 --req", "closed terminal", 129, ""),
        ([], "logs bert_pretrain", "closed terminal", 129, ""),
        ([], "cdk diff", "Ctrl-C", 130, "10 of 12"),
        (["c6i"], "slipway estimate", "SIGINT", 130, "3 of 8"),
        (["c6i"], "logs doomed", "Ctrl-C", 130, "6 of 8"),
        (["sagemaker"], "logs own", "SIGTERM", 143, "4 of 7"),
        (["plan"], "plan run", "closed terminal", 129, ""),
        ([], "slipway cluster list$", "SIGTERM", 143, "12 of 12"),
    ],
)
def test_interrupted_at_any_chapter_it_leaves_nothing_and_says_so(
    checkout: Checkout, roads: list[str], command: str, way: str, code: int, chapter: str
) -> None:
    demo = Running([*checkout.command(), *roads], checkout.environment(HANGING=command))
    until(lambda: any("sleep 1000" in line for line in checkout.processes()))
    assert demo.interrupt(way) == code
    last_line = demo.said.decode().rstrip().split("\r\n")[-1] if chapter else ""
    assert last_line == (chapter and f"demo: interrupted in chapter {chapter}; {GONE}")
    checkout.assert_nothing_is_left()


def test_a_second_ctrl_c_ends_what_does_not_heed_the_first(checkout: Checkout) -> None:
    demo = Running(checkout.command(), checkout.environment(HANGING="yard up", STUBBORN="yes"))
    until(lambda: any("sleep 1000" in line for line in checkout.processes()))
    os.write(demo.terminal, b"\x03")
    until(lambda: any("sleep 0.1" in line for line in checkout.processes()))  # it has handled the first
    began = time.monotonic()
    assert demo.interrupt("Ctrl-C") == 130
    assert time.monotonic() - began < 8, "after ten seconds the end comes by itself"
    checkout.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("words", "way"),
    [
        ("$ slipway yard up", "SIGTERM"),
        ("$ cdk bootstrap", "closed terminal"),
        ("$ cdk bootstrap", "SIGKILL"),
    ],
)
def test_the_real_demo_interrupted_leaves_no_yard(tmp_path: Path, words: str, way: str) -> None:
    real = Checkout(folder=tmp_path)
    demo = Running([str(ROOT / "scripts" / "demo")], real.environment())
    demo.read_until(words)
    demo.interrupt(way)
    until(lambda: not real.processes())
    assert way == "SIGKILL" or not list((tmp_path / "tmp").iterdir())
