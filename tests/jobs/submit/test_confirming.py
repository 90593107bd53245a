"""BI-172: a job that may cost more than was agreed to is sent by nobody who did not say so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slipway.jobs import output
from slipway.jobs.cloud import aws
from slipway.jobs.submit.submission import Unconfirmed, submit
from slipway.jobs.words.job import Job
from slipway.jobs.words.run import Agreed, Cost
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import job_names
from tests.yard.conftest import RunningYard

JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, timeout_seconds=3600 * 2, attempts=3)
# 2 nodes, 2 hours, 3 attempts of a type at 13.11 USD an hour.
ASKED = ("--nodes", "2", "--timeout-hours", "2", "--attempts", "3")
ARGUMENTS = ("submit", "bert_pretrain", "--on", "dl1", *ASKED)
MANIFEST = '{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}'

Answer = Callable[[str], None]


@pytest.fixture
def as_on_aws(yard_shell: RunningYard, target: BatchTarget, monkeypatch: pytest.MonkeyPatch) -> RunningYard:
    """The yard, taken for AWS: machines cost money there, and the image has to be pushed."""
    monkeypatch.setattr(aws, "is_in_yard", lambda: False)
    yard_shell.client("ecr").put_image(
        repositoryName="dl1", imageManifest=MANIFEST, imageTag=target.image_tag
    )
    return yard_shell


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Somebody sits at a terminal and types this to a question."""

    def answer(typed: str) -> None:
        monkeypatch.setattr(output, "can_ask", lambda: True)
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: typed)

    return answer


def test_without_a_terminal_it_is_refused_with_the_estimate_and_what_to_say(
    as_on_aws: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    err = slipway.refused(*ARGUMENTS)
    assert "may cost up to 157.31 USD (12 node-hours at 13.10904 USD on demand, us-east-1, 2026-" in err
    assert "but you agreed to 100 USD at most\nhint: --confirm-cost 158, or fewer --nodes" in err
    assert job_names(as_on_aws, target) == []


@pytest.mark.parametrize(("amount", "code"), [("158", 0), ("157", 1)])
@pytest.mark.parametrize("where", ["option", "environment"])
def test_what_is_confirmed_is_an_amount_and_a_job_that_was_sent_is_not_asked_about_again(
    as_on_aws: RunningYard,
    target: BatchTarget,
    slipway: Slipway,
    monkeypatch: pytest.MonkeyPatch,
    amount: str,
    code: int,
    where: str,
) -> None:
    asked = (*ARGUMENTS, "--confirm-cost", amount) if where == "option" else ARGUMENTS
    if where == "environment":
        monkeypatch.setenv("SLIPWAY_CONFIRM_COST", amount)
    assert slipway.json(*asked, "--dry-run")["ceiling"]["usd"] == 157.31
    assert slipway(*asked)[0] == code
    assert len(job_names(as_on_aws, target)) == 1 - code
    assert slipway(*ARGUMENTS)[0] == code
    assert len(job_names(as_on_aws, target)) == 1 - code


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_at_a_terminal_it_is_asked(
    as_on_aws: RunningYard, target: BatchTarget, slipway: Slipway, answer: Answer, typed: str, code: int
) -> None:
    answer(typed)
    assert bool(slipway(*ARGUMENTS)[0]) == bool(code)
    assert len(job_names(as_on_aws, target)) == 1 - code


def test_a_price_that_is_not_known_is_not_nothing(
    as_on_aws: RunningYard, target: BatchTarget, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "slipway.jobs.platforms.platform.cost", lambda *_: Cost(usd=None, node_hours=12.0, price=None)
    )
    err = slipway.told(*ARGUMENTS, "--confirm-cost", "1000000", code=1)
    assert "may cost an amount that is not known (12 node-hours at no known price)" in err
    assert "hint: --confirm-cost unknown" in err
    assert job_names(as_on_aws, target) == []
    slipway.told(*ARGUMENTS, "--confirm-cost", "unknown")


def test_python_says_it_too_and_nothing_in_the_yard_costs_money(
    as_on_aws: RunningYard, target: BatchTarget, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unconfirmed):
        submit(JOB, "dl1")
    assert job_names(as_on_aws, target) == []
    submit(JOB, "dl1", agreed=Agreed(usd=158))
    assert len(job_names(as_on_aws, target)) == 1
    monkeypatch.setattr(aws, "is_in_yard", lambda: True)
    assert slipway.printed(*ARGUMENTS, "--processes-per-node", "1").count("157.31") == 1
