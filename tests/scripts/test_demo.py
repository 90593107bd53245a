"""The demo shows what fails, waits for nothing in vain, and leaves no process wherever it is interrupted.

Its text is run here with programs that only take notes; one test interrupts the real ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scripts.checkouts import ROOT, Checkout, Running, make_checkout, wait_until


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return make_checkout(tmp_path)


def test_every_chapter_is_walked_and_the_kills_come_when_the_log_says_so(checkout: Checkout) -> None:
    code, shown = checkout.run()
    assert code == 0, shown
    assert "[18/18] Nothing is left" in shown
    assert shown.index("saved step 60") < shown.index("$ slipway yard kill-node bert_pretrain 1")
    assert shown.index("[0] done") > shown.index("$ slipway yard kill-node bert_pretrain 1")
    assert "slipway yard kill-node ip-4" in checkout.said()
    submit = next(line for line in checkout.said() if "submit glue_finetune" in line)
    assert "--set data=s3://bucket/datasets/it --set model=s3://bucket/datasets/it" in submit
    checkout.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("command", "chapter"),
    [
        ("yard up", 1),
        ("cdk bootstrap", 2),
        ("build gaudi", 7),
        ("submit prepare_bert", 8),
        ("logs bert_pretrain", 9),
        ("yard kill-node bert", 9),
        ("slipway upload", 15),
        ("glue_finetune .*nodes 2", 15),
        ("--name doomed", 16),
        ("status --on c6i", 16),
        ("yard kill-node ip-4", 16),
    ],
)
def test_a_command_that_fails_is_shown_and_ends_the_demo(
    checkout: Checkout, command: str, chapter: int
) -> None:
    code, shown = checkout.run(FAILING=command)
    assert code != 0
    assert "error: the reason" in shown
    assert f"demo: chapter {chapter} of 18 failed" in shown.splitlines()[-1]
    checkout.assert_nothing_is_left()


def test_a_job_that_ends_before_its_node_is_killed_fails_the_chapter(checkout: Checkout) -> None:
    code, shown = checkout.run(REACHED="the job failed early")
    assert code != 0
    assert "the job failed early" in shown
    assert "bert_pretrain ended without a line 'saved step 60', and no node was killed" in shown
    assert not any("kill-node" in line for line in checkout.said())


def test_without_programs_of_the_second_road_it_says_so_first_and_leaves_its_chapters_out(
    checkout: Checkout,
) -> None:
    code, shown = checkout.run(MISSING="openmpi-bin openssh-server")
    assert code == 0, shown
    assert shown.splitlines()[0] == (
        "demo: chapters 13 to 17 (four machines over MPI) are left out; "
        "they need: sudo apt-get install openmpi-bin openssh-server"
    )
    assert "[12/18]" in shown
    assert "[18/18]" in shown
    assert not any("c6i" in line for line in checkout.said() if not line.startswith("cdk"))


@pytest.mark.parametrize(
    ("road", "other", "chapters"),
    [("dl1", "c6i", ("[3/18]", "[12/18]")), ("c6i", "dl1", ("[13/18]", "[17/18]"))],
)
def test_one_road_is_walked_alone(
    checkout: Checkout, road: str, other: str, chapters: tuple[str, str]
) -> None:
    code, shown = checkout.run(road)
    assert code == 0, shown
    assert all(chapter in shown for chapter in (*chapters, "[18/18] Nothing is left"))
    assert not any(f"cdk deploy {other}" in line for line in checkout.said())


def test_a_road_that_there_is_not_is_refused_with_those_that_there_are(checkout: Checkout) -> None:
    code, shown = checkout.run("p4d")
    assert (code, shown) == (
        2,
        "error: there is no road 'p4d'; allowed are dl1 and c6i, and neither for both\n",
    )


@pytest.mark.parametrize(
    ("command", "way", "code"),
    [
        ("yard up", "SIGTERM", 143),
        ("cdk bootstrap", "Ctrl-C", 130),
        ("preflight", "SIGHUP", 129),
        ("cdk deploy dl1 --req", "closed terminal", 129),
        ("slipway clusters dl1", "SIGINT", 130),
        ("build gaudi", "SIGTERM", 143),
        ("submit prepare_bert", "Ctrl-C", 130),
        ("logs bert_pretrain", "closed terminal", 129),
        ("kill-node bert_pretrain", "SIGTERM", 143),
        ("slipway curve", "SIGHUP", 129),
        ("cdk diff", "Ctrl-C", 130),
        ("empty dl1", "SIGTERM", 143),
        ("slipway estimate", "SIGINT", 130),
        ("yard hosts", "Ctrl-C", 130),
        ("glue_finetune .*nodes 4", "SIGTERM", 143),
        ("logs doomed", "Ctrl-C", 130),
        ("status --on c6i", "SIGHUP", 129),
        ("cdk destroy c6i", "closed terminal", 129),
        ("slipway clusters$", "SIGTERM", 143),
    ],
)
def test_interrupted_at_any_chapter_it_leaves_nothing(
    checkout: Checkout, command: str, way: str, code: int
) -> None:
    demo = Running(checkout.command(), checkout.environment(HANGING=command))
    wait_until(lambda: any("sleep 1000" in line for line in checkout.processes()))
    assert demo.interrupt(way) == code
    checkout.assert_nothing_is_left()


def test_a_second_ctrl_c_ends_what_does_not_heed_the_first(checkout: Checkout) -> None:
    demo = Running(checkout.command(), checkout.environment(HANGING="yard up", STUBBORN="yes"))
    wait_until(lambda: any("sleep 1000" in line for line in checkout.processes()))
    os.write(demo.terminal, b"\x03")
    assert demo.interrupt("Ctrl-C") == 130
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
    wait_until(lambda: not real.processes())
    assert way == "SIGKILL" or not list((tmp_path / "tmp").iterdir())
