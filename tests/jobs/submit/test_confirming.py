"""BI-172: a job that may cost more than was agreed to is sent only after another yes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from slipway.jobs import output
from slipway.jobs.cloud import aws
from slipway.jobs.platforms.platform import Prepared
from slipway.jobs.submit.submission import Unconfirmed, submit
from slipway.jobs.words.job import Job
from slipway.jobs.words.recipes import find_recipe
from slipway.jobs.words.run import Agreed, Cost, cost, on_demand_price_of, price_of
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import job_names
from tests.jobs.words.test_targets import SLURM_TARGET
from tests.yard.conftest import RunningYard

JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, timeout_seconds=3600 * 2, attempts=3)
# 2 nodes, 2 hours, 3 attempts of a type at 13.11 USD an hour.
ASKED = ("--nodes", "2", "--timeout-hours", "2", "--attempts", "3")
ARGUMENTS = ("submit", "bert_pretrain", "--on", "dl1", *ASKED)
MANIFEST = '{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}'

Answer = Callable[[str], None]


@dataclass(frozen=True)
class NoRequest:
    name: str = "bert"


@pytest.fixture
def as_on_aws(yard_shell: RunningYard, target: BatchTarget, monkeypatch: pytest.MonkeyPatch) -> RunningYard:
    """Treat the yard as AWS, where machines cost money and the image has to be pushed."""
    monkeypatch.setattr(aws, "is_in_yard", lambda: False)
    yard_shell.client("ecr").put_image(
        repositoryName="dl1", imageManifest=MANIFEST, imageTag=target.image_tag
    )
    return yard_shell


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Let a user at a terminal type this answer to a question."""

    def answer(typed: str) -> None:
        monkeypatch.setattr(output, "can_ask", lambda: True)
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: typed)

    return answer


def test_without_a_terminal_it_is_refused_with_the_estimate_and_what_to_say(
    as_on_aws: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    err = slipway.refused(*ARGUMENTS)
    assert "may cost up to 157.31 USD (12 node-hours at 13.10904 USD on demand, us-east-1, 2026-" in err
    assert "but you agreed to 100.00 USD at most\nhint: --confirm-cost 158, or fewer --nodes" in err
    assert job_names(as_on_aws, target) == []


def test_a_job_on_spot_costs_at_most_what_it_does_on_demand_and_says_what_it_costs_about() -> None:
    target = replace(SLURM_TARGET, instance_type="p4d.24xlarge", is_spot=True)
    prepared = Prepared(
        job=JOB,
        recipe=find_recipe("bert_pretrain"),
        target=target,
        request=NoRequest(),
        build=lambda _job: NoRequest(),
        image="",
        image_digest=None,
        waits_for=(),
        attempts=3,
        warnings=(),
    )
    listed, paid = on_demand_price_of(target), price_of(target)
    assert listed is not None
    assert paid is not None
    assert prepared.ceiling.usd == pytest.approx(12 * listed.usd_per_hour)
    assert prepared.ceiling.words.startswith("up to ")
    assert prepared.bought == cost(2, 6 * 3600, paid).words
    assert replace(prepared, target=replace(target, is_spot=False)).bought is None


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
    assert slipway.json(*asked, "--dry-run")["ceiling"]["usd"] == pytest.approx(157.31, abs=0.01)
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
