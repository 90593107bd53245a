"""A job is checked before anything is sent or paid for, and every mistake is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.words.catalogue.instances import Price
from slipway.jobs.words.job import (
    JOB_PREFIXES,
    LONGEST_NAME,
    DoesNotFit,
    InvalidJob,
    Job,
    parse_settings,
    refuse_unreachable_inputs,
    submission_name,
    unreadable_inputs,
)
from slipway.jobs.words.run import Agreed, Cost, NoAmount, cost, parse_agreed
from tests.jobs.words.test_targets import SAGEMAKER_TARGET, TARGET

JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, settings={"size": "tiny"})
PLACE = (TARGET, "gaudi:1")


@pytest.mark.parametrize(
    "name",
    [
        "-rf",
        "--help",
        "a; rm -rf /",
        "x\n#SBATCH --uid=0",
        "a.b",
        "a b",
        "",
        "naïve",
        "x" * (LONGEST_NAME + 1),
    ],
)
def test_a_name_that_something_could_take_for_more_than_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidJob, match="a name is 1 to 50 letters"):
        replace(JOB, name=name)


@pytest.mark.parametrize("key", ["--config=/etc/shadow", "a b", "", "a-b", "ключ", "1st", "a\n", "a" * 65])
def test_a_setting_is_named_by_an_identifier(key: str) -> None:
    with pytest.raises(InvalidJob, match="no name of a setting"):
        replace(JOB, settings={key: "1"})


@pytest.mark.parametrize("value", ["a\nb", "a\x00b", "\x1b[31m", "\x7f", "\ud800", "a\rb", "\x85"])
def test_a_control_character_in_a_value_is_refused_with_its_number(value: str) -> None:
    with pytest.raises(InvalidJob, match=r"control character U\+"):
        replace(JOB, settings={"size": value})


@pytest.mark.parametrize(
    "value", ["@file", "-x", "$(rm -rf /)", "; ls", "`id`", "größe", "模型", "a=b=c", "", " "]
)
def test_shell_and_foreign_characters_in_a_value_are_what_they_are(value: str) -> None:
    assert replace(JOB, settings={"size": value}).settings["size"] == value


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 0}, "--nodes: is 0; allowed is 1 to 1000"),
        ({"nodes": 1001}, "--nodes: is 1001"),
        ({"processes_per_node": 0}, "--processes-per-node: is 0; allowed is 1 to 1024"),
        ({"attempts": 0}, "--attempts: is 0; allowed is 1 to 10; 1 is no retry"),
        ({"attempts": 11}, "--attempts: is 11"),
        ({"array": "1-3"}, "--array: '1-3' is no array; allowed is 0-1 to 0-999, and 0-15%4"),
        ({"array": "0"}, "--array: '0' is no array"),
        ({"array": "0-1000"}, "--array: '0-1000' is no array"),
        ({"array": "0-3%0"}, "--array: '0-3%0' is no array"),
        ({"timeout_seconds": 59}, "is 59; allowed is 60"),
        ({"data": "../etc"}, "--data: '../etc' climbs out of its folder"),
        ({"data": "s3://bucket/a/../../b"}, "climbs out"),
        ({"checkpoints": "s3:/bucket/a"}, "--checkpoints: 's3:/bucket/a' is neither a path nor a URL"),
        ({"data": "S3://bucket/a"}, "is neither a path nor a URL; write s3://BUCKET/KEY"),
        ({"data": ""}, "--data: has 0 characters"),
        ({"settings": {"size": "Ref::size"}}, "which AWS Batch would replace"),
        ({"depends_on": ("",)}, "--depends-on: '' is not a job's name or id"),
        ({"depends_on": ("a\nb",)}, "--depends-on: .* is not a job's name or id"),
        ({"depends_on": ("a",) * 21}, "--depends-on: names 21 jobs; at most 20 are allowed"),
        ({"checkpoints": "a\nb"}, r"--checkpoints: 'a\\nb' holds the control character"),
    ],
)
def test_what_no_platform_takes_is_refused_with_what_is_allowed(
    changes: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidJob, match=said):
        replace(JOB, **changes)  # type: ignore[arg-type]  # the parameters are fields of a job


def test_every_mistake_is_said_at_once() -> None:
    with pytest.raises(InvalidJob) as refusal:
        Job(name="a b", recipe="bert_pretrain", nodes=0, settings={"a b": "\n"}, data="..")
    assert len(refusal.value.problems) == 5


@pytest.mark.parametrize(("texts", "said"), [(("size",), "has no '='"), (("a=1", "a=2"), "'a' is set twice")])
def test_a_setting_that_cannot_be_read_is_refused(texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        parse_settings(texts)
    assert parse_settings(("a=b=c", "d=")) == {"a": "b=c", "d": ""}


def test_another_job_has_another_name_and_the_same_has_the_same() -> None:
    one = replace(JOB, settings={"a": "1", "b": "2"})
    same = replace(JOB, settings={"b": "2", "a": "1"}, depends_on=("data",))
    name = submission_name(one, *PLACE)
    assert submission_name(same, *PLACE) == name
    others = [
        replace(one, nodes=3),
        replace(one, settings={"a": "1", "b": "3"}),
        replace(one, repeat=1),
        replace(one, data="x"),
        replace(one, attempts=1),
    ]
    names = {submission_name(other, *PLACE) for other in others} | {submission_name(one, TARGET, "gaudi:2")}
    assert len(names | {name}) == len(others) + 2


@given(name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}", fullmatch=True), values=st.text(max_size=50))
def test_every_derived_name_is_one_that_every_platform_takes(name: str, values: str) -> None:
    try:
        job = replace(JOB, name=name, settings={"size": values})
    except InvalidJob:
        return
    derived = submission_name(job, *PLACE)
    assert len(derived) <= 63
    assert derived.startswith(f"{name}-")


# The places that a job may read are told before it costs anything, and its role allows them.


def warned(value: str) -> list[str]:
    job = Job(name="p", recipe="prepare_bert", nodes=1, settings={"input": value, "phase": "1"})
    return list(unreadable_inputs(job, TARGET))


@pytest.mark.parametrize("prefix", JOB_PREFIXES)
def test_what_the_role_may_read_needs_no_word(prefix: str) -> None:
    assert warned(f"s3://{TARGET.bucket}/{prefix}wiki") == []
    assert warned(f"s3://{TARGET.bucket}/{prefix.rstrip('/')}") == []
    assert warned("wikicorpus") == []


@pytest.mark.parametrize("place", ["s3://elsewhere/datasets/wiki", f"s3://{TARGET.bucket}/wiki"])
def test_what_it_may_not_read_is_said_with_a_way_out(place: str) -> None:
    (line,) = warned(place)
    assert line.startswith(f"input is {place}, and the role of jobs on {TARGET.name} may read only ")
    assert f"aws s3 sync {place} s3://{TARGET.bucket}/datasets/input" in line
    assert "\n" not in line
    (line,) = unreadable_inputs(Job(name="bert", recipe="bert_pretrain", nodes=1, data=place), TARGET)
    assert line.startswith(f"--data is {place}, and the role of jobs on dl1 may read only")
    assert line.count("datasets/data") == 1


@pytest.mark.parametrize("place", ["https://example.com/wiki.txt", "HTTP://example.com/wiki.txt"])
def test_a_url_is_refused_where_the_nodes_reach_no_internet(place: str) -> None:
    job = Job(name="p", recipe="prepare_bert", nodes=1, settings={"input": place})
    with pytest.raises(DoesNotFit, match="reach no internet") as refused:
        refuse_unreachable_inputs(job, TARGET)
    assert f"slipway cluster upload FILE --on {TARGET.name}" in refused.value.hint
    assert f"-c {TARGET.name}.egress=nat" in refused.value.hint
    refuse_unreachable_inputs(job, replace(TARGET, has_internet=True))


def test_secrets_are_refused_where_only_s3_is_reached() -> None:
    job = Job(name="p", recipe="command", nodes=1, settings={"secrets": '{"KEY": "mine"}'})
    refuse_unreachable_inputs(job, TARGET)
    with pytest.raises(DoesNotFit, match="Secrets Manager, which jobs of gptj do not reach"):
        refuse_unreachable_inputs(job, SAGEMAKER_TARGET)
    refuse_unreachable_inputs(job, replace(SAGEMAKER_TARGET, has_internet=True))


# An unknown cost is never taken for zero, and a user agrees to an amount of money.
PRICE = Price(usd_per_hour=12.5, region="us-east-1", date="2026-07-20", source="a list")


def test_an_amount_covers_what_costs_as_much_at_most() -> None:
    ceiling = cost(2, 7200, PRICE)
    assert (ceiling.usd, ceiling.node_hours) == (50.0, 4.0)
    assert Agreed(usd=50.0).covers(ceiling)
    assert not Agreed(usd=49.99).covers(ceiling)
    assert ceiling.words == "up to 50.00 USD (4 node-hours at 12.5 USD on demand, us-east-1, 2026-07-20)"


@pytest.mark.parametrize("ceiling", [cost(2, 3600, None), Cost(usd=None, node_hours=None, price=PRICE)])
def test_no_amount_covers_what_is_not_known(ceiling: Cost) -> None:
    assert not Agreed(usd=1e12).covers(ceiling)
    assert parse_agreed("unknown").covers(ceiling)
    assert not parse_agreed("unknown").covers(cost(2, 3600 * 24, PRICE)), "it is no agreement to an amount"
    assert "an amount that is not known" in ceiling.words


@pytest.mark.parametrize("text", ["0", "-5", "nan", "inf", "", "ten", "1e999", "1\n2", "$5"])
def test_what_is_no_amount_is_refused_with_what_is_allowed(text: str) -> None:
    """BI-172."""
    with pytest.raises(NoAmount, match="give dollars above 0, or 'unknown'"):
        parse_agreed(text)
