"""Python callers get the same refusals as the command line, in one line that names the value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import slipway
from slipway.jobs.plan.search.model import Mode, PlanJob, Pool
from slipway.jobs.plan.search.refusals import CannotPlan
from slipway.jobs.submit.find import find_run, targets_to_search
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import InvalidJob, Job

JOB: dict[str, Any] = {"name": "bert", "recipe": "bert_pretrain", "nodes": 2}
POOL = Pool(type="p4d.24xlarge", nodes=1, devices_per_node=8, price_per_hour=1.0)
MODE = Mode(technique="fsdp", type=POOL.type, devices=1, seconds=10)
PLANNED = PlanJob(name="a", modes=(MODE,))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 1.5}, "nodes: is 1.5; allowed is a whole number"),  # BI-436
        ({"nodes": True}, "nodes: is True; allowed is a whole number"),
        ({"nodes": "2"}, "nodes: is '2'; allowed is a whole number"),  # BI-439
        ({"nodes": None}, "nodes: is None; allowed is a whole number"),
        ({"nodes": 10**5000}, "--nodes: is a value of type int too long to be written; allowed is 1 to 1000"),
        (
            {"nodes": (10**5000,)},
            "nodes: is a value of type tuple too long to be written; allowed is a whole number",
        ),
        ({"nodes": math.nan}, "nodes: is nan; allowed is a whole number"),
        ({"recipe": None}, "recipe: is None; allowed is a text"),
        ({"name": 5}, "name: is 5; allowed is a text"),
        ({"data": 5}, "data: is 5; allowed is a text or null"),
        ({"checkpoints": Path("/a")}, "allowed is a text or null"),
        ({"timeout_seconds": 3600.0}, "timeout_seconds: is 3600.0; allowed is a whole number or null"),
        ({"attempts": "2"}, "attempts: is '2'"),
        ({"array": 3}, "array: is 3"),
        ({"image": b"x"}, "image: is b'x'"),
        ({"repeat": -1}, "repeat: is -1; allowed is 0 to"),
        ({"settings": {"steps": 5}}, "settings['steps']: is 5; allowed is a text"),  # BI-437
        ({"settings": {"size": None}}, "settings['size']: is None; allowed is a text"),
        ({"settings": {5: "a"}}, "settings: is {5: 'a'}; allowed is a mapping from a text to a text"),
        ({"settings": [("steps", "5")]}, "settings: is [('steps', '5')]; allowed is a mapping"),
        ({"settings": None}, "settings: is None; allowed is a mapping"),
        ({"depends_on": "prepare_bert"}, "depends_on: is 'prepare_bert'; allowed is a tuple"),  # BI-438
        ({"depends_on": ("a", 5)}, "depends_on[1]: is 5; allowed is a text"),
        ({"depends_on": None}, "depends_on: is None"),
    ],
)
def test_a_job_takes_no_other_kind_of_value_than_it_says(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        Job(**{**JOB, **changes})
    assert said in refused.value.message
    assert len(refused.value.message) < 200


def test_everything_that_is_wrong_with_a_job_is_said_at_once() -> None:
    with pytest.raises(InvalidJob) as refused:
        Job(**{**JOB, "nodes": 1.5, "data": 5})
    assert refused.value.message.count("\n") == 1


WRONG: tuple[tuple[Callable[[], object], str], ...] = (
    (lambda: slipway.prepare(Job(**JOB), on=None), "on: is None; allowed is a text"),  # type: ignore[arg-type]  # the point
    (lambda: slipway.prepare({"name": "a"}, on="dl1"), "allowed is Job"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.submit(Job(**JOB), on="dl1", region=5), "region: is 5"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.submit(Job(**JOB), on="dl1", agreed=500), "agreed: is 500; allowed is Agreed"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.submit(Job(**JOB), on="dl1", again="no"), "again: is 'no'; allowed is true or false"),  # type: ignore[arg-type]  # likewise
    (lambda: find_run("a", None), "targets: is None"),  # type: ignore[arg-type]  # likewise
    (lambda: targets_to_search(5, None), "on: is 5"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.curve(None), "job: is None"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.calibrate(None), "published: is None; allowed is a text or Path"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.estimate(None, on="dl1"), "recipe: is None"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.estimate("bert-large", on=None), "on: is None"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.estimate("bert-large", on="dl1", nodes=1.5), "nodes: is 1.5; allowed is a whole"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.estimate("bert-large", on="dl1", nodes=True), "nodes: is True"),
    (lambda: slipway.estimate("bert-large", on="dl1", nodes="8"), "nodes: is '8'"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.estimate("bert-large", on="dl1", nodes=[1, "8"]), "nodes[1]: is '8'"),  # type: ignore[list-item]  # likewise
    (lambda: slipway.estimate("bert-large", on="dl1", settings={"zero": 1}), "settings['zero']: is 1"),  # type: ignore[dict-item]  # likewise
    (lambda: slipway.estimate("bert-large", on="dl1", nodes=()), "no size is asked for"),
    (lambda: slipway.plan((job for job in (PLANNED,)), [POOL]), "jobs: is <generator"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.plan([{"name": "a"}], [POOL]), "jobs[0]: is {'name': 'a'}; allowed is PlanJob"),  # type: ignore[list-item]  # likewise
    (lambda: slipway.plan([PLANNED], None), "pools: is None"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.search(None), "tasks: is None"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.search([], "data"), "executor_names: is 'data'"),
    (lambda: slipway.orchestrate([], on="dl1"), "on: is 'dl1'; allowed is a list"),
    (lambda: slipway.orchestrate([], time_limit=math.nan), "time_limit is nan"),
    (lambda: slipway.estimate("bert_pretrain", on="dl1", nodes=10**5000), "too long to be written nodes"),
    (lambda: slipway.register(5, 6), "a technique's name is 5"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.deregister(3), "name: is 3; allowed is a text or a list"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.run(len, on="dl1", options={}), "options: is {}; allowed is RunOptions"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.RunOptions(attempts="2"), "attempts: is '2'; allowed is a whole number"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.HParams("0.1", epochs=1), "lr: is '0.1'; allowed is a number"),  # type: ignore[arg-type]  # likewise
    (lambda: slipway.HParams(0.1, epochs=1.5), "epochs: is 1.5"),  # type: ignore[arg-type]  # likewise
)  # fmt: skip


@pytest.mark.parametrize(("call", "said"), WRONG)
def test_a_function_refuses_what_it_does_not_take_before_it_does_anything(
    call: Callable[[], object], said: str
) -> None:
    with pytest.raises(SlipwayError) as refused:
        call()
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time_limit": math.nan}, "time_limit is nan; allowed is 0 to 86400"),  # BI-440
        ({"time_limit": -1}, "time_limit is -1; allowed is 0 to 86400"),
        ({"time_limit": "10"}, "time_limit: is '10'; allowed is a number"),
        ({"time_limit": None}, "time_limit: is None"),
        ({"time_limit": 10**5000}, "time_limit is a number of 5001 digits; allowed is 0 to 86400"),  # BI-407
        ({"target_gap": -0.1}, "target_gap is -0.1; allowed is 0 or more"),
        ({"target_gap": math.inf}, "target_gap is inf"),
        ({"seed": 1.5}, "seed: is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"iterations": True}, "iterations: is True"),
        ({"deadline": math.nan}, "deadline: is nan; allowed is a whole number or null"),
        ({"budget": "5"}, "budget: is '5'"),
        ({"progress": 5}, "progress: is 5"),
        ({"objective": None}, "objective: is None"),
        ({"time_limt": 1}, "plan() has no option 'time_limt'"),
    ],
)
def test_a_plan_takes_no_option_that_the_command_line_refuses(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CannotPlan) as refused:
        slipway.plan([PLANNED], [POOL], **options)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("jobs", "pools", "said"),
    [
        ([PlanJob(name="a", modes=(replace(MODE, seconds="10"),))], [POOL], "seconds: is '10'"),  # type: ignore[arg-type]  # the point
        ([PlanJob(name=5, modes=(MODE,))], [POOL], "job 0: name: is 5; allowed is a text"),  # type: ignore[arg-type]  # the point
        ([PlanJob(name="a", modes=None)], [POOL], "job 0: modes: is None"),  # type: ignore[arg-type]  # likewise
        ([PlanJob(name="a", modes=(MODE,), depends_on="b")], [POOL], "depends_on: is 'b'"),  # type: ignore[arg-type]  # likewise
        ([PLANNED], [Pool(type="x", nodes=1, devices_per_node=8, price_per_hour="1")], "price_per_hour: is"),  # type: ignore[arg-type]  # likewise
        ([PLANNED], [Pool(type="x", nodes=1.5, devices_per_node=8, price_per_hour=1)], "nodes: is 1.5"),  # type: ignore[arg-type]  # likewise
    ],
)  # fmt: skip
def test_a_plan_names_the_field_that_holds_another_kind_of_value(
    jobs: list[PlanJob], pools: list[Pool], said: str
) -> None:
    with pytest.raises(CannotPlan) as refused:
        slipway.plan(jobs, pools)
    assert said in refused.value.message


@pytest.mark.parametrize("name", ["curve", "find_run", "orchestrate", "plan", "prepare", "search", "submit"])
def test_a_function_of_the_package_refuses_what_nothing_takes(name: str) -> None:
    nothing: Any = object()
    with pytest.raises(SlipwayError, match="<object object"):
        getattr(slipway, name)(nothing, nothing)
