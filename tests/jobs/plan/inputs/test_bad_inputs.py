"""A plan that cannot be is refused in one line that says what to do; all else is planned; nothing hangs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.jobs.plan.inputs.files import decode_plan_file, load_json, read_plan_file
from slipway.jobs.plan.inputs.planning import plan
from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.model import Mode, PlanJob, Pool
from slipway.jobs.plan.search.refusals import CannotPlan
from slipway.jobs.words.errors import SlipwayError
from tests.jobs.conftest import Slipway
from tests.jobs.plan.inputs.instances import Instance, instance, job, mode, planned, pool


def only(*modes: Instance, **fields: Any) -> Instance:
    return instance(job("a", *modes, **fields))


# The row of docs/bad-inputs.md, the instance, the plan's options, and words of the refusal.
REFUSED: dict[str, tuple[str, Instance, Instance, str]] = {
    "too many devices": ("BI-220", only(mode(16)), {}, "fits no pool: the least it takes is ddp on 16"),
    "no whole nodes": ("BI-220", only(mode(6)), {}, "beyond one node takes whole nodes of 4"),
    "nodes that are not joined": (
        "BI-220",
        instance(job("gang", mode(8)), pools=[pool(spans_nodes=False)]),
        {},
        "no EFA to join several",
    ),
    "another type": ("BI-221", only(mode(type_name="p4e")), {}, "it runs on p4e, and the pools have p4d"),
    "no jobs": ("BI-222", {"pools": [pool()], "jobs": []}, {}, "there are no jobs to plan"),
    "too many jobs": (
        "BI-188",
        instance(*(job(f"job{place}") for place in range(10_001))),
        {},
        "there are 10001 jobs; at most 10000 are planned together",
    ),
    "no pools": ("BI-222", instance(pools=[]), {}, "there are no pools"),
    "no modes": ("BI-222", instance({"name": "a", "modes": []}), {}, "job 'a' has 0 modes"),
    "negative seconds": ("BI-223", only(mode(1, -5)), {}, "seconds is -5; allowed is 1 to"),
    "no seconds": ("BI-223", only(mode(1, 0)), {}, "seconds is 0; allowed is 1 to"),
    "NaN": ("BI-223", only(mode(1, math.nan)), {}, "jobs[0].modes[0].seconds is nan"),
    "infinity": ("BI-223", only(mode(1, math.inf)), {}, "seconds is inf; allowed is a finite"),
    "a stand-in for infinity": ("BI-223", only(mode(1, 1e18)), {}, "allowed is 1 to 1000000000"),
    "a number as a text": ("BI-223", only(mode(1, "9")), {}, "seconds is '9'; allowed is a finite"),
    "half a device": ("BI-223", only(mode(1.5)), {}, "devices is 1.5; allowed is a whole"),
    "no device": ("BI-223", only(mode(0)), {}, "devices is 0; allowed is 1 to"),
    "a number nobody can read": ("BI-223", only(mode(10**400)), {}, "a number of 401 digits"),
    "a short deadline": ("BI-224", instance(), {"deadline": 59}, "no plan ends before 60 s"),
    "a short deadline of a job": ("BI-224", only(mode(2, 60), deadline=59), {}, "mode ends at 60 s"),
    "a deadline after another job": (
        "BI-224",
        instance(job("a", deadline=119, depends_on=["b"]), job("b")),
        {},
        "its fastest mode after the jobs that it waits for ends at 120 s",
    ),
    "a small budget": ("BI-225", instance(), {"budget": 0.1}, "no plan costs less than 0.25"),
    "no budget": ("BI-225", instance(), {"budget": math.nan}, "the budget is nan dollars"),
    "two jobs of one name": ("BI-226", instance(job("a"), job("a")), {}, "2 jobs are named 'a'"),
    "no name": ("BI-226", instance(job("")), {}, "job 0 is named ''; allowed is 1 to 200"),
    "two lines": ("BI-226", instance(job("a\nerror: forged")), {}, r"named 'a\nerror: forged'"),
    "a long name": ("BI-226", instance(job("a" * 201)), {}, "allowed is 1 to 200 characters"),
    "no nodes": ("BI-227", instance(pools=[pool(nodes=0)]), {}, "nodes is 0; allowed is 1 to 10000"),
    "too many nodes": ("BI-227", instance(pools=[pool(nodes=10**9)]), {}, "nodes is 1000000000; allowed"),
    "no devices": ("BI-227", instance(pools=[pool(devices_per_node=0)]), {}, "devices_per_node is 0"),
    "a negative price": ("BI-227", instance(pools=[pool(price_per_hour=-1)]), {}, "price_per_hour is -1.0"),
    "more interruptions than time": (
        "BI-227",
        instance(pools=[pool(spot=True, interruptions_per_hour=1e6, rework_seconds=10**9)]),
        {},
        "1e+06 interruptions an hour take 1000000000 s each",
    ),
    "a circle": (
        "BI-228",
        instance(job("a", depends_on=["b"]), job("b", depends_on=["a"])),
        {},
        "jobs wait for each other in a circle: a after b after a",
    ),
    "a job that waits for itself": ("BI-228", only(depends_on=["a"]), {}, "in a circle: a after a"),
    "a stranger to wait for": ("BI-228", only(depends_on=["b"]), {}, "there is no such job"),
    "a list of lists": ("BI-229", {"pools": [], "jobs": [[]]}, {}, "jobs[0] is a list; allowed is an object"),
    "no list": ("BI-229", {"pools": {}}, {}, "pools is an object; allowed is a list"),
    "nothing": ("BI-229", {}, {}, "the file has no pools"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line(name: str) -> None:
    _, found, options, said = REFUSED[name]
    with pytest.raises(CannotPlan) as refused:
        planned(found, **options)
    assert said in refused.value.message
    assert refused.value.hint
    assert refused.value.exit_code == 2
    assert "\n" not in refused.value.message + refused.value.hint


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"pools: none", "is not JSON: Expecting value (line 1, column 1)"),
    "a broken file": (b'{"jobs": [', "is not JSON"),
    "a binary file": (bytes(range(256)), "is not UTF-8 text"),
    "an empty file": (b"", "is not JSON"),
    "a list": (b"[]", "must hold an object"),
    "one key twice": (b'{"jobs": [], "jobs": []}', "the key 'jobs' appears twice"),
    "nested without end": (b"[" * 100_000, "cannot be read"),
    "a number without end": (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_nobody_can_read_is_one_line(name: str, tmp_path: Path, slipway: Slipway) -> None:
    """BI-229."""
    content, said = UNREADABLE[name]
    path = tmp_path / "jobs.json"
    path.write_bytes(content)
    err = slipway.refused("plan", "make", str(path), code=2)
    assert said in err
    assert [line.partition(":")[0] for line in err.splitlines()] == ["error", "hint"]


def test_a_file_that_is_missing_or_no_file_is_one_line(tmp_path: Path, slipway: Slipway) -> None:
    """BI-229."""
    for path, said in ((tmp_path / "jobs.json", "does not exist"), (tmp_path, "is a folder")):
        assert said in slipway.told("plan", "make", str(path), code=2)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--deadline", "soon", "'soon' is no time of a second or more"),
        ("--deadline", "-3h", "is no time"),
        ("--deadline", "0", "is no time"),
        ("--budget", "nan", "nan is not a finite number"),
        ("--time-limit", "inf", "inf is not in the range"),
        ("--gap", "-1", "-1 is not in the range"),
        ("--objective", "fun", "'fun' is not one of"),
        ("--explain", "b", "there is no job 'b' to explain"),
    ],
)
def test_an_option_that_says_nothing_is_one_line(
    option: str, value: str, said: str, tmp_path: Path, slipway: Slipway
) -> None:
    """BI-230."""
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(instance()))
    assert said in slipway.refused("plan", "make", str(path), option, value, code=2).replace(".0 ", " ")


def test_a_mode_that_is_slower_with_more_devices_is_left_out_and_told(
    tmp_path: Path, slipway: Slipway
) -> None:
    """BI-231."""
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(only(mode(1, 100), mode(2, 120), mode(4, 30))))
    code, out, err = slipway("plan", "make", str(path), "--json", "--time-limit", "0.5")
    assert code == 0
    assert "job 'a': ddp on 2 devices of p4d is left out: with 1 it takes no longer" in err
    assert json.loads(out)["makespan"] == 30


def test_a_field_that_nobody_knows_is_told_once(tmp_path: Path, slipway: Slipway) -> None:
    """BI-231."""
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(instance(job("a", deadlin=5), job("b", deadlin=5), known_optimum=60)))
    err = slipway.told("plan", "make", str(path), "--time-limit", "0.5")
    assert err.count("jobs[0].deadlin is no field of a plan and is ignored") == 1
    assert "jobs[1]" not in err
    assert "known_optimum" not in err


LONG = (job("giant", mode(1, 900_000)), *(job(f"j{place}", mode(1, 60)) for place in range(20)))
HOSTILE = (job(name, mode(4, 9)) for name in ("<script>alert(1)</script>", "$(reboot)", "名前 🚀"))
PLANNED: dict[str, Callable[[], tuple[Instance, int]]] = {
    "one job": lambda: (instance(), 60),
    "one job that takes longer than all others together": lambda: (instance(*LONG), 900_000),
    "seconds beside days": lambda: (
        instance(job("days", mode(4, 600_000)), job("seconds", mode(1, 3)), job("less", mode(1, 0.25))),
        600_000,
    ),
    "hostile names": lambda: (instance(*HOSTILE), 18),
    "devices as 4.0": lambda: (only(mode(4.0, 9)), 9),
}


@pytest.mark.parametrize("name", PLANNED)
def test_it_is_odd_and_planned_right(name: str) -> None:
    """BI-232."""
    found, makespan = PLANNED[name]()
    assert planned(found).makespan == makespan


def test_a_thousand_identical_jobs_are_planned() -> None:
    """BI-232."""
    found = planned(instance(*(job(f"j{place}", mode(1, 60)) for place in range(1000))))
    assert found.makespan == 125 * 60
    assert found.bound.value == 125 * 60


def test_what_a_python_program_says_is_judged_alike() -> None:
    """BI-223, without a file."""
    bad: Any = math.nan
    modes = (Mode(technique="ddp", type="p4d", devices=1, seconds=bad),)
    pools = [Pool(type="p4d", nodes=1, devices_per_node=8, price_per_hour=32.0)]
    with pytest.raises(CannotPlan, match="seconds: is nan; allowed is a whole number"):
        plan([PlanJob(name="a", modes=modes)], pools)
    with pytest.raises(CannotPlan, match="objective is 'fun'; allowed is makespan or cost"):
        plan([PlanJob(name="a", modes=modes)], pools, objective="fun")


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.integers(min_value=0, max_value=9),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["a", "b", "p4d", "3h", [], {}, [1], ["a"], [{}]]),
)


def places_in(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List every place in an instance."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inside = [place for key, inner in items for place in places_in(inner, (*path, key))]
    return [path, *inside] if path else inside


def damage(whole: Instance, data: st.DataObject) -> None:
    """Change or delete one value anywhere."""
    *path, last = data.draw(st.sampled_from(places_in(whole)))
    holder: Any = whole
    for key in path:
        holder = holder[key]
    if data.draw(st.booleans()):
        holder[last] = data.draw(ODD)
    else:
        del holder[last]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_instance_is_planned_right_or_refused_in_a_line(data: st.DataObject) -> None:
    """BI-233."""
    whole = instance(
        job("a", mode(1, 50), mode(2, 30), depends_on=["b"], deadline=500, priority=1),
        job("b", mode(4, 20)),
        job("c", mode(8, 40)),
        pools=[pool(spot=True, interruptions_per_hour=0.1, rework_seconds=60), pool(type="p3", nodes=1)],
    )
    for _ in range(data.draw(st.integers(1, 2))):
        damage(whole, data)
    try:
        inputs = decode_plan_file(load_json(json.dumps(whole), Path("x.json")), "x")
        found = plan(inputs.jobs, inputs.pools, time_limit=0.05)
    except SlipwayError as error:
        refused = error.message
    else:
        refused = ""
        check(found)
        assert {each.job for each in found.assignments} == {each["name"] for each in whole["jobs"]}
    assert "\n" not in refused
    assert len(refused) < 400


def test_the_shared_kind_of_file_is_read_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text(json.dumps({"name": "mix", "known_optimum": 100, **instance()}))
    assert read_plan_file(path).notes == ()
